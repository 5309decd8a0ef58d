"""Computes the tables of ddwatch/core/detection/thresholds.py by simulating blocks; prints them as Python.

Lines are a normal AR(1) process of unit variance; single odd lines are left out, since a median ignores them and
firing needs three slow lines. Blocks are medians of consecutive lines. One-sided CUSUMs run over blocks of three
lines; the rate of excursions that reach a height is the inverse of the run length at that threshold (a CUSUM
regenerates at zero).
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

SEED = 20260501
CHAINS = 100_000
BLOCKS = 1000
"""Blocks of each chain: 100 million in all for each autocorrelation."""
LAGS = (0.0, 0.3, 0.6, 0.8, 0.9)
SIZES = (3, 5, 10, 30, 100)
"""Lines in a block."""
ALLOWANCES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Allowance less bias, in standard deviations of a block."""
CELL = 0.02
"""Heights of excursions are counted in cells of this many standard deviations of a block."""
CELLS = 2000
TAIL = (3e-5, 1e-7)
"""Rates between which the line ln(run length) = intercept + slope * threshold is laid."""

Floats = npt.NDArray[np.float64]


def lines(random: np.random.Generator, lag: float, chains: int) -> Iterator[Floats]:
    """The next line of every chain, without end."""
    scale = np.sqrt(1.0 - lag * lag)
    level = random.standard_normal(chains)
    while True:
        level = lag * level + scale * random.standard_normal(chains)
        yield level


def block_noise(lag: float, size: int) -> tuple[float, float]:
    """Standard deviation of a block's median, and the autocorrelation of neighbouring blocks."""
    random = np.random.default_rng(SEED + size)
    source = lines(random, lag, 20_000)
    medians = [np.median([next(source).copy() for _ in range(size)], axis=0) for _ in range(12)]
    table: Any = np.array(medians)
    spread = float(table.std())
    return spread, float(np.mean(table[1:] * table[:-1]) / spread**2)


def excursions(lag: float, spread: float) -> tuple[dict[float, Floats], int]:
    """Counts of excursion heights for each allowance, and the number of blocks seen."""
    random = np.random.default_rng(SEED)
    source = lines(random, lag, CHAINS)
    sums = {allowance: np.zeros(CHAINS) for allowance in ALLOWANCES}
    peaks = {allowance: np.zeros(CHAINS) for allowance in ALLOWANCES}
    counts = {allowance: np.zeros(CELLS) for allowance in ALLOWANCES}
    for _ in range(BLOCKS):
        first, second, third = (next(source).copy() for _ in range(3))
        median = np.maximum(np.minimum(first, second), np.minimum(np.maximum(first, second), third)) / spread
        for allowance in ALLOWANCES:
            total = np.maximum(0.0, sums[allowance] + median - allowance)
            sums[allowance] = total
            peak = peaks[allowance]
            over = (total == 0.0) & (peak > 0.0)
            heights = np.minimum((peak[over] / CELL).astype(int), CELLS - 1)
            counts[allowance] += np.bincount(heights, minlength=CELLS)
            np.maximum(peak, total, out=peak)
            peak[over] = 0.0
    return counts, CHAINS * BLOCKS


def tail_line(counts: Floats, blocks: int) -> tuple[float, float]:
    """Intercept and slope of ln(run length) over threshold."""
    reached = counts[::-1].cumsum()[::-1] / blocks
    heights = np.arange(CELLS) * CELL
    kept = (reached < TAIL[0]) & (reached > TAIL[1])
    if kept.sum() < 4:
        kept = (reached < reached[1]) & (reached > TAIL[1])
    slope, intercept = np.polyfit(heights[kept], -np.log(reached[kept]), 1)
    return float(intercept), float(slope)


def tell(line: str) -> None:
    """One line of the tables."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Prints both tables."""
    tell(f"SIZES = {SIZES}")
    tell("BLOCK_NOISE = {")
    spreads: dict[float, tuple[float, float]] = {}
    for lag in LAGS:
        row = [block_noise(lag, size) for size in SIZES]
        spreads[lag] = row[0]
        tell(f"    {lag}: ({', '.join(f'({spread:.3f}, {between:.3f})' for spread, between in row)}),")
    tell("}")
    tell(f"ALLOWANCES = {ALLOWANCES}")
    tell("RUN_LENGTHS = {")
    for lag in LAGS:
        spread, between = spreads[lag]
        counts, blocks = excursions(lag, spread)
        row = [tail_line(counts[allowance], blocks) for allowance in ALLOWANCES]
        tell(f"    {between:.3f}: ({', '.join(f'({a:.2f}, {b:.2f})' for a, b in row)}),")
    tell("}")


if __name__ == "__main__":
    main()
