"""Thresholds agree with theory where theory is known, and with a small simulation of their own."""

from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.detection.thresholds import block_noise, run_length, threshold


def test_the_median_of_three_independent_lines_has_the_known_spread() -> None:
    # Variance of the median of three standard normal values: 0.4487.
    assert block_noise(0.0, 3)[0] == pytest.approx(0.4487**0.5, abs=0.005)


def test_the_median_of_many_lines_has_the_known_spread() -> None:
    # pi / 2 over the number of lines.
    assert block_noise(0.0, 1000)[0] == pytest.approx((1.5708 / 1000.0) ** 0.5, rel=0.05)


def test_the_slope_is_that_of_a_random_walk() -> None:
    # Wald: ln(run length) grows by twice the allowance per unit of threshold for normal steps of unit variance.
    grown = run_length(6.0, 1.0, 0.0) / run_length(5.0, 1.0, 0.0)
    assert grown == pytest.approx(2.718281828459045**2.0, rel=0.3)


@pytest.mark.parametrize(("lag", "allowance"), [(0.0, 1.0), (0.3, 1.0), (0.6, 1.5)])
def test_a_simulation_meets_the_stated_run_length_within_a_factor_of_two(lag: float, allowance: float) -> None:
    spread, between = block_noise(lag, 3)
    height = threshold(2000.0, allowance, between)
    random = Random(7)
    level = total = 0.0
    alarms = 0
    blocks = 120_000
    for _ in range(blocks):
        lines = []
        for _ in range(3):
            level = lag * level + (1.0 - lag * lag) ** 0.5 * random.gauss(0.0, 1.0)
            lines.append(level)
        total = max(0.0, total + median(lines) / spread - allowance)
        if total > height:
            alarms += 1
            total = 0.0

    assert 0.5 < blocks / max(alarms, 1) / 2000.0 < 2.0


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.floats(10.0, 1e9), st.floats(0.5, 4.0), st.floats(0.0, 0.8))
def test_threshold_and_run_length_are_each_others_inverse(blocks: float, allowance: float, between: float) -> None:
    height = threshold(blocks, allowance, between)

    assert run_length(height, allowance, between) >= blocks * 0.999
    if height > 0.0:
        assert run_length(height, allowance, between) == pytest.approx(blocks, rel=1e-6)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.floats(1e5, 1e9), st.floats(0.5, 3.5), st.floats(0.0, 0.7))
def test_more_correlation_never_lowers_and_more_allowance_never_raises_a_threshold(
    blocks: float, allowance: float, between: float
) -> None:
    height = threshold(blocks, allowance, between)

    assert threshold(blocks, allowance, between + 0.08) >= height * 0.98
    assert threshold(blocks, allowance + 0.5, between) <= height * 1.02


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.floats(0.0, 0.9), st.floats(1.0, 5000.0))
def test_more_lines_never_scatter_more(lag: float, lines: float) -> None:
    assert block_noise(lag, lines * 1.5)[0] <= block_noise(lag, lines)[0] + 1e-9
