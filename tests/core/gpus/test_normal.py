"""A normal is learned under load, held against a slow decline, and wide where the clock was wide."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.gpus.normal import ENOUGH, FROZEN, Normal


def learned(*values: float) -> Normal:
    normal = Normal()
    for value in values:
        normal.learn(value)
    return normal


def test_there_is_none_before_a_minute_under_load() -> None:
    assert learned(*[2.0] * (ENOUGH - 1)).value is None
    assert learned(*[2.0] * (ENOUGH - 1)).threshold() is None
    assert learned(*[2.0] * ENOUGH).value == 2.0


def test_a_steady_clock_is_left_by_more_than_a_tenth() -> None:
    threshold = learned(*[2000.0] * ENOUGH).threshold()

    assert threshold == 1800.0


def test_a_clock_that_always_moved_has_a_lower_threshold() -> None:
    # Prefill runs at the power limit: every other reading is low on a healthy card.
    threshold = learned(*[2000.0, 1400.0] * ENOUGH).threshold()

    assert threshold == 1400.0


def test_it_is_frozen_so_that_a_slow_decline_does_not_become_normal() -> None:
    normal = learned(*[2000.0] * FROZEN)
    for _ in range(10 * FROZEN):
        normal.learn(1000.0)

    assert normal.value == 2000.0


def test_what_was_not_reported_teaches_nothing() -> None:
    normal = Normal()
    for _ in range(FROZEN):
        normal.learn(None)

    assert normal.value is None


def test_it_begins_anew_when_told() -> None:
    normal = learned(*[2000.0] * FROZEN)
    normal.reset()

    assert normal.value is None


@given(st.lists(st.floats(1.0, 1e10), min_size=ENOUGH, max_size=300))
def test_the_threshold_is_never_within_a_tenth_of_the_median(values: list[float]) -> None:
    normal = learned(*values)
    value, threshold = normal.value, normal.threshold()

    assert value is not None and threshold is not None
    assert min(values) <= value <= max(values)
    assert threshold <= 0.9 * value * (1 + 1e-12)
