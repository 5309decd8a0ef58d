"""Fits the cost of a step to observations: robust, non-negative, with the residuals that a band is made of.

Iteratively reweighted least squares on relative residuals with Huber's weights (Huber, "Robust Statistics", 1981,
tuning constant 1.345: 95 % efficiency on normal noise), each round a non-negative least-squares problem. Samples
are first described by hat functions on the knots, so that a sample touches four cells of the normal equations;
these are then turned into ramps by cumulative sums, which is exact.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

from msgspec import Struct

from ddwatch.core.expectation.curve import Curve, place
from ddwatch.core.expectation.evidence import MEDIAN_VARIANCE, SMALLEST_NOISE, evidence_regions, typical_error
from ddwatch.core.expectation.least_squares import Matrix, nonnegative
from ddwatch.core.expectation.quantiles import huber_weight, lag_one, quantile, spread
from ddwatch.core.expectation.retention import Observation
from ddwatch.core.expectation.step_time import Region, StepTime

HUBER = 1.345
ROUNDS = 12
SETTLED = 1e-5
"""Rounds end when no expectation moved by more than this share."""
FOLDS = 5
"""Every fifth sample is left out in turn: residuals of samples that the curve has not seen."""
KNOT_RATIO = 1.35
"""Context knots are this factor apart: a curve that grows like c^1.6, or a step as wide as an octave, is then met
within one percent."""
KNOT_SAMPLES = 12
"""Fewer samples between two knots cannot carry a slope of their own."""
REFINEMENTS = 3
"""How often stretches that the curve visibly misses are halved."""
VISIBLE = 0.004
"""A stretch is missed visibly when the middle of a third of its samples is off by more than this, and than chance."""
MOST_CONTEXT_KNOTS = 48
MOST_BATCH_KNOTS = 24
HICCUP = 4.5
"""Residuals beyond this many standard deviations of the bulk (one in 150 000 of normal noise) are no noise."""
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


class StepFit(Struct, frozen=True, kw_only=True):
    """A fitted step time and everything that is known about how well it fits."""

    step_time: StepTime
    residual_quantiles: tuple[float, ...]
    """At QUANTILES: ln(measured / expected step time) of samples that were left out of the fit."""
    lag1: float | None
    regions: tuple[Region, ...]
    fit_error: float
    """95 % of the evidence, by samples, is met at least this well (see Region.fit_error)."""


def context_knots(totals: Sequence[float]) -> tuple[float, ...]:
    """Knots from the smallest to the largest total context, about KNOT_RATIO apart, none without samples."""
    ordered = sorted(totals)
    low, high = ordered[0], ordered[-1]
    if high < low * 1.02:
        return (low,)
    count = max(1, round(log(high / low) / log(KNOT_RATIO)))
    ratio = (high / low) ** (1.0 / count)
    inner = [low * ratio**i for i in range(1, count)]
    return _carried(ordered, [low, *inner, high])


def _carried(ordered: Sequence[float], wanted: Sequence[float]) -> tuple[float, ...]:
    """Drops inner knots until each stretch between two knots has samples enough."""
    kept = [wanted[0]]
    since = 0
    position = bisect_right(ordered, wanted[0])
    for knot in wanted[1:]:
        while position < len(ordered) and ordered[position] <= knot:
            position += 1
            since += 1
        if since >= KNOT_SAMPLES or knot == wanted[-1]:
            kept.append(knot)
            if since < KNOT_SAMPLES and len(kept) > 2:
                del kept[-2]
            since = 0
    return tuple(kept)


def batch_knots(batches: Sequence[int], graph_sizes: Sequence[int] = ()) -> tuple[float, ...]:
    """Knots in batch: every batch with samples enough; where they are many, both edges of each graph's stair."""
    counts: dict[int, int] = {}
    for batch in batches:
        counts[batch] = counts.get(batch, 0) + 1
    seen = sorted(counts)
    usual = [batch for batch in seen if counts[batch] >= KNOT_SAMPLES]
    wanted = sorted({seen[0], seen[-1], *usual})
    if len(wanted) > MOST_BATCH_KNOTS:
        edges = {size + step for size in graph_sizes for step in (0, 1) if seen[0] <= size + step <= seen[-1]}
        chosen = sorted({seen[0], seen[-1], *edges})
        if not edges or len(chosen) > 2 * MOST_BATCH_KNOTS:
            last = MOST_BATCH_KNOTS - 1
            ratio = (seen[-1] / max(seen[0], 1)) ** (1.0 / last)
            chosen = sorted({min(seen, key=lambda b: abs(b - seen[0] * ratio**i)) for i in range(MOST_BATCH_KNOTS)})
        wanted = chosen
    return tuple(float(batch) for batch in wanted)


