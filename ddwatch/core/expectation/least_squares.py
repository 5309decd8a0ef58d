"""Solves small non-negative least-squares problems exactly: the fitted cost of a step never falls with load.

Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23, on the normal equations. With some
forty columns that are scaled to unit length the normal equations lose nothing that matters here.
"""

from collections.abc import Sequence

Matrix = list[list[float]]

DEPENDENT = 1e-11
"""A pivot below this share of its (unit) column means: the column is a combination of the others."""
STATIONARY = 1e-12
"""A gradient below this, relative to the scaled right-hand side, counts as zero."""


def cholesky_solve(gram: Matrix, moment: Sequence[float], columns: Sequence[int]) -> tuple[list[float], int | None]:
    """Solves the sub-system of the named columns; also the first dependent column, None when there is none."""
    size = len(columns)
    lower: Matrix = []
    for i in range(size):
        source = gram[columns[i]]
        row: list[float] = []
        for j in range(i):
            other = lower[j]
            total = source[columns[j]]
            for k in range(j):
                total -= row[k] * other[k]
            row.append(total / other[j])
        pivot = source[columns[i]]
        for value in row:
            pivot -= value * value
        if pivot < DEPENDENT:
            return [], columns[i]
        row.append(pivot**0.5)
        lower.append(row)
    forward: list[float] = []
    for i in range(size):
        total = moment[columns[i]]
        row = lower[i]
        for k in range(i):
            total -= row[k] * forward[k]
        forward.append(total / row[i])
    solution = [0.0] * size
    for i in range(size - 1, -1, -1):
        total = forward[i]
        for k in range(i + 1, size):
            total -= lower[k][i] * solution[k]
        solution[i] = total / lower[i][i]
    return solution, None


def _scaled(gram: Matrix, moment: Sequence[float]) -> tuple[Matrix, list[float], list[float], float]:
    size = len(moment)
    lengths = [gram[i][i] ** 0.5 if gram[i][i] > 0.0 else 0.0 for i in range(size)]
    inverse = [1.0 / length if length > 0.0 else 0.0 for length in lengths]
    unit = [[gram[i][j] * inverse[i] * inverse[j] for j in range(size)] for i in range(size)]
    right = [moment[i] * inverse[i] for i in range(size)]
    height = max((abs(value) for value in right), default=0.0)
    if height > 0.0:
        right = [value / height for value in right]
    return unit, right, inverse, height


class _ActiveSet:
    """The columns in use and their values, always a minimiser over those columns."""

    def __init__(self, gram: Matrix, moment: list[float]) -> None:
        self.gram = gram
        self.moment = moment
        self.values = [0.0] * len(moment)
        self.columns: list[int] = []
        self.barred: set[int] = {i for i in range(len(moment)) if gram[i][i] <= 0.0}

    def begin_with(self, start: Sequence[int]) -> None:
        """Takes over a guess of the columns in use; those that would be negative are left out."""
        columns = [column for column in start if column not in self.barred]
        while columns:
            solution, dependent = cholesky_solve(self.gram, self.moment, columns)
            if dependent is not None:
                columns.remove(dependent)
                continue
            kept = [column for column, value in zip(columns, solution, strict=True) if value > 0.0]
            if len(kept) == len(columns):
                self.columns = columns
                for column, value in zip(columns, solution, strict=True):
                    self.values[column] = value
                return
            columns = kept

    def gradient(self, column: int) -> float:
        """How fast the misfit would fall if this column came into use."""
        row = self.gram[column]
        total = self.moment[column]
        for other in self.columns:
            total -= row[other] * self.values[other]
        return total

    def enter(self, column: int) -> bool:
        """Brings a column into use and restores feasibility; False when it depends on the others or would not rise.

        A subset of independent columns is independent, so only the newcomer can turn out to depend on others.
        """
        columns = [*self.columns, column]
        solution, dependent = cholesky_solve(self.gram, self.moment, columns)
        if dependent is not None or solution[-1] <= 0.0:
            return False
        while min(solution) <= 0.0:
            columns = self._step_towards(columns, solution)
            solution, _ = cholesky_solve(self.gram, self.moment, columns)
        for known, value in zip(columns, solution, strict=True):
            self.values[known] = value
        self.columns = columns
        return True

    def _step_towards(self, columns: list[int], solution: list[float]) -> list[int]:
        """Goes as far to the unconstrained solution as all stay non-negative, and drops what reached zero."""
        share, blocking = min(
            (self.values[column] / (self.values[column] - value), column)
            for column, value in zip(columns, solution, strict=True)
            if value <= 0.0
        )
        for column, value in zip(columns, solution, strict=True):
            self.values[column] = max(0.0, self.values[column] + share * (value - self.values[column]))
        self.values[blocking] = 0.0
        return [column for column in columns if self.values[column] > 0.0]


def nonnegative(gram: Matrix, moment: Sequence[float], start: Sequence[int] = ()) -> list[float]:
    """Minimises x'Gx - 2m'x over x >= 0.

    Args:
        gram: G = A'WA, symmetric, size n x n.
        moment: m = A'Wb, size n.
        start: columns that are probably positive (the previous solution's); speed only, not the result.

    Returns:
        The n values, each >= 0. A column without any weight, or one that depends on others, gets 0.
    """
    unit, right, inverse, height = _scaled(gram, moment)
    state = _ActiveSet(unit, right)
    state.begin_with(start)
    size = len(right)
    # Each round lowers the misfit, so none repeats; the limit is for rounding errors only.
    rounds = 10 * size + 30
    improving = True
    while improving and rounds:
        rounds -= 1
        waiting = [i for i in range(size) if i not in state.columns and i not in state.barred]
        promising = sorted(((slope, -i) for i in waiting if (slope := state.gradient(i)) > STATIONARY), reverse=True)
        improving = any(state.enter(-column) for _, column in promising)
    return [state.values[i] * inverse[i] * height for i in range(size)]
