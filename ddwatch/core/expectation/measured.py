"""A profile from a sweep: points that were measured one by one, at batches and contexts that somebody chose.

Each point is the mean step time of some tens of steps around one context, so its error is known from their number, and
the knots of the curve are the contexts themselves. Non-negative weighted least squares on relative residuals, as
in the fit to a log (DESIGN.md section 5.1); residual quantiles are those of a normal distribution whose spread per
step the points show.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log, sqrt

from msgspec import Struct

from ddwatch.core.expectation.accept import OVERALL, AcceptCurve, AcceptPoint
from ddwatch.core.expectation.curve import Curve
from ddwatch.core.expectation.fit import TRUSTED_ERROR, Refusal
from ddwatch.core.expectation.identity import Identity, Scalar
from ddwatch.core.expectation.least_squares import Matrix, nonnegative
from ddwatch.core.expectation.profile import Evidence, Profile, Reference, Residuals
from ddwatch.core.expectation.quantiles import middle, spread
from ddwatch.core.expectation.step_time import Region, StepTime
from ddwatch.core.expectation.windows import WINDOW_STEPS

FEWEST_POINTS = 4
FEWEST_STEPS = 40
KNOT_RATIO = 1.12
"""Contexts closer together than this share a knot."""
SMALLEST_SPREAD = 0.02
"""A window's ln(measured / expected) scatters at least this much from day to day, whatever a sweep of minutes shows."""
TRUSTED_SPREAD = 0.25
"""Lines that scatter by more than this cannot be judged one by one; such a profile may explain, but not accuse."""
HICCUP = 4.5
"""Points beyond this many standard deviations are left out."""
QUANTILES = {"p01": -2.3263, "p05": -1.6449, "p25": -0.6745, "p50": 0.0, "p75": 0.6745, "p95": 1.6449, "p99": 2.3263}
"""Of the standard normal distribution."""


class Measured(Struct, frozen=True, kw_only=True):
    """One point: the difference of two requests that differ in their output length only."""

    batch: int
    context_target: int
    """The context of the sweep that it belongs to, tokens of one request."""
    context_tokens: float
    """Mean context of one request over the steps of the difference."""
    text_class: str
    step_seconds: float
    steps: int
    """Steps in the difference."""
    drafts: tuple[int, ...] = ()
    """Steps with 0, 1, 2 … accepted drafts, over both requests."""
    accept_length: float | None = None
    accept_steps: int = 0
    """Steps that the accept length is the mean of."""
    prefill_seconds: float | None = None
    prompt_tokens: int = 0

    @property
    def total_context(self) -> float:
        """Context summed over the batch."""
        return self.batch * self.context_tokens


def knots_of(values: Iterable[float], ratio: float = KNOT_RATIO) -> tuple[float, ...]:
    """Distinct values, ascending; those that lie closer together than a ratio are one, their mean."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value <= groups[-1][0] * ratio:
            groups[-1].append(value)
        else:
            groups.append([value])
    return tuple(sum(group) / len(group) for group in groups)


def _row(batch: Sequence[float], context: Sequence[float], point: Measured) -> list[float]:
    """The constant, and how much of each ramp a point has climbed."""
    row = [1.0]
    for knots, x in ((batch, float(point.batch)), (context, point.total_context)):
        row += [min(max((x - low) / (high - low), 0.0), 1.0) for low, high in pairwise(knots)]
    return row


def fit_points(points: Sequence[Measured]) -> StepTime:
    """T(batch, total context) through the points; raises ValueError when there are none."""
    batch = tuple(float(value) for value in sorted({point.batch for point in points}))
    context = knots_of(point.total_context for point in points)
    rows = [_row(batch, context, point) for point in points]
    size = len(rows[0])
    gram: Matrix = [[0.0] * size for _ in range(size)]
    moment = [0.0] * size
    for row, point in zip(rows, points, strict=True):
        weight = point.steps / point.step_seconds**2
        for a, share in enumerate(row):
            if share:
                moment[a] += weight * share * point.step_seconds
                for b, other in enumerate(row):
                    gram[a][b] += weight * share * other
    increments = nonnegative(gram, moment, [])
    ramps = max(len(batch) - 1, 0)
    return StepTime(
        constant=increments[0],
        batch=_curve(batch, increments[1 : 1 + ramps]),
        context=_curve(context, increments[1 + ramps :]),
    )


def _curve(knots: Sequence[float], increments: Sequence[float]) -> Curve:
    slopes = [max(0.0, rise) / (high - low) for rise, (low, high) in zip(increments, pairwise(knots), strict=True)]
    return Curve(tuple(knots), tuple(slopes))


def _residual(step_time: StepTime, point: Measured) -> float:
    return log(point.step_seconds / step_time.seconds(point.batch, point.total_context))


def step_spread(points: Sequence[Measured], step_time: StepTime) -> float:
    """Standard deviation of one step's ln(measured / expected), from how far the bulk of the means scatters."""
    free = max(len(points) - len(step_time.context.knots) - len(step_time.batch.knots) + 1, 1)
    scaled = [_residual(step_time, one) * sqrt(one.steps) for one in points]
    return spread(scaled) * sqrt(len(points) / free)


