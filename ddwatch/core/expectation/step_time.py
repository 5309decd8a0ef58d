"""The cost of a step, T(batch, total context), and where the evidence for it lies.

T = constant + batch curve + total-context curve, each curve a sum of non-negative ramps: monotone, piecewise
linear, neither convex nor concave by force. Attention grows with total context, the cost of mixture-of-experts
layers flattens with batch, graph padding makes stairs.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ddwatch.core.expectation.curve import Curve
from ddwatch.core.snapshot import Span

REACH = 1.25
"""How far beyond covered batches and contexts a judgement still holds."""
BATCH_GAP = 2.0
"""Between two covered batches no further apart than this factor the model may be trusted as well."""


class StepTime(Struct, frozen=True, kw_only=True):
    """Seconds per step as a function of running requests and their total context."""

    span: Span = "step"
    constant: float
    batch: Curve = Curve()
    context: Curve = Curve()
    """Of total context tokens."""

    def seconds(self, batch: float, total_context: float) -> float:
        """T(batch, total context)."""
        return self.constant + self.batch.at(batch) + self.context.at(total_context)

    def mean_seconds(self, batch: float, low: float, high: float) -> float:
        """Mean step time while the total context grows from low to high: exact for a piecewise-linear T."""
        fixed = self.constant + self.batch.at(batch)
        if high <= low:
            return fixed + self.context.at(low)
        return fixed + self.context.integral(low, high) / (high - low)

    def context_seconds(self, total_context: float) -> float:
        """The part of T that context costs."""
        return self.context.at(total_context)


class Region(Struct, frozen=True, kw_only=True):
    """A stretch of evidence: these batches were seen at these total contexts."""

    batch: tuple[int, int]
    total_context: tuple[float, float]
    samples: int
    fit_error: float | None = None
    """How far the curve misses the middle of these samples: from the median of ln(measured / expected) of left-out
    samples, less the variance that a median of so many has anyway, and never less than so many can tell."""

    def near(self, batch: float, total_context: float, reach: float = REACH) -> bool:
        """Whether a point lies within `reach` times the region."""
        return (
            self.batch[0] / reach <= batch <= self.batch[1] * reach
            and self.total_context[0] / reach <= total_context <= self.total_context[1] * reach
        )


def covers(regions: Sequence[Region], batch: float, total_context: float) -> bool:
    """Whether the evidence reaches a point, so that a difference there may be held against the service.

    A point counts within 1.25x of a region, and between two regions whose batches are at most a factor of two
    apart, within 1.25x of the contexts that the two span together.
    """
    for region in regions:
        if region.near(batch, total_context):
            return True
    below = max((r.batch[1] for r in regions if r.batch[1] < batch), default=None)
    above = min((r.batch[0] for r in regions if r.batch[0] > batch), default=None)
    if below is None or above is None or above > BATCH_GAP * below:
        return False
    for left in regions:
        if left.batch[1] != below:
            continue
        for right in regions:
            if right.batch[0] != above:
                continue
            low = min(left.total_context[0], right.total_context[0])
            high = max(left.total_context[1], right.total_context[1])
            apart = max(left.total_context[0], right.total_context[0]) > BATCH_GAP * min(
                left.total_context[1], right.total_context[1]
            )
            if not apart and low / REACH <= total_context <= high * REACH:
                return True
    return False


def fit_error_at(regions: Sequence[Region], batch: float, total_context: float) -> float | None:
    """The largest fit error of the regions that a point belongs to; None where no region reaches it."""
    errors = [r.fit_error for r in regions if r.fit_error is not None and r.near(batch, total_context)]
    return max(errors) if errors else None


def coupled(loads: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    """The regressors of ranks that step together: the largest batch and the largest total context of any of them."""
    known = list(loads)
    if not known:
        return None
    return max(batch for batch, _ in known), max(total for _, total in known)
