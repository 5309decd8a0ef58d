"""A rising piecewise-linear cost: the sum of ramps clip(x - k, 0, w) with non-negative slopes."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct


class Curve(Struct, frozen=True):
    """Cost above its value at the first knot.

    f(x) = sum over i of slopes[i] * clip(x - knots[i], 0, knots[i + 1] - knots[i]). Below the first knot it is 0.
    Beyond the last knot it goes on with the mean slope of the last octave (from half the last knot to the last
    knot), because one short last segment says little about the trend.
    """

    knots: tuple[float, ...] = ()
    """Ascending."""
    slopes: tuple[float, ...] = ()
    """Seconds per unit, one less than knots."""

    def at(self, x: float) -> float:
        """The cost at x, seconds."""
        if not self.slopes:
            return 0.0
        total = self._inside(x)
        beyond = x - self.knots[-1]
        return total + beyond * self.tail() if beyond > 0.0 else total

    def _inside(self, x: float) -> float:
        # Asked for with every sample and thousands of times in a fit, so without an iterator over pairs.
        knots, total = self.knots, 0.0
        low = knots[0]
        for i, slope in enumerate(self.slopes, 1):
            if x <= low:
                break
            high = knots[i]
            total += slope * ((x if x < high else high) - low)
            low = high
        return total

    def tail(self) -> float:
        """Slope beyond the last knot."""
        if not self.slopes:
            return 0.0
        last = self.knots[-1]
        back = max(last / 2.0, self.knots[0])
        return (self._inside(last) - self._inside(back)) / (last - back)

    def integral(self, low: float, high: float) -> float:
        """The exact integral from low to high (low <= high)."""
        corners = [low, *(knot for knot in self.knots if low < knot < high), high]
        heights = [self.at(corner) for corner in corners]
        return sum(
            (right - left) * (heights[i] + heights[i + 1]) / 2.0 for i, (left, right) in enumerate(pairwise(corners))
        )


def place(knots: Sequence[float], x: float) -> tuple[int, float]:
    """Where x lies: the index of the knot below and the share of the way to the next, 0 to 1, ends held."""
    if len(knots) < 2 or x <= knots[0]:
        return 0, 0.0
    if x >= knots[-1]:
        return len(knots) - 2, 1.0
    below = bisect_right(knots, x) - 1
    return below, (x - knots[below]) / (knots[below + 1] - knots[below])