class _Design:
    """Observations described on the knots once, for all rounds and folds."""

    def __init__(self, observations: Sequence[Observation], batch: Sequence[float], context: Sequence[float]) -> None:
        self.batch = tuple(batch)
        self.context = tuple(context)
        self.rows = [(*place(batch, float(item.batch)), *place(context, item.total_context)) for item in observations]
        self.steps = [item.step_seconds for item in observations]
        self.roundings = [item.rounding() ** 2 for item in observations]

    def expected(self, heights: tuple[list[float], list[float]]) -> list[float]:
        """Step time at each observation from the heights at the knots."""
        batch, context = heights
        return [
            batch[i] + (batch[i + 1] - batch[i]) * s + context[j] + (context[j + 1] - context[j]) * t
            for i, s, j, t in self.rows
        ]

    def ramps(self, weights: Sequence[float], picked: Sequence[int]) -> tuple[Matrix, list[float]]:
        """Normal equations over [constant, batch increments, context increments]."""
        nb, nc = max(2, len(self.batch)), max(2, len(self.context))
        size = nb + nc
        hats = [[0.0] * size for _ in range(size)]
        right = [0.0] * size
        for index in picked:
            i, s, j, t = self.rows[index]
            weight = weights[index]
            moment = weight * self.steps[index]
            j += nb
            u, v = 1.0 - s, 1.0 - t
            right[i] += moment * u
            right[i + 1] += moment * s
            right[j] += moment * v
            right[j + 1] += moment * t
            # Only the upper triangle, element by element: this is the inner loop of every fit.
            by_u, by_s, by_v = weight * u, weight * s, weight * v
            row = hats[i]
            row[i] += by_u * u
            row[i + 1] += by_u * s
            row[j] += by_u * v
            row[j + 1] += by_u * t
            row = hats[i + 1]
            row[i + 1] += by_s * s
            row[j] += by_s * v
            row[j + 1] += by_s * t
            row = hats[j]
            row[j] += by_v * v
            row[j + 1] += by_v * t
            hats[j + 1][j + 1] += weight * t * t
        for a in range(size):
            for b in range(a):
                hats[a][b] = hats[b][a]
        _cumulate(hats, right, nb, nc)
        # Both curves' first cumulative column is the constant: keep the batch's, drop the context's.
        kept = [i for i in range(size) if i != nb]
        return [[hats[a][b] for b in kept] for a in kept], [right[a] for a in kept]

    def heights(self, increments: Sequence[float]) -> tuple[list[float], list[float]]:
        """Heights at the knots from the solution; the constant goes to the batch side."""
        nb = max(2, len(self.batch))
        batch = [increments[0]]
        for value in increments[1:nb]:
            batch.append(batch[-1] + value)
        context = [0.0]
        for value in increments[nb:]:
            context.append(context[-1] + value)
        return batch, context


def _cumulate(hats: Matrix, right: list[float], nb: int, nc: int) -> None:
    """Turns hat columns into increment columns in place: increment i is the sum of all hats from i on."""
    for low, high in ((0, nb), (nb, nb + nc)):
        for i in range(high - 2, low - 1, -1):
            right[i] += right[i + 1]
            upper, row = hats[i + 1], hats[i]
            for k in range(nb + nc):
                row[k] += upper[k]
    for row in hats:
        for low, high in ((0, nb), (nb, nb + nc)):
            for i in range(high - 2, low - 1, -1):
                row[i] += row[i + 1]


class _Solution(Struct, frozen=True):
    increments: list[float]
    noise: float


def _solve(design: _Design, picked: Sequence[int], start: _Solution | None = None) -> _Solution:
    """Robust fit to the picked observations; `start` is a solution nearby, for speed."""
    if start is None:
        expected = list(design.steps)
        noise = None
        passive: list[int] = []
    else:
        expected = design.expected(design.heights(start.increments))
        noise = start.noise
        passive = [i for i, value in enumerate(start.increments) if value > 0.0]
    increments: list[float] = []
    weights = [0.0] * len(design.steps)
    for _ in range(ROUNDS):
        for index in picked:
            base = 1.0 / (expected[index] * expected[index])
            if noise is not None:
                variance = noise * noise
                residual = design.steps[index] / expected[index] - 1.0
                tolerance = HUBER * (variance + design.roundings[index]) ** 0.5
                base *= huber_weight(residual, tolerance) * variance / (variance + design.roundings[index])
            weights[index] = base
        gram, moment = design.ramps(weights, picked)
        increments = nonnegative(gram, moment, passive)
        passive = [i for i, value in enumerate(increments) if value > 0.0]
        before = expected
        expected = [max(value, 1e-9) for value in design.expected(design.heights(increments))]
        moved = max(abs(expected[i] - before[i]) / expected[i] for i in picked)
        residuals = [log(design.steps[i] / expected[i]) for i in picked]
        known = noise
        base_variance = known * known if known is not None else SMALLEST_NOISE**2
        shares = [(1.0 + design.roundings[i] / base_variance) ** 0.5 for i in picked]
        noise = max(SMALLEST_NOISE, spread([r / share for r, share in zip(residuals, shares, strict=True)]))
        if known is not None and moved < SETTLED:
            break
    return _Solution(increments, noise if noise is not None else SMALLEST_NOISE)


def _step_time(design: _Design, solution: _Solution) -> StepTime:
    batch, context = design.heights(solution.increments)
    return StepTime(
        constant=batch[0],
        batch=_curve(design.batch, batch),
        context=_curve(design.context, context),
    )


