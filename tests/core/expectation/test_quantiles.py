"""Order statistics equal numpy's, and what has no value says so."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.quantiles import huber_weight, lag_one, middle, quantile, spread

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(values, st.floats(0.0, 1.0))
def test_quantiles_equal_numpys(items: list[float], share: float) -> None:
    assert quantile(sorted(items), share) == pytest.approx(float(np.quantile(items, share)), rel=1e-9, abs=1e-6)


@given(values)
def test_the_median_equals_numpys(items: list[float]) -> None:
    assert middle(items) == pytest.approx(float(np.median(items)), rel=1e-9, abs=1e-6)


def test_no_values_have_no_quantile() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_the_spread_of_normal_noise_is_its_deviation_and_outliers_do_not_move_it() -> None:
    noise = np.random.default_rng(3).normal(scale=0.03, size=20_000)
    assert spread(noise.tolist()) == pytest.approx(0.03, rel=0.03)
    noise[:1000] = 50.0
    assert spread(noise.tolist()) == pytest.approx(0.03, rel=0.1)


def test_weights_fall_outside_the_tolerance() -> None:
    assert huber_weight(0.02, 0.03) == 1.0
    assert huber_weight(-0.06, 0.03) == pytest.approx(0.5)


@pytest.mark.parametrize("memory", [-0.5, 0.0, 0.7])
def test_the_autocorrelation_of_a_known_process_is_found(memory: float) -> None:
    random = np.random.default_rng(4)
    series = [0.0]
    for shock in random.normal(size=20_000):
        series.append(memory * series[-1] + float(shock))

    found = lag_one(list(pairwise(series)))

    assert found == pytest.approx(memory, abs=0.03)


def test_a_single_hiccup_does_not_hide_the_memory_of_the_others() -> None:
    random = np.random.default_rng(5)
    series = [0.0]
    for shock in random.normal(scale=0.02, size=600):
        series.append(0.6 * series[-1] + float(shock))
    calm = lag_one(list(pairwise(series)))
    series[300] = 4.2  # a step of 30 ms that took two seconds

    assert calm is not None
    assert lag_one(list(pairwise(series))) == pytest.approx(calm, abs=0.05)


def test_pairs_that_are_nearly_all_alike_still_have_a_correlation() -> None:
    pairs = [(0.0, 0.0)] * 60 + [(1.0, 1.0)] * 5 + [(2.0, 1.0)] * 5

    assert lag_one(pairs) == pytest.approx(float(np.corrcoef(np.array(pairs).T)[0, 1]))


def test_too_few_or_constant_pairs_have_no_autocorrelation() -> None:
    assert lag_one([(1.0, 2.0)] * 19) is None
    assert lag_one([(1.0, 1.0)] * 50) is None
