"""Cards and host in one watch with a service: the snapshot shows them, and they complete its identity."""

from ddwatch.core.hardware import GpuReading, HostProcess, HostReading
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import GpuNames, ServerStart
from tests.core.gpus.machine import BEGIN, card


def started() -> Monitor:
    monitor = Monitor(started_at=BEGIN)
    monitor.accept(ServerStart(at=BEGIN, arguments={"model_path": "a/model", "tp_size": 8}))
    return monitor


def told(monitor: Monitor) -> list[str]:
    return [event.text for event in monitor.history().events if event.kind == "arguments"]


def test_cards_that_become_known_are_no_other_setup() -> None:
    monitor = started()
    monitor.accept(GpuNames(at=BEGIN + 1, names=("Card",) * 8))

    assert told(monitor) == []
    assert (monitor.at(BEGIN + 2).server.gpu_name, monitor.at(BEGIN + 2).server.gpu_count) == ("Card", 8)


def test_other_cards_are_another_setup() -> None:
    monitor = started()
    monitor.accept(GpuNames(at=BEGIN + 1, names=("Card",) * 8))
    monitor.accept(GpuNames(at=BEGIN + 9, names=("Card",) * 4))

    assert told(monitor) == ["this is another setup now: it is judged by its own profile"]


def test_a_snapshot_shows_cards_host_and_what_both_say_together() -> None:
    monitor = started()
    for second in range(0, 60):
        at = BEGIN + second
        monitor.accept(GpuReading(at=at, cards=tuple(card(index, utilization_ratio=0.5) for index in range(2))))
        if second % 5 == 0:
            process = HostProcess(pid=1, role="scheduler", rank="TP0", cpu_ratio=1.0)
            monitor.accept(HostReading(at=at, cores=64, processes=(process,)))
    shown = monitor.at(BEGIN + 60)

    assert [view.card.index for view in shown.gpus] == [0, 1]
    assert shown.host is not None and [item.kind for item in shown.host.findings] == ["cpu-bound"]
    assert [event.kind for event in monitor.history().events if event.kind in ("gpu", "host")] == ["host"]
    assert {source.name: source.state for source in shown.sources} == {"nvml": "up", "host": "up"}


def test_a_watch_without_hardware_shows_none() -> None:
    shown = started().at(BEGIN + 1)

    assert shown.gpus == () and shown.host is None
