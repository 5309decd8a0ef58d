"""A curve of ramps rises, is exact between its knots, and its integral is exact everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.curve import Curve, place

FOUNDING = Curve((64.0, 1024.0, 3072.0, 5500.0), (5e-6, 15e-6, 33e-6))

curves = st.lists(st.tuples(st.floats(0.5, 1000.0), st.floats(0.0, 1e-3)), min_size=0, max_size=12).map(
    lambda steps: Curve(tuple(np.cumsum([1.0, *(w for w, _ in steps)]).tolist()), tuple(s for _, s in steps))
)


def test_it_is_the_sum_of_its_ramps() -> None:
    assert FOUNDING.at(64.0) == 0.0
    assert FOUNDING.at(10.0) == 0.0
    assert FOUNDING.at(1024.0) == pytest.approx(960 * 5e-6)
    assert FOUNDING.at(2048.0) == pytest.approx(960 * 5e-6 + 1024 * 15e-6)


def test_beyond_the_last_knot_it_goes_on_with_the_mean_slope_of_the_last_octave() -> None:
    octave = (FOUNDING.at(5500.0) - FOUNDING.at(2750.0)) / 2750.0
    assert FOUNDING.tail() == pytest.approx(octave)
    assert FOUNDING.at(6500.0) - FOUNDING.at(5500.0) == pytest.approx(1000.0 * octave)


def test_no_knots_and_one_knot_cost_nothing() -> None:
    for flat in (Curve(), Curve((5.0,), ())):
        assert flat.at(1e6) == 0.0
        assert flat.tail() == 0.0
        assert flat.integral(0.0, 100.0) == 0.0


@given(curves, st.floats(0.0, 20_000.0), st.floats(0.0, 20_000.0))
def test_it_never_falls(curve: Curve, a: float, b: float) -> None:
    assert curve.at(min(a, b)) <= curve.at(max(a, b)) + 1e-12


@given(curves, st.floats(0.0, 5_000.0), st.floats(0.0, 5_000.0))
def test_its_integral_is_exact(curve: Curve, a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    corners = np.unique(np.concatenate([np.linspace(low, high, 50), [k for k in curve.knots if low < k < high]]))
    oracle = np.trapezoid([curve.at(float(x)) for x in corners], corners)

    assert curve.integral(low, high) == pytest.approx(float(oracle), rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(0.0, 1e6), min_size=2, max_size=20, unique=True).map(sorted), st.floats(0.0, 1e6))
def test_place_says_where_between_the_knots(knots: list[float], x: float) -> None:
    index, share = place(knots, x)

    assert 0 <= index < len(knots) - 1
    assert 0.0 <= share <= 1.0
    held = min(max(x, knots[0]), knots[-1])
    assert knots[index] + share * (knots[index + 1] - knots[index]) == pytest.approx(held, rel=1e-9, abs=1e-6)


def test_place_without_a_stretch_is_the_beginning() -> None:
    assert place((), 5.0) == (0, 0.0)
    assert place((3.0,), 5.0) == (0, 0.0)
