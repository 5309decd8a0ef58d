"""A port that no longer answers beside a silent log blinds at once; a late or wrong port alone does not."""

import pytest

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import (
    Crash,
    LinesSeen,
    Loads,
    RankLoad,
    Record,
    ServerStart,
    ServerStop,
    SourceFault,
    SourceUp,
)
from tests.core.lines import decode

KILLED = 20.0
GONE = "the server is gone, or its port is closed"


def fault(at: float) -> SourceFault:
    return SourceFault(at=at, source="loads", reason="cannot ask http://127.0.0.1:30000: connection refused")


def port(at: float, running: int = 1) -> Loads:
    return Loads(at=at, source="loads", ranks=(RankLoad(dp_rank=0, running=running, queued=0),))


def served(*, every: float = 0.5, answers: bool = True, running: int = 1) -> Monitor:
    """A service with both witnesses, up to the moment when it is killed."""
    monitor = Monitor(started_at=0.0)
    at = 0.0
    while at <= KILLED:
        monitor.accept(decode(at, tokens=1000 + int(at)))
        monitor.accept(LinesSeen(at=at, source="log", lines=1))
        if answers and at % 2.0 < every:
            monitor.accept(port(at, running))
        monitor.at(at)
        at += every
    return monitor


def test_a_killed_server_is_not_judged_any_more_within_five_seconds() -> None:
    monitor = served()
    monitor.accept(fault(KILLED + 2.0))

    assert monitor.at(KILLED + 2.5).verdict.name != "blind"
    verdict = monitor.at(KILLED + 4.5).verdict
    assert (verdict.name, verdict.cause) == ("blind", GONE)
    assert verdict.sentence == (
        "SGLang's port is gone and its log is silent for 4.5 s: cannot ask http://127.0.0.1:30000: connection refused"
    )


def test_an_idle_server_that_is_killed_is_not_called_idle() -> None:
    monitor = served(running=0)
    monitor.accept(decode(KILLED + 0.1, tokens=0, flaw="request-end"))
    monitor.accept(port(KILLED + 0.2, running=0))
    assert monitor.at(KILLED + 1.0).verdict.name != "blind"
    monitor.accept(fault(KILLED + 2.2))

    assert monitor.at(KILLED + 4.5).verdict.cause == GONE


def test_a_port_that_is_only_slow_to_answer_blinds_nobody() -> None:
    monitor = served()
    monitor.accept(fault(KILLED + 0.1))
    for step in range(40):
        monitor.accept(decode(KILLED + 0.2 + 0.5 * step, tokens=1100 + step))
        assert monitor.at(KILLED + 0.3 + 0.5 * step).verdict.cause != GONE


def test_the_usual_distance_between_lines_is_waited_for() -> None:
    monitor = served(every=4.0)
    monitor.accept(fault(KILLED + 2.0))

    assert monitor.at(KILLED + 6.0).verdict.cause != GONE
    assert monitor.at(KILLED + 9.0).verdict.cause == GONE


def test_a_port_that_never_answered_is_a_wrong_address_and_no_witness() -> None:
    monitor = served(answers=False)
    monitor.accept(fault(KILLED + 2.0))

    assert monitor.at(KILLED + 10.0).verdict.cause != GONE


@pytest.mark.parametrize("back", ["port", "log", "start"])
def test_it_ends_with_the_first_sign_of_life(back: str) -> None:
    monitor = served()
    monitor.accept(fault(KILLED + 2.0))
    assert monitor.at(KILLED + 6.0).verdict.cause == GONE
    match back:
        case "port":
            monitor.accept(port(KILLED + 7.0))
        case "log":
            monitor.accept(decode(KILLED + 7.0))
        case _:
            monitor.accept(ServerStart(at=KILLED + 7.0, arguments={"model_path": "K"}))

    assert monitor.at(KILLED + 7.5).verdict.cause != GONE


def test_who_gave_a_port_that_does_not_answer_is_not_told_to_give_one() -> None:
    monitor = served(answers=False)
    assert monitor.at(KILLED + 60.0).verdict.next_steps == ("give --sglang-url to tell idle from stuck",)
    monitor.accept(fault(KILLED + 60.5))
    verdict = monitor.at(KILLED + 61.0).verdict
    assert (verdict.name, verdict.next_steps) == (
        "blind",
        ("mend --sglang-url to tell idle from stuck: cannot ask http://127.0.0.1:30000: connection refused",),
    )


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (LinesSeen(at=1.0, source="log", lines=1), "no request yet"),
        (
            SourceFault(at=1.0, source="log", reason="there is no file a.log yet", waiting=True),
            "nothing has been heard of it yet",
        ),
        (Crash(at=1.0, kind="exception", reason="RuntimeError"), "the server crashed"),
        (ServerStop(at=1.0), "somebody stopped the server"),
    ],
)
def test_what_blinds_is_said_in_words_that_an_operator_reads(record: Record, cause: str) -> None:
    monitor = Monitor(started_at=0.0)
    if not isinstance(record, SourceFault):
        monitor.accept(SourceUp(at=0.5, source="log"))
    monitor.accept(record)

    verdict = monitor.at(2.0).verdict
    assert (verdict.name, verdict.cause) == ("blind", cause)


def crashed(until: int, *, answers: bool) -> Monitor:
    """A scheduler that dies of NCCL while the process that answers its port lives on."""
    monitor = served()
    monitor.accept(Crash(at=KILLED + 0.6, kind="nccl", reason="NCCL error"))
    for second in range(1, until):
        if answers:
            monitor.accept(port(KILLED + second))
        monitor.at(KILLED + second)
    return monitor


def test_a_port_that_answers_behind_a_crash_is_not_asked_for() -> None:
    sentence = crashed(4, answers=True).at(KILLED + 4.0).verdict.sentence
    assert sentence == "the log ends in a crash (NCCL error), and SGLang's port still answers"


def test_a_dead_scheduler_behind_a_port_that_answers_is_stalled_by_its_crash() -> None:
    """Its health probe says 200 for ever: liveness comes from progress, and the log says why there is none."""
    verdict = crashed(60, answers=True).at(KILLED + 60.0).verdict

    assert (verdict.name, verdict.cause) == ("stalled", "the engine crashed: NCCL error")
    assert verdict.next_steps[0].startswith("start it again")
