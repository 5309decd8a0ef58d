"""Retention is bounded, fair to rare contexts, spread over time, and knows which samples must not be fitted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.retention import Coupling, Observation, Pairs, Retention, Thinned, bucket, spans
from ddwatch.core.snapshot import Flag, Sample, Span


def item(batch: int = 1, total: float = 1000.0, step: float = 0.05) -> Observation:
    return Observation(batch=batch, total_context=total, step_seconds=step)


def sample(
    at: float = 0.0,
    *,
    rank: int | None = None,
    batch: int | None = 1,
    total: int | None = 1000,
    step: float | None = 0.05,
    flags: tuple[Flag, ...] = (),
    span: Span = "step",
    engine: str | None = None,
) -> Sample:
    return Sample(
        at=at,
        engine=engine,
        dp_rank=rank,
        batch=batch,
        total_context_tokens=total,
        step_seconds=step,
        accept_length=2.9,
        throughput=58.0,
        flags=flags,
        span=span,
    )


def test_steady_traffic_does_not_erase_the_contexts_that_were_seen_rarely() -> None:
    kept = Retention(200)
    for total in (30_000.0, 60_000.0):
        for _ in range(15):
            kept.add(item(total=total))
    for _ in range(50_000):
        kept.add(item(total=2000.0))

    held = list(kept)
    assert len(held) == len(kept) <= 200
    assert sum(one.total_context > 20_000 for one in held) == 30
    assert kept.offered == 50_030


def test_what_is_kept_of_steady_traffic_is_spread_over_all_of_it() -> None:
    kept = Retention(100)
    for index in range(10_000):
        kept.add(item(step=1.0 + index))

    steps = [one.step_seconds for one in kept]
    assert 50 <= len(steps) <= 100
    gaps = {round(right - left) for left, right in pairwise(steps)}
    assert len(gaps) == 1
    assert steps[0] < 200 and steps[-1] > 9_700


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(1.0, 1e6)), max_size=400), st.integers(2, 50))
def test_it_never_outgrows_its_size(loads: list[tuple[int, float]], size: int) -> None:
    kept = Retention(size)
    for batch, total in loads:
        kept.add(item(batch, total))
        assert len(kept) <= size
    assert len(list(kept)) == len(kept)
    again = Retention(size)
    for batch, total in loads:
        again.add(item(batch, total))
    assert list(again) == list(kept)


def test_more_buckets_than_room_leave_the_ones_that_came_first() -> None:
    kept = Retention(3)
    for power in range(8):
        kept.add(item(total=10.0 * 4.0**power))
    assert [one.total_context for one in kept] == [10.0, 40.0, 160.0]


def test_what_is_given_up_is_gone_and_only_that() -> None:
    kept = Retention()
    good, bad = [[item(1, 2000.0 + 1000.0 * number) for number in range(10)] for _ in range(2)]
    for one, other in zip(good, bad, strict=True):
        kept.add(one)
        kept.add(other)

    assert kept.discard([*bad, item(1, 2000.0)]) == 10, "an equal one that was never kept is none"
    assert (len(kept), sorted(map(id, kept))) == (10, sorted(map(id, good)))
    assert kept.discard(bad) == 0


def test_small_batches_have_a_bucket_each() -> None:
    assert len({bucket(batch, 100.0)[0] for batch in range(1, 7)}) == 6
    assert bucket(0, 0.0) == (0, 0)
    assert bucket(1, 1000.0) != bucket(1, 2000.0)


def test_a_thinned_run_takes_every_nth_after_it_was_halved() -> None:
    run: Thinned[Observation] = Thinned()
    for _ in range(4):
        run.offer(item())
    run.halve()
    assert [run.offer(item()) for _ in range(4)] == [False, True, False, True]
    assert len(run.items) == 4


def test_pairs_hold_neighbours_of_one_rank_and_nothing_that_was_interrupted() -> None:
    pairs = Pairs()
    first, second, third = item(step=1.0), item(step=2.0), item(step=3.0)
    pairs.see((None, 0), first)
    pairs.see((None, 1), second)
    assert pairs.pairs() == []
    pairs.see((None, 0), third)
    assert pairs.pairs() == [(first, third)]
    pairs.interrupt((None, 0))
    pairs.see((None, 0), first)
    pairs.see((None, 0), item(batch=2))
    assert pairs.pairs() == [(first, third)]
    pairs.forget()
    pairs.see((None, 1), first)
    assert pairs.pairs() == [(first, third)]


def test_pairs_stay_bounded_and_paired() -> None:
    pairs = Pairs(10)
    for index in range(1000):
        pairs.see((None, None), item(step=1.0 + index))
    held = pairs.pairs()
    assert len(held) <= 10
    assert all(later.step_seconds - earlier.step_seconds == 1.0 for earlier, later in held)
    other = Pairs(10)
    other.restore(held)
    assert other.pairs() == held
    for rank in range(400):
        pairs.see((None, rank), item())
    assert len(pairs.pairs()) <= 10


@pytest.mark.parametrize(
    "bad",
    [
        sample(flags=("prefill",)),
        sample(span="verify"),
        sample(batch=None),
        sample(batch=0),
        sample(total=None),
        sample(total=0),
        sample(step=None),
        sample(step=float("inf")),
    ],
)
def test_what_is_not_clean_and_whole_gives_no_observation(bad: Sample) -> None:
    assert Coupling().observation(bad) is None


def test_a_clean_sample_becomes_an_observation_with_its_text_class() -> None:
    found = Coupling().observation(sample(batch=2), "code")
    assert found == Observation(
        batch=2,
        total_context=1000.0,
        step_seconds=0.05,
        accept_length=2.9,
        throughput=58.0,
        own_batch=2,
        context_tokens=500.0,
        text_class="code",
    )


def test_ranks_that_step_together_carry_the_largest_load_among_them() -> None:
    coupling = Coupling()
    coupling.observation(sample(0.0, rank=0, batch=8, total=9000))
    shared = coupling.observation(sample(1.0, rank=1, batch=2, total=12_000))
    assert shared is not None
    assert (shared.batch, shared.total_context, shared.own_batch) == (8, 12_000.0, 2)
    assert shared.context_tokens == 6000.0
    later = coupling.observation(sample(100.0, rank=1, batch=2, total=3000))
    assert later is not None and later.batch == 2, "a silent rank has nothing running"


def test_ranks_that_step_apart_carry_their_own() -> None:
    for coupling, ranks in ((Coupling(False), (0, 1)), (Coupling(), (None, None))):
        coupling.observation(sample(0.0, rank=ranks[0], batch=8))
        own = coupling.observation(sample(1.0, rank=ranks[1], batch=2))
        assert own is not None and own.batch == 2
    two_engines = Coupling()
    two_engines.observation(sample(0.0, rank=0, batch=8, engine="a"))
    other = two_engines.observation(sample(0.0, rank=0, batch=2, engine="b"))
    assert other is not None and other.batch == 2


def test_the_coupling_forgets_ranks_beyond_any_real_number() -> None:
    coupling = Coupling()
    for rank in range(600):
        coupling.observation(sample(0.0, rank=rank, batch=rank + 1))
    shared = coupling.observation(sample(0.0, rank=0, batch=1))
    assert shared is not None and shared.batch == 600


def test_rounding_is_known_from_the_printed_decimals() -> None:
    coarse = Observation(batch=1, total_context=1.0, step_seconds=1.0, throughput=0.05)
    assert coarse.rounding() == pytest.approx(0.005 / 0.05 / 3**0.5)
    assert item().rounding() == 0.0


def test_spans() -> None:
    assert spans([item(2, 50.0), item(1, 900.0)]) == (50.0, 900.0, 1, 2)