def _curve(knots: Sequence[float], heights: Sequence[float]) -> Curve:
    if len(knots) < 2:
        return Curve(tuple(knots), ())
    slopes = [(heights[i + 1] - heights[i]) / (high - low) for i, (low, high) in enumerate(pairwise(knots))]
    return Curve(tuple(knots), tuple(max(0.0, slope) for slope in slopes))


def fit_step_time(
    observations: Sequence[Observation],
    graph_sizes: Sequence[int] = (),
    pairs: Sequence[tuple[Observation, Observation]] = (),
) -> StepFit:
    """Fits T(batch, total context).

    Args:
        observations: clean ones; at least one (thin evidence is refused by the caller).
        graph_sizes: batch sizes that graphs are captured for, where known.
        pairs: consecutive observations, for the autocorrelation.
    """
    batch = batch_knots([item.batch for item in observations], graph_sizes)
    totals = [item.total_context for item in observations]
    context = context_knots(totals)
    everything = range(len(observations))
    design = _Design(observations, batch, context)
    whole = _solve(design, everything)
    for _ in range(REFINEMENTS):
        finer = _refined(context, totals, design, whole)
        if finer == context:
            break
        context = finer
        design = _Design(observations, batch, context)
        whole = _solve(design, everything)
    step_time = _step_time(design, whole)
    residuals = _left_out_residuals(design, whole)
    ordered = sorted(_usual(residuals))
    regions = evidence_regions(observations, residuals)
    return StepFit(
        step_time=step_time,
        residual_quantiles=tuple(_tail_quantile(ordered, share) for share in QUANTILES),
        lag1=lag_one([(_residual(step_time, a), _residual(step_time, b)) for a, b in pairs]),
        regions=regions,
        fit_error=typical_error(regions),
    )


def _refined(
    knots: tuple[float, ...], totals: Sequence[float], design: "_Design", whole: "_Solution"
) -> tuple[float, ...]:
    """Halves every stretch between two knots whose samples lie visibly off the curve somewhere."""
    expected = design.expected(design.heights(whole.increments))
    misses = sorted(
        (total, log(step / max(value, 1e-9))) for total, step, value in zip(totals, design.steps, expected, strict=True)
    )
    finer = list(knots[:1])
    begin = 0
    for low, high in pairwise(knots):
        end = bisect_right(misses, (high, float("inf")))
        inside = misses[begin:end]
        begin = end
        middle = (low * high) ** 0.5
        left = bisect_right(inside, (middle, float("inf")))
        if min(left, len(inside) - left) >= KNOT_SAMPLES and _visibly_off([miss for _, miss in inside], whole.noise):
            finer.append(middle)
        finer.append(high)
    return tuple(finer) if len(finer) <= MOST_CONTEXT_KNOTS else knots


def _visibly_off(misses: Sequence[float], noise: float) -> bool:
    """Whether the middle of one third of the samples, in order of context, is off by more than chance explains."""
    edges = [round(i * len(misses) / 3) for i in range(4)]
    for left, right in pairwise(edges):
        chance = 3.0 * (MEDIAN_VARIANCE / (right - left)) ** 0.5 * noise
        if abs(quantile(sorted(misses[left:right]), 0.5)) > max(VISIBLE, chance):
            return True
    return False


def _residual(step_time: StepTime, item: Observation) -> float:
    return log(item.step_seconds / step_time.seconds(item.batch, item.total_context))


def _usual(residuals: Sequence[float]) -> list[float]:
    """Residuals without hiccups, which must not decide how wide the band is."""
    centre = quantile(sorted(residuals), 0.5)
    limit = HICCUP * max(SMALLEST_NOISE, spread(residuals))
    return [residual for residual in residuals if abs(residual - centre) <= limit]


def _left_out_residuals(design: _Design, whole: _Solution) -> list[float]:
    """ln(measured / expected) of each observation by a fit that has not seen it."""
    count = len(design.steps)
    residuals = [0.0] * count
    if count < 2 * FOLDS:
        for index, value in enumerate(design.expected(design.heights(whole.increments))):
            residuals[index] = log(design.steps[index] / value)
        return residuals
    for fold in range(FOLDS):
        picked = [index for index in range(count) if index % FOLDS != fold]
        solution = _solve(design, picked, whole)
        expected = design.expected(design.heights(solution.increments))
        for index in range(fold, count, FOLDS):
            residuals[index] = log(design.steps[index] / max(expected[index], 1e-9))
    return residuals


def _tail_quantile(ordered: Sequence[float], share: float) -> float:
    """A residual quantile that few samples do not make too narrow.

    The expected rank of the next sample, share * (n + 1) - 1, lies further out than the plain quantile; with few
    samples it falls off the end, and the end is held.
    """
    count = len(ordered)
    place_in_order = share * (count + 1) - 1.0
    return quantile(ordered, min(1.0, max(0.0, place_in_order / (count - 1)))) if count > 1 else ordered[0]


def ratio_band(low_quantile: float, high_quantile: float) -> tuple[float, float]:
    """Band on the throughput ratio from quantiles of ln(step time measured / expected): a longer step is less."""
    return exp(-high_quantile), exp(-low_quantile)
