"""The non-negative solution is the true one: against every subset of columns, and by its optimality conditions."""

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.least_squares import nonnegative

Array = npt.NDArray[np.float64]


def solve(matrix: Array, right: Array, start: tuple[int, ...] = ()) -> Array:
    """Our solution from a design matrix."""
    gram = (matrix.T @ matrix).tolist()
    return np.array(nonnegative(gram, (matrix.T @ right).tolist(), start))


def by_enumeration(matrix: Array, right: Array) -> Array:
    """The best non-negative solution over every subset of columns."""
    columns = matrix.shape[1]
    best, best_misfit = np.zeros(columns), float(right @ right)
    for size in range(1, columns + 1):
        for subset in combinations(range(columns), size):
            part = np.linalg.lstsq(matrix[:, subset], right, rcond=None)[0]
            misfit = float(np.sum((matrix[:, subset] @ part - right) ** 2))
            if part.min() >= 0.0 and misfit < best_misfit:
                best_misfit = misfit
                best = np.zeros(columns)
                best[list(subset)] = part
    return best


@pytest.mark.parametrize("seed", range(25))
def test_it_equals_the_best_of_all_subsets(seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(30, 7)) * random.lognormal(sigma=3.0, size=7)
    right = random.normal(size=30)

    ours, oracle = solve(matrix, right), by_enumeration(matrix, right)

    scale = np.linalg.norm(matrix, axis=0)
    assert ours.min() >= 0.0
    assert np.allclose(ours * scale, oracle * scale, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_forty_ramps_meet_the_optimality_conditions(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = np.sort(random.uniform(0.0, 1.0, 800))
    knots = np.linspace(0.0, 1.0, 41)
    ramps = [np.clip(x - low, 0.0, high - low) for low, high in pairwise(knots.tolist())]
    matrix = np.column_stack([np.ones_like(x), *ramps])
    right = np.sin(5.0 * x) + random.normal(scale=0.05, size=800)

    ours = solve(matrix, right)

    gradient = (matrix.T @ (right - matrix @ ours)) / np.linalg.norm(matrix, axis=0)
    assert ours.min() >= 0.0
    assert np.abs(gradient[ours > 0.0]).max() < 1e-9
    assert gradient[ours == 0.0].max() < 1e-9


@given(st.integers(0, 10_000), st.lists(st.integers(0, 5), unique=True, max_size=6))
def test_the_start_changes_the_speed_and_not_the_result(seed: int, start: list[int]) -> None:
    random = np.random.default_rng(seed)
    matrix, right = random.normal(size=(20, 6)), random.normal(size=20)

    assert np.allclose(solve(matrix, right, tuple(start)), solve(matrix, right), rtol=1e-9, atol=1e-9)


def test_columns_without_weight_and_dependent_columns_get_nothing_and_break_nothing() -> None:
    random = np.random.default_rng(1)
    matrix = np.abs(random.normal(size=(20, 4)))
    matrix[:, 1] = 0.0
    matrix[:, 3] = 2.0 * matrix[:, 0]
    right = matrix[:, 0] * 3.0 + matrix[:, 2]

    ours = solve(matrix, right)

    assert ours[1] == 0.0
    assert np.allclose(matrix @ ours, right, rtol=1e-8)


def test_when_every_column_hurts_the_answer_is_zero() -> None:
    assert solve(np.eye(3), -np.ones(3)).tolist() == [0.0, 0.0, 0.0]
    assert nonnegative([[0.0]], [0.0]) == [0.0]
    assert nonnegative([], []) == []


def test_a_start_with_dependent_columns_is_no_harm() -> None:
    random = np.random.default_rng(2)
    matrix = np.abs(random.normal(size=(20, 3)))
    matrix[:, 2] = matrix[:, 0]
    right = matrix[:, 0] + 2.0 * matrix[:, 1]

    assert np.allclose(matrix @ solve(matrix, right, (0, 1, 2)), right, rtol=1e-8)


def test_nearly_dependent_columns_give_a_solution_that_is_as_good() -> None:
    random = np.random.default_rng(3)
    matrix = np.abs(random.normal(size=(50, 6)))
    matrix[:, 4] = matrix[:, 0] + 1e-7 * random.normal(size=50)
    matrix[:, 5] = matrix[:, 1] + 1e-9 * random.normal(size=50)
    right = matrix @ np.array([1.0, 0.5, 0.0, 2.0, 1.0, 0.5]) + 0.01 * random.normal(size=50)

    ours, oracle = solve(matrix, right), by_enumeration(matrix, right)

    misfit = float(np.sum((matrix @ ours - right) ** 2))
    assert ours.min() >= 0.0
    assert misfit == pytest.approx(float(np.sum((matrix @ oracle - right) ** 2)), rel=1e-3)