def without_hiccups(points: Sequence[Measured]) -> list[Measured]:
    """The points without those that a pause somewhere else has spoilt."""
    step_time = fit_points(points)
    scaled = [_residual(step_time, one) * one.steps**0.5 for one in points]
    limit = HICCUP * max(spread(scaled), SMALLEST_SPREAD)
    kept = [one for one, residual in zip(points, scaled, strict=True) if residual <= limit]
    return kept if len(kept) >= FEWEST_POINTS else list(points)


def chord_errors(points: Sequence[Measured]) -> list[tuple[float, float, float]]:
    """How far the true curve may lie below each straight stretch between neighbouring contexts, at the smallest batch.

    Where slopes only grow, the curve lies above the prolongations of both neighbouring stretches, so the gap between
    their crossing and the straight line bounds the error. Gives both ends (tokens of one request) and the gap,
    relative.
    """
    least = min(point.batch for point in points)
    step_time = fit_points([point for point in points if point.batch == least])
    knots = step_time.context.knots
    heights = [step_time.seconds(least, knot) for knot in knots]
    slopes = step_time.context.slopes
    found = []
    for i, (low, high) in enumerate(pairwise(knots)):
        before = slopes[i - 1] if i > 0 else 0.0
        after = slopes[i + 1] if i + 1 < len(slopes) else slopes[i]
        gap = 0.0
        if before < slopes[i] < after:
            crossing = (heights[i + 1] - heights[i] + before * low - after * high) / (before - after)
            x = min(max(crossing, low), high)
            line = heights[i] + slopes[i] * (x - low)
            gap = (line - max(heights[i] + before * (x - low), heights[i + 1] - after * (high - x))) / line
        found.append((low / least, high / least, max(gap, 0.0)))
    return found


def _regions(points: Sequence[Measured], step_time: StepTime, noise: float) -> tuple[Region, ...]:
    regions = []
    gaps = chord_errors(points)
    for batch in sorted({point.batch for point in points}):
        groups: dict[int, list[Measured]] = {}
        for point in points:
            if point.batch == batch:
                groups.setdefault(point.context_target, []).append(point)
        ordered = [groups[target] for target in sorted(groups)]
        errors = [_miss(group, step_time, noise) for group in ordered]
        centres = [middle(point.total_context for point in group) for group in ordered]
        if len(ordered) == 1:
            regions.append(
                Region(
                    batch=(batch, batch),
                    total_context=(centres[0], centres[0]),
                    samples=len(ordered[0]),
                    fit_error=errors[0],
                )
            )
        for i, (low, high) in enumerate(pairwise(centres)):
            inside = [gap for left, right, gap in gaps if left * batch < high and right * batch > low]
            bend = max(inside, default=0.0) / 2.0
            error = (max(errors[i], errors[i + 1]) ** 2 + bend**2) ** 0.5
            count = len(ordered[i]) + len(ordered[i + 1])
            regions.append(
                Region(batch=(batch, batch), total_context=(low, max(low, high)), samples=count, fit_error=error)
            )
    return tuple(regions)


