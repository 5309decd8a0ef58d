"""Starved, stalled and silent are told apart from each other and from idle."""

import pytest

from ddwatch.core.detection.progress import Progress
from ddwatch.core.hardware import HostProcess, HostReading
from ddwatch.core.records import DecodeBatch, Loads, PrefillBatch, Rank, RankLoad, ServerStart
from tests.core.detection.traffic import START


def decode(at: float, running: int = 2, dp: int | None = None, *, ended: bool = False) -> DecodeBatch:
    """A decode line."""
    return DecodeBatch(at=START + at, running=running, rank=Rank(dp=dp), context_flaw="request-end" if ended else None)


def prefill(at: float, running: int = 2, tokens: int = 8192) -> PrefillBatch:
    """A prefill line of one request."""
    return PrefillBatch(at=START + at, running=running, new_requests=1, new_tokens=tokens)


def loads(at: float, running: int, steps: float, used: int = 5000) -> Loads:
    """The server's own word."""
    moments = (steps, steps, steps * 30000.0, steps, steps * 30000.0, steps * 3.0)
    return Loads(
        at=START + at,
        source="loads",
        ranks=(RankLoad(dp_rank=0, running=running, used_tokens=used, moments=moments),),
    )


def host(at: float, processes: int = 2) -> HostReading:
    """The host names the engine's schedulers."""
    engine = tuple(HostProcess(pid=4000 + rank, role="scheduler", rank=f"TP{rank}") for rank in range(processes))
    return HostReading(at=START + at, processes=engine)


def told(progress: Progress, at: float) -> str | None:
    """Name and phase of what holds."""
    state = progress.state(START + at)
    return None if state is None else f"{state.name} {state.phase}"


def test_chunked_prefill_for_five_minutes_is_starved_and_nothing_else() -> None:
    progress = Progress()
    progress.see(decode(0.0))
    seen = set()
    for second in range(2, 320, 2):
        progress.see(prefill(float(second)))
        seen.add(told(progress, second + 1.0))

    assert seen == {None, "starved pending", "starved firing"}
    state = progress.state(START + 319.0)
    assert state is not None and state.since == START
    progress.see(decode(320.0))
    assert told(progress, 321.0) is None


def test_a_long_prefill_beside_nothing_starves_nobody() -> None:
    progress = Progress()
    for second in range(0, 120, 2):
        progress.see(prefill(float(second), running=0))
        assert told(progress, second + 1.0) is None


def test_a_few_prefills_between_decode_lines_starve_nobody() -> None:
    progress = Progress()
    for second in range(0, 600, 6):
        progress.see(decode(float(second)))
        progress.see(prefill(second + 2.0))
        progress.see(prefill(second + 4.0))
        assert told(progress, second + 5.0) is None


def test_the_log_falls_silent_while_requests_run() -> None:
    progress = Progress()
    progress.see(decode(0.0))

    assert told(progress, 10.0) is None
    assert told(progress, 20.0) == "silent pending"
    assert told(progress, 40.0) == "silent firing"


def test_a_living_process_that_logs_every_step_turns_silence_into_a_stall() -> None:
    progress = Progress()
    progress.every_step = True
    progress.see(decode(0.0))
    for second in (5.0, 38.0):
        progress.see(host(second))
    assert told(progress, 40.0) == "stalled firing"

    progress.every_step = False
    assert told(progress, 40.0) == "silent firing"
    state = progress.state(START + 40.0)
    assert state is not None
    assert (state.evidence["witness"], state.evidence["pid"]) == ("process", 4000)


def test_a_process_that_has_ended_is_gone_once_its_last_lines_are_through() -> None:
    progress = Progress()
    progress.see(decode(0.0))
    progress.see(host(5.0))
    progress.see(host(10.0, processes=0))
    assert told(progress, 11.0) is None
    assert told(progress, 12.0) == "gone firing"
    progress.see(decode(12.5))
    assert told(progress, 13.0) is None
    state = progress.state(START + 20.0)
    assert state is not None and (state.name, state.since) == ("gone", START + 10.0)

    progress.see(ServerStart(at=START + 21.0))
    assert told(progress, 60.0) is None


def test_an_engine_that_works_on_is_not_what_has_ended() -> None:
    progress = Progress()
    progress.cadence = 4.0
    progress.see(decode(0.0))
    progress.see(host(5.0))
    progress.see(host(10.0, processes=0))
    assert told(progress, 13.0) is None, "its lines are four seconds apart"
    progress.see(decode(12.0))
    progress.see(decode(16.0))
    progress.see(host(20.0, processes=0))
    assert told(progress, 29.0) is None


def test_loads_that_do_not_move_are_a_stall() -> None:
    progress = Progress()
    for second in range(0, 20, 2):
        progress.see(loads(float(second), 3, 100.0 + 15.0 * second))
    for second in range(20, 60, 2):
        progress.see(loads(float(second), 3, 370.0))

    state = progress.state(START + 60.0)
    assert state is not None
    assert (state.name, state.phase, state.since) == ("stalled", "firing", START + 18.0)
    assert state.evidence["running"] == 3
    assert state.evidence["witness"] == "loads"


def test_loads_that_show_a_growing_pool_are_no_stall() -> None:
    progress = Progress()
    for second in range(0, 200, 2):
        progress.see(loads(float(second), 1, 100.0, used=5000 + 8192 * second))
        assert told(progress, second + 1.0) is None


def test_idle_by_the_servers_word_or_by_the_log_is_no_stall() -> None:
    progress = Progress()
    progress.see(decode(0.0))
    for second in range(0, 400, 2):
        progress.see(loads(float(second), 0, 100.0))
    assert told(progress, 400.0) is None

    by_log = Progress()
    by_log.see(decode(0.0))
    by_log.see(decode(2.0, running=1, ended=True))
    for at in (5.0, 398.0):
        by_log.see(host(at))
    assert told(by_log, 400.0) is None


def test_a_request_that_arrives_after_idle_gets_its_time() -> None:
    progress = Progress()
    for second in range(0, 300, 2):
        progress.see(loads(float(second), 0, 100.0))
    for second in range(300, 322, 2):
        progress.see(loads(float(second), 1, 100.0))

    assert told(progress, 310.0) is None
    assert told(progress, 335.0) == "stalled firing"


def test_a_rank_that_ended_does_not_hide_one_that_hangs() -> None:
    progress = Progress()
    progress.see(decode(0.0, dp=0))
    progress.see(decode(1.0, dp=1, ended=True))

    assert told(progress, 40.0) == "silent firing"


@pytest.mark.parametrize("cadence", [6.0, 12.0])
def test_slow_windows_raise_the_limit(cadence: float) -> None:
    progress = Progress()
    progress.cadence = cadence
    progress.see(decode(0.0))
    limit = max(30.0, 6.0 * cadence)

    assert told(progress, limit - 1.0) == "silent pending"
    assert told(progress, limit + 1.0) == "silent firing"


def test_a_health_probe_on_an_idle_server_runs_nothing() -> None:
    progress = Progress()
    progress.see(prefill(0.0, running=0, tokens=1))

    assert told(progress, 300.0) is None


def test_a_start_expects_nothing_yet() -> None:
    progress = Progress()
    progress.see(decode(0.0))
    progress.see(ServerStart(at=START + 5.0))
    progress.see(host(600.0))

    assert told(progress, 600.0) is None
