"""Cards and host in one watch with a service: the snapshot shows them, and they complete its identity."""

from ddwatch.core.hardware import GpuCard, GpuReading, HostProcess, HostReading
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import Crash, GpuNames, Loads, RankLoad, ServerStart, SourceFault, Xid
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


def lost(monitor: Monitor, at: float, *, xid: bool = True) -> None:
    """GPU 5 is gone from one reading to the next, and the driver says why."""
    monitor.accept(GpuReading(at=at - 1, cards=tuple(card(index) for index in range(8))))
    cards = tuple(
        GpuCard(index=5, uuid="GPU-5", pci_bus="0000:16:00.0", lost="GPU is lost") if i == 5 else card(i)
        for i in range(8)
    )
    monitor.accept(GpuReading(at=at, cards=cards))
    if xid:
        monitor.accept(Xid(at=at, code=79, pci_bus="0000:16:00"))


def crashed(monitor: Monitor, at: float) -> None:
    """The engine dies of it, and its port with it."""
    monitor.accept(Loads(at=at - 1, source="loads", ranks=(RankLoad(dp_rank=0, running=1, queued=0),)))
    monitor.accept(Crash(at=at, kind="exception", reason="AcceleratorError: CUDA error: unspecified launch failure"))
    monitor.accept(SourceFault(at=at + 1, source="loads", reason="connection refused", gone=True))


def test_a_server_that_went_down_with_its_card_names_the_card_first() -> None:
    monitor = started()
    lost(monitor, BEGIN + 10)
    crashed(monitor, BEGIN + 12)
    verdict = monitor.at(BEGIN + 20).verdict

    assert verdict.name == "down"
    assert verdict.cause == (
        "Xid 79 on GPU 5: the card has fallen off the bus; "
        "the engine crashed: AcceleratorError: CUDA error: unspecified launch failure"
    )
    assert verdict.next_steps[0].startswith("reboot the host")


def test_a_fault_is_told_by_address_and_by_the_card_that_is_there() -> None:
    monitor = started()
    monitor.accept(Xid(at=BEGIN, code=31, pci_bus="0000:16:00"))
    lost(monitor, BEGIN + 10)

    assert [event.text for event in monitor.history().events if event.kind == "xid"] == [
        "Xid 31 on 0000:16:00: a program touched memory that is not its own",
        "Xid 79 on 0000:16:00 (GPU 5): the card has fallen off the bus",
    ]


def test_a_lost_card_is_named_without_any_xid() -> None:
    monitor = started()
    lost(monitor, BEGIN + 10, xid=False)
    crashed(monitor, BEGIN + 12)

    assert (monitor.at(BEGIN + 20).verdict.cause or "").startswith("GPU 5 cannot be read: GPU is lost; the engine")


def test_a_card_that_was_lost_long_before_did_not_end_the_server() -> None:
    monitor = started()
    lost(monitor, BEGIN + 10)
    crashed(monitor, BEGIN + 1000)

    assert (monitor.at(BEGIN + 1010).verdict.cause or "").startswith("the engine crashed: AcceleratorError")


def test_faults_that_kill_no_engine_are_not_held_against_it() -> None:
    monitor = started()
    lost(monitor, BEGIN + 10, xid=False)
    monitor.accept(Xid(at=BEGIN + 10, code=31, pci_bus="0000:12:00"))
    monitor.accept(Xid(at=BEGIN + 10, code=94, pci_bus="0000:13:00"))
    crashed(monitor, BEGIN + 12)
    cause = monitor.at(BEGIN + 20).verdict.cause or ""

    assert "Xid 31" not in cause and "Xid 94 on GPU 2" in cause and "GPU 5" in cause
