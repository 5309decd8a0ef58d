"""A point is one second of all live ranks; contaminated samples never enter a mean."""

from collections.abc import Sequence

import pytest

from ddwatch.core.history import Ring
from ddwatch.core.seconds import Seconds
from ddwatch.core.snapshot import Expected, Flag, Sample


def no_model(samples: Sequence[Sample]) -> Expected | None:
    return None


def sample(at: float, throughput: float | None = 100.0, *flags: Flag, dp: int = 0, batch: int = 1) -> Sample:
    return Sample(
        at=at,
        dp_rank=dp,
        batch=batch,
        total_context_tokens=1000 * batch,
        context_tokens=1000.0,
        accept_length=3.0,
        throughput=throughput,
        step_seconds=0.03,
        flags=flags,
    )


def test_a_second_is_the_mean_of_its_clean_samples() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    for offset, value in ((0.1, 90.0), (0.4, 100.0), (0.9, 130.0)):
        seconds.add((None, 0), sample(10 + offset, value))
    seconds.add((None, 0), sample(10.95, 1.0, "first"))
    assert not seconds.open_until(10.99)
    assert seconds.open_until(11.0)
    seconds.close({}, 0, no_model)
    (point,) = ring.since(0).points
    assert (point.at, point.throughput, point.contaminated, point.queued) == (10.0, 320 / 3, False, 0)
    assert point.context_tokens == 1000


def test_a_second_without_a_clean_sample_is_shown_as_contaminated() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.add((None, 0), sample(1.0, 0.2, "first"))
    seconds.close({}, None, no_model)
    assert ring.since(0).points[0].contaminated
    window = seconds.window(2.0)
    assert (window.samples, window.clean, window.clean_ratio) == (1, 0, 0.0)
    assert window.throughput_median is None
    assert window.flag_counts == {"first": 1}


def test_ranks_are_summed_and_a_silent_live_rank_counts_with_its_last_word() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.add((None, 0), sample(1.0, 100.0, dp=0, batch=2))
    seconds.close({(None, 0): sample(1.0), (None, 1): sample(0.0, 50.0, dp=1)}, 3, no_model)
    (point,) = ring.since(0).points
    assert point.throughput == 150.0
    assert point.batch == 3
    assert not point.contaminated


def test_a_rank_that_has_no_clean_sample_in_the_second_counts_with_its_last_clean_one() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.add((None, 0), sample(1.0, 100.0, dp=0))
    seconds.add((None, 1), sample(1.1, 0.1, "idle", dp=1))
    seconds.close({(None, 0): sample(1.0), (None, 1): sample(0.0, 80.0, dp=1)}, None, no_model)
    (point,) = ring.since(0).points
    assert (point.throughput, point.contaminated) == (180.0, False)


def test_a_sum_with_a_contaminated_part_is_contaminated() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.add((None, 0), sample(1.0, 100.0, dp=0))
    seconds.close({(None, 1): sample(0.0, 0.2, "first", dp=1)}, None, no_model)
    assert ring.since(0).points[0].contaminated


def test_absent_values_stay_absent() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.add((None, None), Sample(at=1.0))
    seconds.close({}, None, no_model)
    (point,) = ring.since(0).points
    assert (point.throughput, point.batch, point.context_tokens, point.accept_length) == (None, None, None, None)
    seconds.close({}, None, no_model)
    assert len(ring.since(0).points) == 1


def test_idle_and_gaps_are_marked_once_and_only_after_data() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.mark(0.0, "gap")
    assert ring.since(0).points == ()
    seconds.add((None, 0), sample(5.0))
    seconds.close({}, None, no_model)
    seconds.mark(4.0, "idle")
    seconds.mark(6.0, "idle")
    assert [(p.state, p.at) for p in ring.since(0).points] == [("data", 5.0), ("idle", 5.0)]


def test_a_gap_inside_the_open_second_stands_behind_that_second_even_when_it_is_the_first() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    seconds.add((None, 0), sample(5.2))
    seconds.mark(5.4, "gap")
    seconds.mark(5.5, "gap")
    seconds.add((None, 0), sample(5.8))
    assert ring.since(0).points == ()
    seconds.close({}, None, no_model)
    assert [(p.state, p.at) for p in ring.since(0).points] == [("data", 5.0), ("gap", 5.4)]


def test_the_window_forgets_after_five_minutes() -> None:
    ring = Ring()
    seconds = Seconds(ring)
    for at in range(400):
        seconds.add((None, 0), sample(float(at), 100.0 + at))
        seconds.close({}, None, no_model)
    window = seconds.window(400.0)
    assert window.samples == 300
    assert window.throughput_min == pytest.approx(200.0)
    assert seconds.window(400.5) is window
    assert seconds.window(701.0).samples == 0
    assert seconds.window(701.0).clean_ratio is None


def test_what_a_log_held_before_is_in_the_window_in_the_very_second_in_which_it_is_read() -> None:
    seconds = Seconds(Ring())
    assert seconds.window(100.2).samples == 0
    seconds.add((None, 0), sample(40.0))
    seconds.close({}, None, no_model)
    window = seconds.window(100.4)
    assert (window.samples, window.throughput_median) == (1, 100.0)
    seconds.add((None, 0), sample(41.0))
    seconds.close({}, None, no_model)
    assert seconds.window(100.6).samples == 2


def test_the_first_sample_of_all_is_in_the_window_at_once_and_later_ones_within_a_second() -> None:
    seconds = Seconds(Ring())
    assert seconds.window(100.2).samples == 0
    seconds.add((None, 0), sample(100.3))
    first = seconds.window(100.4)
    assert first.samples == 1
    seconds.add((None, 0), sample(100.5))
    assert seconds.window(100.6) is first
    assert seconds.window(101.0).samples == 2
