"""Accept length by context and text class: quantiles, no extrapolation, classes found only where there are two."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.accept import (
    OVERALL,
    AcceptCurve,
    AcceptPoint,
    curve,
    curves,
    is_usual,
    lowest_p1,
    rising,
    two_classes,
    typical_class,
)


def windows(middle: float, spread: float, count: int, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [middle * math.exp(draw.gauss(0.0, spread)) for _ in range(count)]


def test_a_point_holds_the_quantiles_of_its_windows() -> None:
    lengths = windows(3.0, 0.2, 200)
    found = curve("code", [(1000.0, length) for length in lengths])
    assert found is not None
    (point,) = found.points
    assert point.samples == 200
    for name, share in (("p1", 0.01), ("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        assert getattr(point, name) == pytest.approx(float(np.quantile(lengths, share)))


def test_accept_length_may_fall_or_rise_with_context() -> None:
    draw = random.Random(2)
    seen = [
        (context, 8.0 - math.log2(context / 500.0)) for context in (500.0 * 32.0 ** draw.random() for _ in range(600))
    ]
    found = curve("any", seen)
    assert found is not None
    assert rising(found.points)
    middles = [point.p50 for point in found.points]
    assert middles == sorted(middles, reverse=True)
    assert len(middles) >= 4
    for context in (900.0, 2000.0, 9000.0):
        assert found.at(context).p50 == pytest.approx(8.0 - math.log2(context / 500.0), abs=0.2)


def test_beyond_the_data_the_ends_are_held() -> None:
    known = AcceptCurve(
        text_class="x", points=(AcceptPoint(context=100.0, p50=4.0, p1=2.0), AcceptPoint(context=10_000.0, p50=2.0))
    )
    assert known.at(1.0).p50 == 4.0
    assert known.at(1e6).p50 == 2.0
    assert known.at(1000.0).p50 == pytest.approx(3.0)
    assert known.at(1000.0).p1 is None
    assert known.covers(90.0) and not known.covers(70.0) and not known.covers(13_000.0)


def test_fewer_than_thirty_windows_are_no_curve() -> None:
    assert curve("x", [(100.0, 3.0)] * 29) is None
    assert curves([(100.0, 3.0, None)] * 29) == ()


def test_a_thin_tail_joins_its_neighbour() -> None:
    found = curve("x", [(100.0, 3.0)] * 40 + [(5000.0, 3.0)] * 10)
    assert found is not None
    assert [point.samples for point in found.points] == [50]


@pytest.mark.parametrize("seed", range(5))
def test_two_kinds_of_text_are_found_and_parted(seed: int) -> None:
    low, high = windows(2.9, 0.1, 150, seed), windows(7.4, 0.1, 400, seed + 50)
    border = two_classes(low + high)
    assert border is not None
    assert max(low) < border < min(high)
    found = curves([(1000.0, length, None) for length in low + high])
    assert [one.text_class for one in found] == [OVERALL, "low", "high"]
    assert found[1].at(1000.0).p50 == pytest.approx(2.9, rel=0.05)
    assert found[2].at(1000.0).p50 == pytest.approx(7.4, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_one_kind_of_text_is_not_cut_in_two(seed: int) -> None:
    draw = random.Random(seed)
    assert two_classes(windows(4.0, 0.25, 500, seed)) is None
    assert two_classes([draw.uniform(2.0, 6.0) for _ in range(500)]) is None
    assert two_classes([3.0] * 200) is None
    assert two_classes(windows(3.0, 0.05, 300, seed) + [9.0] * 12) is None, "a handful is no class"
    assert two_classes([3.0] * 20 + [7.0] * 20) is None, "too few windows"


def test_a_class_with_too_few_windows_for_a_curve_is_no_class() -> None:
    lengths = windows(2.9, 0.05, 25) + windows(7.4, 0.05, 150)
    assert two_classes(lengths) is not None
    assert [one.text_class for one in curves([(1000.0, length, None) for length in lengths])] == [OVERALL]


def test_given_classes_are_kept_as_given() -> None:
    seen = [(1000.0, 3.0, "chat")] * 40 + [(1000.0, 3.2, "code")] * 40 + [(1000.0, 9.0, "rare")] * 5
    assert [one.text_class for one in curves(seen)] == [OVERALL, "chat", "code"]


def test_the_typical_class_is_the_nearest_and_usual_only_when_near() -> None:
    known = curves(
        [(1000.0, length, "reasoning") for length in windows(2.9, 0.1, 60)]
        + [(1000.0, length, "predictable") for length in windows(7.4, 0.1, 60)]
    )
    near = typical_class(known, 1000.0, 3.4)
    assert near is not None and near.text_class == "reasoning"
    assert is_usual(near, 1000.0, 3.4)
    assert not is_usual(near, 1000.0, 0.3)
    far = typical_class(known, 1000.0, 50.0)
    assert far is not None and not is_usual(far, 1000.0, 50.0)
    assert typical_class(known[:1], 1000.0, 3.0) is None
    assert typical_class(known, 1000.0, 0.0) is None


def test_the_floor_needs_two_covered_classes() -> None:
    known = curves([(1000.0, 3.0, "a")] * 40 + [(1000.0, 5.0, "b")] * 40)
    assert lowest_p1(known, 1000.0) == 3.0
    assert lowest_p1(known, 50_000.0) is None
    assert lowest_p1(known[:2], 1000.0) is None


@given(st.lists(st.floats(0.5, 40.0), min_size=0, max_size=200))
def test_any_lengths_break_nothing(lengths: list[float]) -> None:
    border = two_classes(lengths)
    assert border is None or min(lengths) <= border <= max(lengths)
    for one in curves([(100.0, length, None) for length in lengths]):
        assert rising(one.points)
