"""How high a sum of block residuals must climb before chance is ruled out: simulated once, interpolated here.

The tables come from tests/bench/detection/thresholds.py (seed 20260501, 100 million blocks per autocorrelation).
Nothing is whitened: the autocorrelation of the lines goes into the threshold instead, because filtering it out of the
residuals would filter out most of a lasting change with it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import exp, log

SIZES = (3, 5, 10, 30, 100)
"""Lines in a block."""
BLOCK_NOISE: dict[float, tuple[tuple[float, float], ...]] = {
    0.0: ((0.670, 0.000), (0.536, 0.000), (0.373, 0.001), (0.224, 0.000), (0.125, 0.004)),
    0.3: ((0.763, 0.100), (0.633, 0.055), (0.459, 0.031), (0.278, 0.006), (0.155, 0.006)),
    0.6: ((0.866, 0.330), (0.769, 0.204), (0.603, 0.100), (0.379, 0.027), (0.214, 0.013)),
    0.8: ((0.932, 0.600), (0.880, 0.458), (0.764, 0.264), (0.530, 0.071), (0.310, 0.025)),
    0.9: ((0.966, 0.783), (0.939, 0.680), (0.874, 0.496), (0.692, 0.177), (0.434, 0.050)),
}
"""Autocorrelation of lines -> for each size: spread of a block over that of a line, and autocorrelation of blocks."""

ALLOWANCES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Allowance less bias, in spreads of a block."""
RUN_LENGTHS: dict[float, tuple[tuple[float, float], ...]] = {
    0.000: ((1.21, 1.07), (0.94, 2.12), (1.77, 2.97), (1.87, 3.99), (5.57, 4.48), (10.06, 4.48)),
    0.100: ((1.79, 0.86), (2.25, 1.61), (3.02, 2.31), (3.39, 3.17), (5.44, 4.59), (10.03, 4.68)),
    0.330: ((2.64, 0.55), (2.23, 1.14), (3.23, 1.65), (4.99, 2.02), (6.66, 3.59), (10.07, 4.96)),
    0.600: ((3.28, 0.29), (3.78, 0.56), (3.93, 0.92), (4.90, 1.30), (7.91, 2.11), (10.41, 4.04)),
    0.783: ((3.81, 0.16), (4.22, 0.30), (5.23, 0.44), (6.20, 0.63), (8.34, 1.29), (10.82, 3.07)),
}
"""Autocorrelation of blocks -> for each allowance: ln(blocks between false alarms) = first + second * threshold,
the threshold in spreads of a block."""


def _place(knots: Sequence[float], x: float) -> tuple[int, float]:
    """The knot below and the share of the way to the next one; the ends are held."""
    if x <= knots[0]:
        return 0, 0.0
    if x >= knots[-1]:
        return len(knots) - 2, 1.0
    index = bisect_right(knots, x) - 1
    return index, (x - knots[index]) / (knots[index + 1] - knots[index])


def _between(
    table: dict[float, tuple[tuple[float, float], ...]], columns: Sequence[float], row: float, column: float
) -> tuple[float, float]:
    """Both numbers of a table, linear in row and column."""
    rows = tuple(table)
    i, s = _place(rows, row)
    j, t = _place(columns, column)
    upper, lower = table[rows[i]], table[rows[i + 1]]

    def mixed(which: int) -> float:
        above = upper[j][which] + (upper[j + 1][which] - upper[j][which]) * t
        below = lower[j][which] + (lower[j + 1][which] - lower[j][which]) * t
        return above + (below - above) * s

    return mixed(0), mixed(1)


def block_noise(lag: float, lines: float) -> tuple[float, float]:
    """Spread of the median of so many lines over the spread of one, and the autocorrelation of such blocks."""
    spread, between = _between(BLOCK_NOISE, tuple(log(size) for size in SIZES), lag, log(max(lines, 1.0)))
    if lines > SIZES[-1]:
        spread *= (SIZES[-1] / lines) ** 0.5
    return spread, between


def threshold(run_length: float, allowance: float, between: float) -> float:
    """The threshold at which a false alarm comes once in `run_length` blocks.

    Args:
        run_length: blocks.
        allowance: allowance less the bias that must be borne, in spreads of a block; at least 0.5 is assumed.
        between: autocorrelation of blocks.
    """
    first, second = _between(RUN_LENGTHS, ALLOWANCES, between, allowance)
    return max(0.0, (log(max(run_length, 1.0)) - first) / second)


def run_length(height: float, allowance: float, between: float) -> float:
    """Blocks between false alarms at a threshold in spreads of a block (the inverse of `threshold`)."""
    first, second = _between(RUN_LENGTHS, ALLOWANCES, between, allowance)
    return exp(min(first + second * height, 600.0))
