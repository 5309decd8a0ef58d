"""What accept length is usual at a context: quantile curves by text class, and the classes found in the data."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log

from msgspec import Struct

from ddwatch.core.expectation.quantiles import quantile

OVERALL = "overall"
"""Name of the curve over all text."""
POINT_SAMPLES = 30
"""A point of a curve is made of at least this many windows."""
POINT_RATIO = 1.6
"""Points of a curve are about this factor of context apart."""
USUAL = 1.5
CLASS_SHARE = 0.1
CLASS_GAP = 2.5
"""Two classes are told apart only when each has a tenth of the windows and their middles lie this many (pooled)
standard deviations apart: twice what it takes for the mixture of two equal normal curves to show two peaks is 2.0."""


class AcceptPoint(Struct, frozen=True, kw_only=True):
    """Quantiles of the accept length at one context; each but the median None where not known."""

    context: float
    """Tokens of one request."""
    p50: float
    p1: float | None = None
    p10: float | None = None
    p90: float | None = None
    samples: int | None = None


class AcceptCurve(Struct, frozen=True, kw_only=True):
    """Accept length of one text class by context."""

    text_class: str
    points: tuple[AcceptPoint, ...]
    """Ascending in context, at least one."""

    def at(self, context: float) -> AcceptPoint:
        """The quantiles at a context: linear in the logarithm of the context, the ends held beyond the data."""
        points = self.points
        where = bisect_right([point.context for point in points], context)
        if where == 0:
            return points[0]
        if where == len(points):
            return points[-1]
        left, right = points[where - 1], points[where]
        share = log(context / left.context) / log(right.context / left.context)
        return AcceptPoint(
            context=context,
            p1=_between(left.p1, right.p1, share),
            p10=_between(left.p10, right.p10, share),
            p50=left.p50 + (right.p50 - left.p50) * share,
            p90=_between(left.p90, right.p90, share),
        )

    def covers(self, context: float) -> bool:
        """Whether the context lies within the data, 1.25x at most beyond."""
        return self.points[0].context / 1.25 <= context <= self.points[-1].context * 1.25


def _between(left: float | None, right: float | None, share: float) -> float | None:
    if left is None or right is None:
        return None
    return left + (right - left) * share


def curve(text_class: str, windows: Iterable[tuple[float, float]]) -> AcceptCurve | None:
    """Fits one curve to (context, accept length) of windows; None when there are fewer than 30."""
    ordered = sorted(windows)
    if len(ordered) < POINT_SAMPLES:
        return None
    groups: list[list[tuple[float, float]]] = []
    for window in ordered:
        last = groups[-1] if groups else None
        if last is None or (len(last) >= POINT_SAMPLES and window[0] > POINT_RATIO * last[0][0]):
            groups.append([])
        groups[-1].append(window)
    if len(groups) > 1 and len(groups[-1]) < POINT_SAMPLES:
        groups[-2].extend(groups.pop())
    points = []
    for group in groups:
        lengths = sorted(length for _, length in group)
        points.append(
            AcceptPoint(
                context=group[len(group) // 2][0],
                p1=quantile(lengths, 0.01),
                p10=quantile(lengths, 0.1),
                p50=quantile(lengths, 0.5),
                p90=quantile(lengths, 0.9),
                samples=len(group),
            )
        )
    return AcceptCurve(text_class=text_class, points=tuple(points))


def two_classes(lengths: Sequence[float]) -> float | None:
    """The accept length that parts two kinds of text, None where the data show only one kind.

    The best split of the logarithms into two groups by least squares within groups (two-means in one dimension,
    exact), accepted only if both groups are large enough and far enough apart.
    """
    ordered = sorted(log(length) for length in lengths if length > 0.0)
    count = len(ordered)
    if count < 2 * POINT_SAMPLES:
        return None
    total = sum(ordered)
    squares = sum(value * value for value in ordered)
    best = (float("inf"), 1)
    left = left_squares = 0.0
    for size in range(1, count):
        left += ordered[size - 1]
        left_squares += ordered[size - 1] ** 2
        within = left_squares - left * left / size + (squares - left_squares) - (total - left) ** 2 / (count - size)
        best = min(best, (within, size))
    within, size = best
    if min(size, count - size) < CLASS_SHARE * count:
        return None
    low, high = ordered[size // 2], ordered[size + (count - size) // 2]
    if high - low < CLASS_GAP * (max(within, 0.0) / count) ** 0.5 or high - low < 0.05:
        return None
    if not _parted(ordered, size):
        return None
    return float(2.718281828459045 ** ((ordered[size - 1] + ordered[size]) / 2.0))


def _parted(ordered: Sequence[float], size: int) -> bool:
    """Whether the middle third of the way between the two groups is nearly empty.

    One broad kind of text has about a third of these values there; two kinds leave it to their outliers.
    """
    low, high = ordered[size // 2], ordered[size + (len(ordered) - size) // 2]
    third = (high - low) / 3.0
    between = bisect_right(ordered, high - third) - bisect_right(ordered, low + third)
    around = bisect_right(ordered, high) - bisect_right(ordered, low)
    return between < 0.2 * max(around, 1)


def curves(windows: Sequence[tuple[float, float, str | None]]) -> tuple[AcceptCurve, ...]:
    """The overall curve, then one per text class.

    Args:
        windows: context of one request, accept length, and the class where it was given. Without any class given,
            two are looked for and called `low` and `high`.
    """
    everything = curve(OVERALL, [(context, length) for context, length, _ in windows])
    if everything is None:
        return ()
    given = sorted({name for _, _, name in windows if name is not None})
    if given:
        named = [curve(name, [(c, length) for c, length, own in windows if own == name]) for name in given]
    else:
        border = two_classes([length for _, length, _ in windows])
        if border is None:
            return (everything,)
        named = [
            curve("low", [(context, length) for context, length, _ in windows if length <= border]),
            curve("high", [(context, length) for context, length, _ in windows if length > border]),
        ]
        if None in named:
            return (everything,)
    return (everything, *(one for one in named if one is not None))


def typical_class(known: Sequence[AcceptCurve], context: float, length: float) -> AcceptCurve | None:
    """The text class whose usual accept length at this context is nearest in ratio; None without classes."""
    classes = [one for one in known if one.text_class != OVERALL]
    if not classes or length <= 0.0:
        return None
    return min(classes, key=lambda one: abs(log(length / one.at(context).p50)))


def is_usual(known: AcceptCurve, context: float, length: float) -> bool:
    """Whether a length is one that this class may well show: between its 1 and 90 % quantiles, half as much beyond.

    Quantiles that are not known are taken as the median.
    """
    point = known.at(context)
    least = point.p1 or point.p10 or point.p50
    most = point.p90 or point.p50
    return least / USUAL <= length <= most * USUAL


def lowest_p1(known: Sequence[AcceptCurve], context: float) -> float | None:
    """The smallest p1 of the classes once two are covered here; None before that."""
    classes = [one for one in known if one.text_class != OVERALL and one.covers(context)]
    floors = [point.p1 for one in classes if (point := one.at(context)).p1 is not None]
    known_floors = [floor for floor in floors if floor is not None]
    return min(known_floors) if len(known_floors) >= 2 else None


def rising(points: Sequence[AcceptPoint]) -> bool:
    """Whether the contexts ascend strictly."""
    return all(left.context < right.context for left, right in pairwise(points))
