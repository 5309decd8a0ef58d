"""A real sidecar beside simulated cards: its page, its snapshot, its settings; and that hardware never hides a log."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.config import Settings
from ddwatch_sidecar.hardware import hardware_endpoints, too_often

from ddwatch.core import wire
from ddwatch.core.hardware import GpuReading
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, LinesSeen, SourceFault, SourceUp, Xid
from ddwatch.core.snapshot import Snapshot
from tests.core.gpus.machine import BEGIN, card
from tests.fakes.log_writer import LogWriter
from tests.fakes.nvml_stub.library import Machine, build, uuid
from tests.sidecar.running import Sidecar, decode_line, running


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def snapshot(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


@pytest.fixture
def machine(needs_command: Callable[[str], Path], tmp_path: Path) -> tuple[Machine, dict[str, str]]:
    needs_command("gcc")
    cards = Machine(tmp_path / "scenario", 8)
    return cards, {"DDWATCH_NVML": "yes", **cards.environment(build(tmp_path / "library"))}


def test_cards_reach_the_page_and_the_snapshot_and_a_straggler_the_timeline(
    machine: tuple[Machine, dict[str, str]], tmp_path: Path
) -> None:
    cards, environment = machine
    words = ("--gpu-seconds", "0.5")
    with (
        LogWriter(tmp_path / "server.log") as log,
        running("--log", str(log.path), *words, environment=environment) as it,
    ):
        log.line(decode_line(1))
        until(lambda: len(snapshot(it).gpus) == 8)
        cards.set("gpu 3 sm_clock 1200", "gpu 3 reasons 64")
        cards.xid(5, 48)
        until(lambda: "is too hot" in it.get("/v1/history").text)
        shown = snapshot(it)
        page = it.get("/metrics").text

    assert [view.card.uuid for view in shown.gpus] == [uuid(index) for index in range(8)]
    assert shown.gpus[3].state == "critical" and shown.gpus[3].reasons == ("hw_thermal_slowdown",)
    assert shown.host is not None and shown.host.reading.cores
    assert (shown.server.gpu_count, shown.server.gpu_name) == (8, shown.gpus[0].card.name)
    assert {source.name for source in shown.sources} == {"log", "nvml", "host", "kernel log"}
    assert shown.sources[0].name == "log" and "8 GPUs" in next(s.detail for s in shown.sources if s.name == "nvml")
    assert f'ddwatch_gpu_sm_clock_hertz{{gpu="3",uuid="{uuid(3)}"}} 1.2e+09' in page
    assert f'ddwatch_gpu_throttle{{gpu="3",reason="hw_thermal_slowdown",uuid="{uuid(3)}"}} 1.0' in page
    assert f'ddwatch_gpu_xid_errors_total{{gpu="5",uuid="{uuid(5)}",xid="48"}} 1.0' in page
    assert "nvlink" not in page.replace("# HELP ddwatch_gpu_nvlink", "").replace("# TYPE ddwatch_gpu_nvlink", "")


def test_hardware_can_be_left_alone(machine: tuple[Machine, dict[str, str]], tmp_path: Path) -> None:
    _, environment = machine
    with (
        LogWriter(tmp_path / "server.log") as log,
        running("--log", str(log.path), "--no-nvml", environment=environment) as it,
    ):
        log.line(decode_line(1))
        until(lambda: any(source.lines for source in snapshot(it).sources))
        assert [source.name for source in snapshot(it).sources] == ["log"]
        assert "ddwatch_gpu_sm_clock_hertz{" not in it.get("/metrics").text


def test_readings_below_the_floor_are_clamped_with_a_message() -> None:
    said = too_often(Settings(gpu_seconds=0.1))

    assert said is not None and "0.1 s" in said and "every 0.5 s" in said
    assert too_often(Settings(gpu_seconds=0.5)) is None
    assert too_often(Settings(gpu_seconds=0.1, nvml=False)) is None


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["nvml", "host", "kernel log"]),
        ({"nvml": True}, ["nvml", "host", "kernel log"]),
        ({"nvml": False}, []),
        ({"simulated": True}, []),
        ({"simulated": True, "nvml": True}, []),
        ({"simulated": True, "nvml_library": "/a/library.so"}, ["nvml"]),
        ({"simulated": True, "nvml": False, "nvml_library": "/a/library.so"}, []),
        ({"simulated": True, "nvml_absent": "none here"}, ["nvml"]),
        ({"nvml": False, "nvml_absent": "none here"}, []),
    ],
)
def test_a_simulation_shows_no_real_hardware(settings: dict[str, Any], names: list[str]) -> None:
    assert [endpoint.name for endpoint in hardware_endpoints(Settings(**settings))] == names


def test_cards_that_are_read_do_not_hide_a_lost_log() -> None:
    monitor = Monitor(started_at=BEGIN)
    monitor.accept(SourceUp(at=BEGIN, source="nvml"))
    monitor.accept(GpuReading(at=BEGIN, cards=(card(0),)))
    monitor.accept(SourceFault(at=BEGIN, source="log", reason="the log is gone"))
    shown = monitor.at(BEGIN + 1)

    assert shown.verdict.name == "blind" and "the log is gone" in shown.verdict.sentence
    assert [source.name for source in shown.sources] == ["log", "nvml"]


def test_a_lost_driver_does_not_blind_a_log() -> None:
    monitor = Monitor(started_at=BEGIN)
    for second in range(30):
        at = BEGIN + second
        monitor.accept(LinesSeen(at=at, source="log", lines=1))
        monitor.accept(
            DecodeBatch(
                at=at,
                running=1,
                total_context_tokens=5000 + second,
                accept_length=2.9,
                throughput_tokens_per_second=32.0,
                queued=0,
            )
        )
    before = monitor.at(BEGIN + 30).verdict.name
    monitor.accept(SourceFault(at=BEGIN + 30, source="nvml", reason="the driver is gone"))

    assert monitor.at(BEGIN + 30).verdict.name == before != "blind"


def test_a_fault_of_the_driver_reaches_the_card_the_timeline_and_the_snapshot() -> None:
    monitor = Monitor(started_at=BEGIN)
    monitor.accept(GpuReading(at=BEGIN, cards=(card(0), card(1))))
    monitor.accept(Xid(at=BEGIN + 1, code=48, pci_bus="0000:12:00"))
    monitor.accept(GpuReading(at=BEGIN + 2, cards=(card(0), card(1))))
    shown = monitor.at(BEGIN + 2)

    assert [view.xids for view in shown.gpus] == [{}, {"48": 1}]
    assert [item.kind for item in shown.gpus[1].findings] == ["xid"]
    assert [event.text for event in monitor.history().events if event.kind == "xid"] == [
        "Xid 48 on 0000:12:00 (GPU 1): memory error that could not be corrected"
    ]
