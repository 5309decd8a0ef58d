"""Counts say what was counted; what was not counted has no key."""

from itertools import pairwise

from ddwatch.core.snapshot import Sample
from ddwatch.core.tallies import ACCEPT_BOUNDS, LATENCY_BOUNDS, Count


def sample(clean: bool = True, batch: int | None = 2, accept: float | None = 3.0) -> Sample:
    return Sample(
        at=0.0, batch=batch, accept_length=accept, step_seconds=0.03, flags=() if clean else ("first",), dp_rank=1
    )


def test_the_bounds_are_those_of_the_interface() -> None:
    assert (ACCEPT_BOUNDS[0], ACCEPT_BOUNDS[1], ACCEPT_BOUNDS[-1]) == (1.0, 1.5, 17.0)
    assert (LATENCY_BOUNDS[0], LATENCY_BOUNDS[-1]) == (0.001, 2.0)
    ratios = [b / a for a, b in pairwise(LATENCY_BOUNDS)]
    assert all(1.0 < ratio < 1.26 for ratio in ratios)


def test_steps_are_counted_only_where_the_interval_is_known() -> None:
    count = Count()
    count.sample(sample(), None)
    assert count.frozen(0).steps == {}
    count.sample(sample(), 40)
    assert count.frozen(0).steps == {1: 40}
    assert count.frozen(0).tokens == {}


def test_tokens_are_counted_where_a_line_is_one_step() -> None:
    count = Count()
    count.sample(sample(clean=False), 1)
    count.sample(sample(accept=None), 1)
    count.sample(sample(batch=None), 1)
    assert count.frozen(2).tokens == {1: 8.0}
    assert count.frozen(2).restarts == 2


def test_contaminated_samples_are_in_no_histogram() -> None:
    count = Count()
    count.sample(sample(clean=False), 1)
    assert count.frozen(0).accept_length == {}
    count.sample(sample(), 1)
    count.sample(sample(), None)
    tallies = count.frozen(0)
    assert {key.resolution for key in tallies.accept_length} == {"step", "window"}
    histogram = next(iter(tallies.step_seconds.values()))
    assert sum(histogram.counts) == 1
    assert histogram.total == 0.03


def test_a_value_on_a_bound_falls_at_or_below_it() -> None:
    count = Count()
    count.sample(sample(accept=1.0), 1)
    count.sample(sample(accept=40.0), 1)
    count.sample(Sample(at=0.0, dp_rank=1), 1)
    (histogram,) = count.frozen(0).accept_length.values()
    assert histogram.counts[0] == 1
    assert histogram.counts[-1] == 1


def test_a_step_that_several_witnesses_tell_is_counted_once() -> None:
    count = Count()
    passed = Sample(at=0.0, batch=2, step_seconds=0.02, span="forward", provenance="fpm", steps=1, dp_rank=1)
    count.sample(sample(), 1)
    count.sample(passed, 1)
    count.sample(sample(), 1)
    assert count.frozen(0).steps == {1: 2}, "passes count from their first on"
    assert count.frozen(0).tokens == {1: 12.0}, "passes tell no tokens, so lines go on counting them"
    moments = Sample(at=0.0, batch=2, step_seconds=0.03, throughput=200.0, provenance="moments", steps=10, dp_rank=1)
    count.sample(moments, 10)
    assert count.frozen(0).steps == {1: 2}, "the first moments span steps that were told already"
    count.sample(moments, 10)
    count.sample(passed, 1)
    assert count.frozen(0).steps == {1: 12}
    spans = {(key.span, key.provenance) for key in count.frozen(0).step_seconds}
    assert spans == {("step", "log"), ("forward", "fpm"), ("step", "moments")}
