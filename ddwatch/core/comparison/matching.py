"""Sets two sides against each other cell by cell, so that batch and context are the same on both, with an interval.

In each cell that both sides fill, the means of both are moved along the cell's own slope to one total context. The
ratio is that of the weighted means over all such cells: how much longer the same mix of steps takes. Its interval
comes from sums over stretches of time (consecutive samples hang together) and from what the slopes leave open.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import sqrt
from statistics import NormalDist, median
from typing import NamedTuple

from ddwatch.core.comparison.sides import Cell, Reading

FEWEST_IN_CELL = 5
"""Readings without which a side does not fill a cell."""
FEWEST_MATCHED = 24
"""Readings in common cells without which nothing is compared."""
BLOCK_LINES = 6
MOST_BLOCKS = 24
FEWEST_BLOCKS = 4
OUTLIER = 5.0
"""A reading beyond so many spreads of its cell, and beyond twice its middle, is drawn in to there."""
TWICE = 1.0
LONGEST_MEMORY = 0.95
"""Largest correlation of consecutive readings that is reckoned with."""
CONFIDENCE = 0.95
NORMAL_MAD = 1.4826


class Slope(NamedTuple):
    """What is held of the change with total context before a cell has told its own: d ln y / d ln total."""

    middle: float
    spread: float


STEP_SLOPE = Slope(0.5, 0.5)
ACCEPT_SLOPE = Slope(0.0, 0.3)


class Interval(NamedTuple):
    """A ratio (after / before) with its two-sided 95 % interval."""

    value: float
    low: float
    high: float


class CellMatch(NamedTuple):
    """One common cell: means of both sides at one total context."""

    cell: Cell
    batches: tuple[int, int]
    total_context: tuple[float, float]
    before: float
    after: float
    before_samples: int
    after_samples: int
    weight: float


class Matched(NamedTuple):
    """Both sides where they are alike."""

    ratio: Interval
    before: float
    """Weighted mean over common cells."""
    after: float
    difference: Interval
    """After minus before, in the unit of the values."""
    cells: tuple[CellMatch, ...]
    before_samples: int
    after_samples: int


class _Residual(NamedTuple):
    at: float
    value: float
    """The reading's pull on the ratio."""


def common_cells(
    before: Mapping[Cell, Sequence[Reading]], after: Mapping[Cell, Sequence[Reading]]
) -> tuple[list[Cell], int, int]:
    """Cells that both sides fill, in order, and how many readings each side has there."""
    cells = sorted(
        cell for cell in before.keys() & after.keys() if min(len(before[cell]), len(after[cell])) >= FEWEST_IN_CELL
    )
    return cells, sum(len(before[cell]) for cell in cells), sum(len(after[cell]) for cell in cells)


def match(
    before: Mapping[Cell, Sequence[Reading]],
    after: Mapping[Cell, Sequence[Reading]],
    value: Callable[[Reading], float],
    slope: Slope,
    *,
    outliers: bool = True,
) -> Matched | None:
    """The comparison of one quantity; None when the sides have too little in common.

    Args:
        before: readings by cell.
        after: readings by cell.
        value: the quantity, positive.
        slope: what is held of its change with total context beforehand.
        outliers: whether to draw in single readings that are far off.
    """
    cells, before_samples, after_samples = common_cells(before, after)
    if min(before_samples, after_samples) < FEWEST_MATCHED:
        return None
    parts = [_Part(cell, before[cell], after[cell], value, slope, outliers) for cell in cells]
    whole = sum(part.weight for part in parts)
    first = sum(part.weight * part.means[0] for part in parts) / whole
    second = sum(part.weight * part.means[1] for part in parts) / whole
    if not first > 0.0:
        return None
    ratio = second / first
    scale = 1.0 / (whole * first)
    slopes = sum((part.weight * part.slope_error * scale) ** 2 for part in parts)
    pulls: list[list[_Residual]] = [[], []]
    for part in parts:
        for side, sign in ((0, -ratio), (1, 1.0)):
            share = sign * part.weight * scale / len(part.residuals[side])
            pulls[side] += [_Residual(at, share * residual) for at, residual in part.residuals[side]]
    old, new = _variance(pulls[0]), _variance(pulls[1])
    error = sqrt(old.variance + new.variance + slopes)
    reach = error * student(CONFIDENCE, _freedom(old, new))
    return Matched(
        ratio=Interval(ratio, max(0.0, ratio - reach), ratio + reach),
        before=first,
        after=second,
        difference=Interval(second - first, first * (ratio - 1.0 - reach), first * (ratio - 1.0 + reach)),
        cells=tuple(part.told() for part in parts),
        before_samples=before_samples,
        after_samples=after_samples,
    )


