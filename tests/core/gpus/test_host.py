"""The host accuses itself only when tokens can wait for it: SGLang's scheduler always spins."""

from typing import Any

import pytest

from ddwatch.core.gpus.book import GpuBook
from ddwatch.core.hardware import GpuReading, HostProcess, HostReading
from ddwatch.core.hardware_view import Finding
from ddwatch.core.history import EventLog, Ring
from tests.core.gpus.machine import BEGIN, card


def watched(seconds: int = 60, utilization: float | None = 0.97, **values: Any) -> tuple[Finding, ...]:
    book = GpuBook(EventLog(Ring()))
    for second in range(0, seconds, 5):
        at = BEGIN + second
        book.see(GpuReading(at=at, cards=(card(0, utilization_ratio=utilization, reasons=0),)))
        book.see(HostReading(at=at, cores=64, **values))
    view = book.host(BEGIN + seconds)
    assert view is not None
    return view.findings


def process(role: Any, cpu: float | None, rank: str | None = None) -> tuple[HostProcess, ...]:
    return (HostProcess(pid=1, role=role, cpu_ratio=cpu, rank=rank),)


@pytest.mark.parametrize("role", ["detokenizer", "tokenizer"])
def test_a_full_core_beside_the_scheduler_is_a_cause(role: str) -> None:
    (found,) = watched(processes=process(role, 0.99))

    assert (found.kind, found.slows, found.since, found.index) == ("cpu-bound", True, BEGIN, None)
    assert found.sentence == f"the {role} keeps one core full (99 %): tokens wait for it"


@pytest.mark.parametrize("utilization", [0.97, 0.0, None])
def test_a_scheduler_that_spins_is_normal(utilization: float | None) -> None:
    assert watched(utilization=utilization, processes=process("scheduler", 1.0, "TP0")) == ()


def test_a_scheduler_that_is_full_while_the_cards_wait_is_a_cause() -> None:
    (found,) = watched(utilization=0.45, processes=process("scheduler", 1.0, "TP0"))

    assert "scheduler of TP0" in found.sentence and "GPUs are busy 45 %" in found.sentence


def test_a_short_peak_is_none() -> None:
    assert watched(15, processes=process("detokenizer", 1.0)) == ()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"run_queue": 200}, "cpu-queue"),
        ({"steal_ratio": 0.2}, "cpu-steal"),
        ({"swap_bytes_per_second": 5e7}, "swap"),
    ],
)
def test_a_host_in_need_is_told(values: dict[str, Any], kind: str) -> None:
    (found,) = watched(**values)

    assert (found.kind, found.grade, found.slows) == (kind, "warning", True)
    assert found.next_step


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"numa_balancing": True, "numa_nodes": 2}, "numa-balancing"),
        ({"governors": ("powersave", "performance")}, "governor"),
    ],
)
def test_settings_are_information(values: dict[str, Any], kind: str) -> None:
    (found,) = watched(**values)

    assert (found.kind, found.grade, found.severity, found.slows) == (kind, "information", "ok", False)


def test_a_host_that_is_well_or_reports_nothing_has_nothing_to_say() -> None:
    assert watched() == ()
    assert watched(run_queue=20, steal_ratio=0.0, swap_bytes_per_second=0.0, governors=("performance",)) == ()
    assert watched(numa_balancing=True, numa_nodes=1, processes=process("detokenizer", None)) == ()
