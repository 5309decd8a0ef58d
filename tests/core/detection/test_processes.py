"""The engine's processes are those that were there while it worked; nothing is concluded from any others."""

from ddwatch.core.detection.processes import EngineProcesses
from ddwatch.core.hardware import HostProcess, HostReading, HostRole


def reading(at: float, *schedulers: tuple[int, str | None], role: HostRole = "scheduler") -> HostReading:
    return HostReading(at=at, processes=tuple(HostProcess(pid=pid, role=role, rank=rank) for pid, rank in schedulers))


def seen(*readings: HostReading, worked_at: float | None = 8.0) -> tuple[float | None, float | None, int | None]:
    processes = EngineProcesses()
    for one in readings:
        processes.read(one, worked_at)
    return processes.alive_at, processes.gone_at, processes.pid


BOTH = ((11, "TP0"), (12, "TP1"))


def test_what_was_there_while_it_worked_lives_until_all_of_it_is_gone() -> None:
    assert seen(reading(10.0, *BOTH)) == (10.0, None, 11)
    assert seen(reading(10.0, *BOTH), reading(60.0, BOTH[1])) == (60.0, None, 12)
    assert seen(reading(10.0, *BOTH), reading(60.0), reading(65.0)) == (None, 60.0, 11)


def test_before_it_worked_and_without_schedulers_nothing_is_known() -> None:
    assert seen(reading(10.0, *BOTH), worked_at=None) == (None, None, None)
    assert seen(reading(100.0, *BOTH), reading(105.0)) == (None, None, None)
    assert seen(reading(10.0, (11, None), role="tokenizer"), reading(60.0)) == (None, None, None)


def test_two_engines_on_one_host_cannot_be_told_apart() -> None:
    assert seen(reading(10.0, (11, "TP0"), (21, "TP0")), reading(60.0)) == (None, None, None)
    assert seen(reading(10.0, (11, None), (21, None)), reading(60.0)) == (None, None, None)


def test_one_that_comes_later_does_not_stand_for_it() -> None:
    assert seen(reading(10.0, *BOTH), reading(60.0, (21, "TP0"), (22, "TP1"))) == (None, 60.0, 11)
    assert seen(reading(10.0, *BOTH), reading(60.0, *BOTH, (21, "TP0"))) == (60.0, None, 11)


def test_a_restart_forgets_which_it_were() -> None:
    processes = EngineProcesses()
    processes.read(reading(10.0, *BOTH), 8.0)
    processes.restart()
    processes.read(reading(60.0), 8.0)
    assert (processes.alive_at, processes.gone_at, processes.pid) == (None, None, None)