class _Part:
    """One cell of the comparison."""

    def __init__(
        self,
        cell: Cell,
        before: Sequence[Reading],
        after: Sequence[Reading],
        value: Callable[[Reading], float],
        slope: Slope,
        outliers: bool,
    ) -> None:
        self.cell = cell
        self._sides = (before, after)
        values = [[value(item) for item in side] for side in self._sides]
        if outliers:
            values = [_drawn_in(side) for side in values]
        sizes = [len(side) for side in values]
        contexts = [[item.total_context for item in side] for side in self._sides]
        means = [sum(side) / len(side) for side in values]
        at = [sum(side) / len(side) for side in contexts]
        self.weight = sizes[0] * sizes[1] / (sizes[0] + sizes[1])
        place = sum(sum(side) for side in contexts) / sum(sizes)
        across = along = left = 0.0
        for side, xs, mean, middle in zip(values, contexts, means, at, strict=True):
            across += sum((x - middle) * (y - mean) for x, y in zip(xs, side, strict=True))
            along += sum((x - middle) ** 2 for x in xs)
            left += sum((y - mean) ** 2 for y in side)
        unit = sum(means) / 2.0 / place
        # The slope of the cell, drawn towards what is held beforehand where the cell's contexts hardly differ.
        noise = max(left / max(sum(sizes) - 3, 1), (1e-4 * unit * place) ** 2)
        prior = 1.0 / (slope.spread * unit) ** 2
        precision = along / noise + prior
        steepness = (across / noise + slope.middle * unit * prior) / precision
        self.means = [mean - steepness * (middle - place) for mean, middle in zip(means, at, strict=True)]
        self.slope_error = abs(at[1] - at[0]) / sqrt(precision)
        self.residuals = [
            [
                # n - 1 in place of n: the mean was taken from the same readings.
                (item.at, (y - mean - steepness * (item.total_context - middle)) * sqrt(size / (size - 1)))
                for item, y in zip(side, ys, strict=True)
            ]
            for side, ys, mean, middle, size in zip(self._sides, values, means, at, sizes, strict=True)
        ]

    def told(self) -> CellMatch:
        """The cell as it is shown."""
        both = [*self._sides[0], *self._sides[1]]
        batches = [item.batch for item in both]
        contexts = [item.total_context for item in both]
        return CellMatch(
            cell=self.cell,
            batches=(min(batches), max(batches)),
            total_context=(min(contexts), max(contexts)),
            before=self.means[0],
            after=self.means[1],
            before_samples=len(self._sides[0]),
            after_samples=len(self._sides[1]),
            weight=self.weight,
        )


def _drawn_in(values: list[float]) -> list[float]:
    """Single readings that are far off count as far, not as they are."""
    centre = median(values)
    spread = NORMAL_MAD * median(abs(value - centre) for value in values)
    limit = centre + max(OUTLIER * spread, TWICE * centre)
    return [min(value, limit) for value in values]


class _Variance(NamedTuple):
    variance: float
    freedom: float


def _variance(pulls: list[_Residual]) -> _Variance:
    """Variance of the sum of pulls: from sums over stretches of time, never less than consecutive readings alone tell.

    The second is the variance of a mean of a first-order autoregression, (1 + r) / (1 - r) times the independent one.
    """
    pulls = sorted(pulls)
    size = len(pulls)
    blocks = max(FEWEST_BLOCKS, min(MOST_BLOCKS, size // BLOCK_LINES))
    sums = [sum(pull.value for pull in pulls[size * n // blocks : size * (n + 1) // blocks]) for n in range(blocks)]
    middle = sum(sums) / blocks
    together = blocks / (blocks - 1) * sum((one - middle) ** 2 for one in sums)
    apart = sum(pull.value**2 for pull in pulls)
    memory = sum(one.value * following.value for one, following in pairwise(pulls)) / apart if apart > 0.0 else 0.0
    memory = min(max(memory, 0.0), LONGEST_MEMORY)
    return _Variance(max(together, apart * (1.0 + memory) / (1.0 - memory)), blocks - 1)


def _freedom(*variances: _Variance) -> float:
    """Degrees of freedom of a sum of variances (Welch and Satterthwaite)."""
    below = sum(one.variance**2 / one.freedom for one in variances)
    total = sum(one.variance for one in variances)
    return total**2 / below if below > 0.0 else sum(one.freedom for one in variances)


def student(confidence: float, freedom: float) -> float:
    """Two-sided quantile of Student's t, by its expansion around the normal (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    n = max(freedom, 2.0)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def loads(readings: Iterable[Reading]) -> tuple[int, int, float, float] | None:
    """Smallest and largest batch, smallest and largest total context; None without readings."""
    known = list(readings)
    if not known:
        return None
    batches = [item.batch for item in known]
    contexts = [item.total_context for item in known]
    return min(batches), max(batches), min(contexts), max(contexts)
