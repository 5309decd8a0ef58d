"""Splits measured / reference into factors whose product is exact, taken in one fixed order.

measured / reference = accept length x context (at the reference batch) x batch x idle and prefill x unexplained.
The order is a convention: with T not separable another order would give other shares. Unexplained is what is left.
"""

from collections.abc import Sequence

from msgspec import Struct

from ddwatch.core.expectation.pasted import Scope
from ddwatch.core.expectation.profile import Profile, Reference
from ddwatch.core.expectation.quantiles import huber_weight, quantile, spread
from ddwatch.core.snapshot import Sample

HUBER = 1.345
ROUNDS = 12
SPLIT_SAMPLES = 24
"""Fewer clean samples do not tell a fixed offset from a slope."""
SPLIT_RANGE = 0.15
"""The cost of context must vary by this share of the step time for the two to be told apart."""


class Load(Struct, frozen=True, kw_only=True):
    """What was running when the rate was measured."""

    batch: int
    begin_context: float
    """Context of one request when the measurement begins."""
    end_context: float
    """And when it ends; the same for a momentary reading."""
    accept_length: float | None
    scope: Scope = "service"


class Factors(Struct, frozen=True, kw_only=True):
    """Each factor of measured / reference; None where it is not known and therefore part of `unexplained`."""

    accept_length: float | None = None
    context: float | None = None
    batch: float | None = None
    idle: float | None = None
    """Share of the time that was spent decoding."""
    unexplained: float | None = None
    unexplained_offset: float | None = None
    """The part of `unexplained` that a fixed time added to every step makes."""
    unexplained_slope: float | None = None
    """The rest of `unexplained`: context costs more or less than it did."""

    def product(self) -> float | None:
        """Product of the known factors: measured / reference."""
        if self.unexplained is None:
            return None
        total = self.unexplained
        for factor in (self.accept_length, self.context, self.batch, self.idle):
            total *= 1.0 if factor is None else factor
        return total


class Split(Struct, frozen=True):
    """How measured steps differ from the model: T_measured = T + offset + slope_change x (cost of context)."""

    offset_seconds: float
    slope_change: float
    """0 when context costs what the model says, 1 when it costs twice that."""
    samples: int


def mean_step(profile: Profile, load: Load, batch: int) -> float:
    """The model's mean step time over the contexts of a load, were `batch` requests like it running."""
    return profile.step_time.mean_seconds(batch, batch * load.begin_context, batch * load.end_context)


def factor_split(
    profile: Profile,
    reference: Reference,
    load: Load,
    measured: float,
    idle: float | None = None,
    split: Split | None = None,
) -> Factors:
    """The factors of measured / reference.

    Args:
        profile: the model.
        reference: the remembered conditions, a rate of all its requests together.
        load: what was running.
        measured: tokens per second, of one request or of all as `load.scope` says.
        idle: share of the time spent decoding; None when not known.
        split: how live samples differ from the model; None from one pasted number.
    """
    then = profile.step_time.seconds(reference.batch, reference.batch * reference.context)
    same_batch = mean_step(profile, load, reference.batch)
    now = mean_step(profile, load, load.batch)
    remembered = reference.tokens_per_second
    if load.scope == "request":
        remembered /= reference.batch
    accept = load.accept_length / reference.accept if load.accept_length is not None else None
    context = then / same_batch
    batch = same_batch / now * (load.batch / reference.batch if load.scope == "service" else 1.0)
    known = (accept or 1.0) * context * batch * (idle or 1.0)
    unexplained = measured / remembered / known
    offset = slope = None
    if split is not None and now + split.offset_seconds > 0.0 and accept is not None:
        offset = now / (now + split.offset_seconds)
        slope = unexplained / offset
    return Factors(
        accept_length=accept,
        context=context,
        batch=batch,
        idle=idle,
        unexplained=unexplained,
        unexplained_offset=offset,
        unexplained_slope=slope,
    )


def split_unexplained(profile: Profile, samples: Sequence[Sample]) -> Split | None:
    """Tells a fixed time per step from a change of what context costs, by clean samples at different contexts.

    A robust straight line through (cost of context by the model, measured - model), Huber's weights, relative
    residuals. None with too few samples or contexts too much alike.
    """
    points = [
        (profile.step_time.context_seconds(total), expected, step)
        for sample in samples
        if sample.clean and sample.span == profile.step_time.span
        if (total := sample.total_context_tokens) is not None
        if (step := sample.step_seconds) is not None and sample.batch is not None
        if (expected := profile.step_time.seconds(sample.batch, total)) > 0.0 and step > 0.0
    ]
    if len(points) < SPLIT_SAMPLES:
        return None
    costs = sorted(cost for cost, _, _ in points)
    typical = quantile(sorted(expected for _, expected, _ in points), 0.5)
    if quantile(costs, 0.9) - quantile(costs, 0.1) < SPLIT_RANGE * typical:
        return None
    offset = slope = 0.0
    for _ in range(ROUNDS):
        fitted = [max(expected + offset + slope * cost, 0.1 * expected) for cost, expected, _ in points]
        residuals = [step / fit - 1.0 for (_, _, step), fit in zip(points, fitted, strict=True)]
        tolerance = HUBER * max(0.002, spread(residuals))
        weights = [
            huber_weight(residual, tolerance) / (fit * fit) for residual, fit in zip(residuals, fitted, strict=True)
        ]
        offset, slope = _line([(cost, step - expected) for cost, expected, step in points], weights)
    return Split(offset, slope, len(points))


def _line(points: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float]:
    """Weighted straight line: height at zero and slope; the x must differ."""
    total = sum(weights)
    mean_x = sum(w * x for (x, _), w in zip(points, weights, strict=True)) / total
    mean_y = sum(w * y for (_, y), w in zip(points, weights, strict=True)) / total
    across = sum(w * (x - mean_x) * (y - mean_y) for (x, y), w in zip(points, weights, strict=True))
    along = sum(w * (x - mean_x) ** 2 for (x, _), w in zip(points, weights, strict=True))
    slope = across / along
    return mean_y - slope * mean_x, slope
