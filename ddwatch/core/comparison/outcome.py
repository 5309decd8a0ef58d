"""What two sides say together: step time and accept length at equal load, and the factors between both rates."""

from typing import Literal

from msgspec import Struct

from ddwatch.core.comparison.matching import (
    ACCEPT_SLOPE,
    FEWEST_MATCHED,
    STEP_SLOPE,
    Interval,
    Matched,
    common_cells,
    loads,
    match,
)
from ddwatch.core.comparison.sides import Side
from ddwatch.core.expectation.retention import Observation
from ddwatch.core.expectation.step_fit import fit_step_time

Outcome = Literal["no-change", "faster", "accept-fell", "slower", "incomparable"]

SMALLEST_STEP = 0.01
"""A smaller change of step time is what any two starts of one server differ by."""
SMALLEST_ACCEPT = 0.02
FIT_READINGS = 600


class Figures(Struct, frozen=True, kw_only=True):
    """One side as a whole, clean samples only; `tokens_per_second` = batch x accept length / step time, exactly."""

    samples: int
    """All that came in."""
    clean: int
    tokens_per_second: float | None = None
    batch: float | None = None
    accept_length: float | None = None
    context_tokens: float | None = None
    step_seconds: float | None = None
    batches: tuple[int, int] | None = None
    total_context_tokens: tuple[float, float] | None = None
    first_at: float | None = None
    last_at: float | None = None


class Shares(Struct, frozen=True, kw_only=True):
    """Rate after / rate before as a product; None where a factor cannot be told from the next one."""

    ratio: float
    accept_length: float
    context: float | None
    """None: part of `load`."""
    batch: float | None
    load: float
    """Context and batch together: product of both."""
    step_time: float
    """What the restart itself did to each step, as a factor of the rate."""


class Comparison(Struct, frozen=True, kw_only=True):
    """Before and after."""

    outcome: Outcome
    before: Figures
    after: Figures
    step_seconds: Matched | None = None
    """At equal batch and context."""
    accept_length: Matched | None = None
    shares: Shares | None = None
    common: tuple[int, int] = (0, 0)
    """Kept samples of both sides in common cells."""
    reason: str | None = None
    """Why it cannot be compared."""


def figures(side: Side) -> Figures:
    """A side as a whole."""
    sums = side.sums
    if not sums.samples:
        return Figures(samples=side.seen, clean=0)
    reach = loads(side.readings())
    return Figures(
        samples=side.seen,
        clean=sums.samples,
        tokens_per_second=sums.tokens / sums.seconds,
        batch=sums.batch / sums.samples,
        accept_length=sums.tokens / sums.batch,
        context_tokens=sums.context / sums.samples,
        step_seconds=sums.seconds / sums.samples,
        batches=reach[:2] if reach is not None else None,
        total_context_tokens=reach[2:] if reach is not None else None,
        first_at=side.first_at,
        last_at=side.last_at,
    )


def matched_steps(before: Side, after: Side) -> Matched | None:
    """Step time at equal batch and context."""
    return match(before.cells(), after.cells(), lambda item: item.step_seconds, STEP_SLOPE)


def compare(before: Side, after: Side) -> Comparison:
    """The comparison of two sides, whatever they hold."""
    old, new = figures(before), figures(after)
    _, *common = common_cells(before.cells(), after.cells())
    told = Comparison(
        outcome="incomparable", before=old, after=new, common=(common[0], common[1]), reason=_reason(old, new)
    )
    steps = matched_steps(before, after)
    if steps is None:
        return told
    accepts = match(before.cells(), after.cells(), lambda item: item.accept_length, ACCEPT_SLOPE, outliers=False)
    return Comparison(
        outcome=outcome_of(steps.ratio, accepts.ratio if accepts is not None else None),
        before=old,
        after=new,
        step_seconds=steps,
        accept_length=accepts,
        shares=shares(before, after, steps.ratio.value),
        common=told.common,
    )


def outcome_of(steps: Interval, accept: Interval | None) -> Outcome:
    """What an interval that leaves out `no change`, by more than the smallest change that counts, says."""
    if steps.low > 1.0 + SMALLEST_STEP:
        return "slower"
    if accept is not None and accept.high < 1.0 - SMALLEST_ACCEPT:
        return "accept-fell"
    return "faster" if steps.high < 1.0 - SMALLEST_STEP else "no-change"


def _reason(old: Figures, new: Figures) -> str:
    for name, side in (("before", old), ("after", new)):
        if side.samples == 0:
            return f"there is no decode line {name}"
        if side.clean < FEWEST_MATCHED:
            lines = f"{side.samples} decode line{'' if side.samples == 1 else 's'}"
            return f"{name}, {side.clean} of {lines} are clean; need {FEWEST_MATCHED}"
    return "no batch and context was seen often enough on both sides"


def shares(before: Side, after: Side, step_ratio: float) -> Shares:
    """The factors between both rates; accept length x load x step time is their ratio, exactly."""
    old, new = before.sums, after.sums
    ratio = (new.tokens / new.seconds) / (old.tokens / old.seconds)
    accept = (new.tokens / new.batch) / (old.tokens / old.batch)
    step_time = 1.0 / step_ratio
    load = ratio / accept / step_time
    context, batch = _load_parts(before, after, step_ratio, load)
    return Shares(ratio=ratio, accept_length=accept, context=context, batch=batch, load=load, step_time=step_time)


def _load_parts(before: Side, after: Side, step_ratio: float, load: float) -> tuple[float | None, float | None]:
    """Context at the batch before, then the rest: batch. Where the batch is the same, all of it is context."""
    batches = {item.batch for side in (before, after) for item in side.readings()}
    if len(batches) == 1:
        return load, 1.0
    context = _context_share(before, after, step_ratio)
    return (context, load / context) if context is not None else (None, None)


def _context_share(before: Side, after: Side, step_ratio: float) -> float | None:
    """Step time at the batch before and the context before, over that at the context after, by a curve of both."""
    pooled = [*_thin(before, 1.0), *_thin(after, step_ratio)]
    curve = fit_step_time(pooled).step_time
    old, new = before.sums, after.sums
    batch = old.batch / old.samples
    then = curve.seconds(batch, batch * old.context / old.samples)
    now = curve.seconds(batch, batch * new.context / new.samples)
    return then / now if then > 0.0 and now > 0.0 else None


def _thin(side: Side, step_ratio: float) -> list[Observation]:
    kept = list(side.readings())
    stride = max(1, len(kept) // FIT_READINGS)
    return [
        Observation(batch=item.batch, total_context=item.total_context, step_seconds=item.step_seconds / step_ratio)
        for item in kept[::stride]
    ]
