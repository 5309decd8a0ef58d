"""The cost of a step, where its evidence reaches, and what ranks share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.curve import Curve
from ddwatch.core.expectation.step_time import Region, StepTime, coupled, covers, fit_error_at

MODEL = StepTime(constant=0.02, batch=Curve((1.0, 4.0), (0.002,)), context=Curve((100.0, 10_000.0), (1e-6,)))


def region(batch: tuple[int, int], total: tuple[float, float], error: float | None = None) -> Region:
    return Region(batch=batch, total_context=total, samples=20, fit_error=error)


def test_it_adds_batch_and_context() -> None:
    assert MODEL.seconds(1, 100) == pytest.approx(0.02)
    assert MODEL.seconds(4, 5100) == pytest.approx(0.02 + 0.006 + 0.005)
    assert MODEL.context_seconds(5100) == pytest.approx(0.005)


@given(st.integers(1, 8), st.floats(1.0, 1e5), st.floats(0.0, 1e5))
def test_the_mean_over_growing_context_lies_between_its_ends(batch: int, low: float, width: float) -> None:
    mean = MODEL.mean_seconds(batch, low, low + width)
    assert MODEL.seconds(batch, low) - 1e-12 <= mean <= MODEL.seconds(batch, low + width) + 1e-12


def test_the_mean_of_a_straight_piece_is_its_middle() -> None:
    assert MODEL.mean_seconds(1, 1000, 3000) == pytest.approx(MODEL.seconds(1, 2000))
    assert MODEL.mean_seconds(2, 1000, 1000) == pytest.approx(MODEL.seconds(2, 1000))


def test_evidence_reaches_a_quarter_beyond_itself() -> None:
    known = [region((1, 4), (1000.0, 8000.0))]
    assert covers(known, 1, 800) and covers(known, 5, 10_000)
    assert not covers(known, 1, 799) and not covers(known, 1, 10_001)
    assert not covers(known, 6, 5000)
    assert not covers([], 1, 1000)


def test_between_near_batches_the_model_may_be_trusted_and_between_far_ones_not() -> None:
    near = [region((4, 4), (1000.0, 8000.0)), region((8, 8), (2000.0, 16_000.0))]
    assert covers(near, 6, 12_000)
    assert not covers(near, 6, 30_000)
    assert not covers([region((1, 1), (1000.0, 8000.0)), region((16, 16), (1000.0, 8000.0))], 6, 4000)
    apart = [region((4, 4), (1000.0, 1200.0)), region((8, 8), (90_000.0, 99_000.0)), region((2, 2), (1.0, 9e5))]
    assert not covers(apart, 6, 10_000)


def test_the_fit_error_of_a_point_is_the_worst_around_it() -> None:
    known = [region((1, 1), (100.0, 200.0), 0.01), region((1, 1), (200.0, 400.0), 0.04), region((1, 1), (1.0, 2.0))]
    assert fit_error_at(known, 1, 200) == 0.04
    assert fit_error_at(known, 1, 110) == 0.01
    assert fit_error_at(known, 1, 1.5) is None


def test_coupled_ranks_share_the_largest_of_each() -> None:
    assert coupled([(1, 9000.0), (4, 500.0)]) == (4, 9000.0)
    assert coupled([]) is None
