"""Says where the evidence of a fit lies and how well each part of it is met, so that nothing else is ever judged."""

from collections.abc import Sequence
from itertools import pairwise
from math import log

from ddwatch.core.expectation.quantiles import quantile, spread
from ddwatch.core.expectation.retention import Observation, bucket
from ddwatch.core.expectation.step_time import Region

SMALLEST_NOISE = 0.002
"""Relative standard deviation below which noise is not believed."""
REGION_SAMPLES = 12
"""Fewer samples at one batch are no evidence there."""
PART_SAMPLES = 40
"""A region is not cut into parts smaller than this: their fit error would be chance."""
EDGE = 50
"""The outermost one of so many samples, at either end, is not counted as evidence of how far the region reaches."""
REGION_WIDTH = log(2.0) / 2.0
"""Regions are about half an octave of context wide."""
REGION_GAP = 2.0
"""Contexts further apart than this factor, with nothing between, are two regions."""
MEDIAN_VARIANCE = 1.5708
"""Variance of a median over that of a mean, for normal noise (pi / 2)."""


def _stretches(ordered: Sequence[tuple[float, float, int]]) -> list[list[tuple[float, float, int]]]:
    """Cuts (total context, residual, batch) in order of context wherever a factor of two was never seen."""
    runs: list[list[tuple[float, float, int]]] = []
    for item in ordered:
        if not runs or item[0] > REGION_GAP * runs[-1][-1][0]:
            runs.append([])
        runs[-1].append(item)
    return runs


def evidence_regions(observations: Sequence[Observation], residuals: Sequence[float]) -> tuple[Region, ...]:
    """Where the samples lie, each region one batch bucket and about half an octave, and how well each is met."""
    levels: dict[int, list[tuple[float, float, int]]] = {}
    for item, residual in zip(observations, residuals, strict=True):
        level = bucket(item.batch, item.total_context)[0]
        levels.setdefault(level, []).append((item.total_context, residual, item.batch))
    noise = max(SMALLEST_NOISE, spread(residuals))
    regions: list[Region] = []
    for level in sorted(levels):
        for run in _stretches(sorted(levels[level])):
            if len(run) < REGION_SAMPLES:
                continue
            # A handful of samples at either end reaches far and says little.
            first, last = run[len(run) // EDGE][0], run[len(run) - 1 - len(run) // EDGE][0]
            parts = max(1, min(len(run) // PART_SAMPLES, round(log(run[-1][0] / run[0][0]) / REGION_WIDTH)))
            edges = [round(i * len(run) / parts) for i in range(parts + 1)]
            for left, right in pairwise(edges):
                part = run[left:right]
                middle = quantile(sorted(residual for _, residual, _ in part), 0.5)
                chance = MEDIAN_VARIANCE * noise * noise / len(part)
                batches = [batch for _, _, batch in part]
                regions.append(
                    Region(
                        batch=(min(batches), max(batches)),
                        # Neighbouring parts of one run touch, so that no point between them is lost.
                        total_context=(max(part[0][0], first), min(run[min(right, len(run) - 1)][0], last)),
                        samples=len(part),
                        fit_error=max(middle * middle - chance, chance) ** 0.5,
                    )
                )
    return tuple(regions)


def typical_error(regions: Sequence[Region]) -> float:
    """What 95 % of the evidence, by samples, is met by at least."""
    errors = sorted((r.fit_error, r.samples) for r in regions if r.fit_error is not None)
    total = sum(samples for _, samples in errors)
    seen = 0
    for error, samples in errors:
        seen += samples
        if seen >= 0.95 * total:
            return error
    return errors[-1][0] if errors else 0.0