def _miss(group: Sequence[Measured], step_time: StepTime, noise: float) -> float:
    """How far the curve misses the mean of a group, beyond what chance explains."""
    steps = sum(point.steps for point in group)
    mean = sum(_residual(step_time, point) * point.steps for point in group) / steps
    return sqrt(max(0.0, mean * mean - noise * noise / steps))


def accept_curve(text_class: str, points: Sequence[Measured], window: int = WINDOW_STEPS) -> AcceptCurve | None:
    """Quantiles of the mean accept length over a window of steps, by context; None where nobody counted it.

    Within a text steps vary as the counted distribution says; texts differ from each other by what is left.
    """
    groups: dict[int, list[Measured]] = {}
    for point in points:
        if point.accept_length is not None and point.accept_steps > 0:
            groups.setdefault(point.context_target, []).append(point)
    known = [one for group in groups.values() for one in group]
    if not known:
        return None
    overall = _mean(known)
    within = _variance_within(known)
    between = max(0.0, _variance_between(known, overall) - within * len(known) / sum(p.accept_steps for p in known))
    sigma = (within / window + between) ** 0.5
    found = []
    for target in sorted(groups):
        mean = _mean(groups[target])
        low = max(mean - 1.2816 * sigma, 1.0)
        found.append(
            AcceptPoint(
                context=middle(point.context_tokens for point in groups[target]),
                p1=max(1.0, min(mean - 2.3263 * sigma, low)),
                p10=min(low, mean),
                p50=mean,
                p90=mean + 1.2816 * sigma,
                samples=len(groups[target]),
            )
        )
    ascending = [point for i, point in enumerate(found) if i == 0 or point.context > found[i - 1].context]
    return AcceptCurve(text_class=text_class, points=tuple(ascending))


def _mean(points: Sequence[Measured]) -> float:
    steps = sum(point.accept_steps for point in points)
    return sum((point.accept_length or 0.0) * point.accept_steps for point in points) / steps


def _variance_within(points: Sequence[Measured]) -> float:
    """Variance of one step's accept length, from the counted distributions."""
    counts: dict[int, int] = {}
    for point in points:
        for drafts, count in enumerate(point.drafts):
            counts[drafts] = counts.get(drafts, 0) + count
    total = sum(counts.values())
    if total < 2:
        return 0.0
    mean = sum(drafts * count for drafts, count in counts.items()) / total
    return sum(count * (drafts - mean) ** 2 for drafts, count in counts.items()) / (total - 1)


def _variance_between(points: Sequence[Measured], mean: float) -> float:
    if len(points) < 2:
        return 0.0
    return sum(((point.accept_length or mean) - mean) ** 2 for point in points) / (len(points) - 1)


def prefill_rate(points: Sequence[Measured]) -> float | None:
    """Prompt tokens per second, from the long prompts, where a fixed cost hardly counts."""
    longest = max((point.prompt_tokens for point in points), default=0)
    rates = [
        point.prompt_tokens / point.prefill_seconds
        for point in points
        if point.batch == 1 and point.prefill_seconds and point.prompt_tokens >= max(256, longest / 4)
    ]
    return middle(rates) if rates else None


