"""Two readings of the cumulative moments give the steps between them, clean of idle time and prefill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.moments import Moments
from ddwatch.core.records import Loads, RankLoad

Cumulative = tuple[float, float, float, float, float, float]


class Engine:
    """Adds up moments as the scheduler does."""

    def __init__(self) -> None:
        self.sums = [0.0] * 6

    def step(self, batch: int, seconds: float, tokens: int) -> None:
        micros = seconds * 1e6
        for i, value in enumerate((1, batch, micros, batch**2, batch * micros, tokens)):
            self.sums[i] += value

    def load(self, dp: int | None = 0, running: int | None = 1, used: int | None = 1000) -> RankLoad:
        a, b, c, d, e, f = self.sums
        return RankLoad(dp_rank=dp, running=running, used_tokens=used, moments=(a, b, c, d, e, f))


def loads(at: float, *ranks: RankLoad) -> Loads:
    return Loads(at=at, source="loads", ranks=ranks)


def test_two_readings_give_the_mean_step() -> None:
    engine, moments = Engine(), Moments()
    engine.step(1, 9.0, 1)
    assert moments.see(loads(0, engine.load(used=1000)), warming=False) == ([], False)
    for _ in range(20):
        engine.step(2, 0.050, 6)
    (sample,), restarted = moments.see(loads(2, engine.load(running=2, used=2400)), warming=False)
    assert not restarted
    assert sample.step_seconds == pytest.approx(0.050)
    assert sample.accept_length == pytest.approx(3.0)
    assert sample.throughput == pytest.approx(120.0)
    assert (sample.batch, sample.mean_batch, sample.steps) == (2, 2.0, 20)
    assert sample.context_tokens == pytest.approx(1100)
    assert sample.total_context_tokens == 2200
    assert (sample.provenance, sample.span, sample.flags, sample.dp_rank) == ("moments", "step", (), None)


def test_too_few_steps_add_up_until_the_next_reading() -> None:
    engine, moments = Engine(), Moments()
    moments.see(loads(0, engine.load()), warming=False)
    for at in (2, 4):
        for _ in range(5):
            engine.step(1, 0.1, 3)
        samples, _ = moments.see(loads(at, engine.load()), warming=False)
    assert samples[0].steps == 10


def test_a_decrease_is_a_restart_and_no_sample() -> None:
    engine, moments = Engine(), Moments()
    for _ in range(50):
        engine.step(1, 0.1, 3)
    moments.see(loads(0, engine.load()), warming=False)
    fresh = Engine()
    fresh.step(1, 0.1, 3)
    assert moments.see(loads(2, fresh.load()), warming=False) == ([], True)


def test_a_mixed_batch_a_long_interval_and_a_warm_up_contaminate() -> None:
    engine, moments = Engine(), Moments()
    moments.see(loads(0, engine.load()), warming=False)
    for batch in (1, 16) * 10:
        engine.step(batch, 0.1, 3 * batch)
    (sample,), _ = moments.see(loads(100, engine.load()), warming=True)
    assert sample.flags == ("batch-changed", "gap", "warming")


def test_an_idle_server_moves_its_base_so_that_old_contexts_do_not_linger() -> None:
    engine, moments = Engine(), Moments()
    moments.see(loads(0, engine.load(used=90_000)), warming=False)
    moments.see(loads(100, engine.load(running=0, used=0)), warming=False)
    for _ in range(10):
        engine.step(1, 0.1, 3)
    (sample,), _ = moments.see(loads(102, engine.load(used=500)), warming=False)
    assert sample.context_tokens == 500


def test_ranks_are_differenced_apart_and_keep_their_numbers() -> None:
    one, two, moments = Engine(), Engine(), Moments()
    moments.see(loads(0, one.load(0), two.load(1)), warming=False)
    for _ in range(10):
        one.step(1, 0.1, 3)
        two.step(4, 0.2, 12)
    samples, _ = moments.see(loads(2, one.load(0), two.load(1)), warming=False)
    assert [(s.dp_rank, s.batch) for s in samples] == [(0, 1), (1, 4)]


def test_what_is_absent_stays_absent() -> None:
    engine, moments = Engine(), Moments()
    assert moments.see(loads(0, RankLoad(dp_rank=0)), warming=False) == ([], False)
    moments.see(loads(1, engine.load(running=None)), warming=False)
    for _ in range(10):
        engine.step(1, 0.1, 3)
    (sample,), _ = moments.see(loads(2, engine.load(running=0)), warming=False)
    assert sample.context_tokens is None
    assert sample.total_context_tokens is None
    moments.clear()
    assert moments.see(loads(3, engine.load()), warming=False) == ([], False)


def test_moments_that_make_no_sense_give_no_sample() -> None:
    moments = Moments()
    moments.see(loads(0, RankLoad(dp_rank=0, moments=(0, 0, 0, 0, 0, 0))), warming=False)
    assert moments.see(loads(2, RankLoad(dp_rank=0, moments=(20, 0, 5, 0, 0, 1))), warming=False)[0] == []


@given(st.lists(st.tuples(st.integers(1, 16), st.floats(0.001, 1.9), st.integers(1, 17)), min_size=8, max_size=60))
def test_any_run_of_steps_is_measured_exactly(steps: list[tuple[int, float, int]]) -> None:
    engine, moments = Engine(), Moments()
    moments.see(loads(0, engine.load()), warming=False)
    for batch, seconds, accept in steps:
        engine.step(batch, seconds, accept * batch)
    (sample,), _ = moments.see(loads(2, engine.load()), warming=False)
    assert sample.step_seconds == pytest.approx(sum(s for _, s, _ in steps) / len(steps))
    assert sample.mean_batch == pytest.approx(sum(b for b, _, _ in steps) / len(steps))