def fit_measured(
    points: Sequence[Measured],
    *,
    name: str,
    identity: Identity,
    judged: Mapping[str, Scalar],
    source: str | None = None,
    created: str | None = None,
    interval: int | None = None,
    note: str | None = None,
) -> Profile | Refusal:
    """A profile from the points of a sweep, or one sentence why not.

    Args:
        points: what was measured, in any order.
        name: what the profile shall be called.
        identity: what service this is.
        judged: its setup.
        source: where it was measured.
        created: when, ISO 8601 with offset.
        interval: steps per decode line, which the band is stated for; forty where not known.
        note: one sentence for the operator.
    """
    steps = sum(point.steps for point in points)
    contexts = {point.context_target for point in points}
    if len(points) < FEWEST_POINTS or len(contexts) < 2 or steps < FEWEST_STEPS:
        return Refusal(
            f"{len(points)} points at {len(contexts)} contexts ({steps} steps) are too few for a profile; "
            f"need {FEWEST_POINTS} points at 2 contexts and {FEWEST_STEPS} steps"
        )
    kept = without_hiccups(points)
    step_time = fit_points(kept)
    if step_time.seconds(1.0, 1.0) <= 0.0:
        return Refusal("the points give a step time of zero at no load: they contradict each other; measure again")
    per_step = step_spread(kept, step_time)
    regions = _regions(kept, step_time, per_step)
    line = max(SMALLEST_SPREAD, per_step / (interval or WINDOW_STEPS) ** 0.5)
    classes = sorted({point.text_class for point in kept})
    curves = [accept_curve(OVERALL, kept), *(accept_curve(c, [p for p in kept if p.text_class == c]) for c in classes)]
    totals = [point.total_context for point in kept]
    error = max((region.fit_error or 0.0 for region in regions), default=0.0)
    trusted = error <= TRUSTED_ERROR and line <= TRUSTED_SPREAD
    if not trusted:
        note = (
            f"The points scatter by {100 * per_step:.0f} % per step and the curve misses them by {100 * error:.0f} %: "
            "it explains, it never accuses. Calibrate again on a quiet machine, or with more time."
        )
    return Profile(
        name=name,
        calibrated=trusted,
        note=note,
        identity=identity,
        judged=dict(judged),
        evidence=Evidence(
            samples=len(kept),
            contexts=(min(totals), max(totals)),
            batches=tuple(sorted({point.batch for point in kept})),
            provenance="two-point decode isolation",
            source=source,
            created=created,
            regions=regions,
        ),
        step_time=step_time,
        residuals=Residuals(**{key: value * line for key, value in QUANTILES.items()}) if trusted else None,
        fit_error=error,
        prefill_tokens_per_second=prefill_rate(kept),
        accept=tuple(curve for curve in curves if curve is not None),
        references=_reference(kept, step_time),
    )


def _reference(points: Sequence[Measured], step_time: StepTime) -> tuple[Reference, ...]:
    """The fastest text at the smallest batch: what people will remember of this service."""
    least = min(point.batch for point in points)
    told = [point for point in points if point.batch == least and point.accept_length is not None]
    if not told:
        return ()

    def rate(point: Measured) -> float:
        return least * (point.accept_length or 0.0) / step_time.seconds(least, point.total_context)

    groups: dict[tuple[str, int], list[Measured]] = {}
    for point in told:
        groups.setdefault((point.text_class, point.context_target), []).append(point)
    (text_class, _), best = max(groups.items(), key=lambda item: middle(rate(point) for point in item[1]))
    context, accept = middle(point.context_tokens for point in best), _mean(best)
    return (
        Reference(
            label=f"calibration, {text_class} text",
            context=context,
            batch=least,
            accept=accept,
            tokens_per_second=least * accept / step_time.seconds(least, least * context),
        ),
    )


def half_width(points: Sequence[Measured], noise: float) -> float | None:
    """Half of the 95 % confidence interval of a group's mean step time, relative; None for fewer than two points.

    Args:
        points: of one batch and context.
        noise: standard deviation of one step, relative, as all points show it; the group's own where that is larger.
    """
    if len(points) < 2:
        return None
    steps = sum(point.steps for point in points)
    mean = sum(point.step_seconds * point.steps for point in points) / steps
    own = sqrt(sum(log(point.step_seconds / mean) ** 2 * point.steps for point in points) / (len(points) - 1))
    return 1.96 * max(noise, own if len(points) > 2 else 0.0) / sqrt(steps)


def doubling(low: int, high: int) -> tuple[int, ...]:
    """Whole numbers from low to high, each twice the one before; the last one is high itself."""
    found = [low]
    while found[-1] * 2 <= high:
        found.append(found[-1] * 2)
    if len(found) > 1 and high < 1.25 * found[-1]:
        found[-1] = high
    elif high > found[-1]:
        found.append(high)
    return tuple(found)
