"""Tells a fixed offset per step from a change of the slope, from residual seconds over context and batch.

Each explanation is one number: so many seconds on every step, a factor on every step, a factor on the cost of context,
a factor on the cost of batch. Lines are summed up in bins of batch and context; each bin's mean has the variance of its
lines and, on top, that of the curve's own error, which does not average out. The explanation with the smallest chi
square is named only if the next one is clearly worse. An excess that still grows looks like whatever grew with it, so
bins are also kept by time, and explanations may then grow as well before they are compared.
"""

from collections import Counter
from collections.abc import Callable
from math import isfinite
from typing import Literal, NamedTuple

from msgspec import Struct

from ddwatch.core.detection.blocks import Line
from ddwatch.core.detection.noise import Noise
from ddwatch.core.expectation.retention import bucket
from ddwatch.core.expectation.step_time import StepTime

Form = Literal["offset", "factor", "context", "batch", "undetermined"]
CLEARLY = 6.0
"""Difference in chi square (odds of 20 to 1) by which the best explanation must lead."""
GROWING = 2.0
"""Chi square that growth must save the best explanation, before any of them is let grow."""
MOST_BINS = 64
EPOCH_SECONDS = 15.0
"""Traffic that a bin spans at most, at first; each time the bins become too many it is twice as much."""
SMALLEST_ERROR = 0.01
"""A fitted curve is never trusted beyond one percent between two places."""
WIDE = 2.0
"""Contexts that span this factor count as all of them."""


class Explanation(NamedTuple):
    """One number with its standard error."""

    value: float
    error: float
    chi_square: float
    growth: float
    """Chi square that it saves if the number may change evenly over time."""


class Shape(Struct, frozen=True, kw_only=True):
    """How the excess is made up."""

    form: Form
    offset_seconds: float
    """Excess as seconds per step, if it is that."""
    offset_error: float
    """Standard error."""
    factor: float
    """Excess as a factor on the step time, if it is that."""
    factor_error: float
    contexts: tuple[float, float]
    """Smallest and largest total context seen since the onset."""
    batches: tuple[float, float]
    lines: int

    @property
    def what(self) -> str:
        """The excess in words: `+31 ms on every step`."""
        if self.form == "offset":
            return f"{_milliseconds(self.offset_seconds)} on every step"
        if self.form == "factor":
            return f"x{self.factor:.2f} on every step"
        if self.form == "context":
            return f"{_milliseconds(self.offset_seconds)} per step on average, steeper with context"
        if self.form == "batch":
            return f"{_milliseconds(self.offset_seconds)} per step on average, steeper with batch"
        return f"{_milliseconds(self.offset_seconds)} (x{self.factor:.2f}) per step"

    @property
    def where(self) -> str:
        """Where that holds: `at all contexts`, or the stretch of total contexts that was seen."""
        low, high = self.contexts
        if self.form in ("offset", "factor") and high >= WIDE * low:
            return "at all contexts" if self.form == "offset" else "at every context"
        if high < 1.1 * low:
            return f"at {_tokens((low + high) / 2.0)} tokens"
        return f"between {_tokens(low)} and {_tokens(high)} tokens"


def _milliseconds(seconds: float) -> str:
    value = seconds * 1000.0
    return f"{value:+.0f} ms" if abs(value) >= 9.95 else f"{value:+.1f} ms"


def _tokens(count: float) -> str:
    return f"{count / 1000.0:.1f}k" if count >= 1000.0 else f"{count:.0f}"


class _Bin:
    __slots__ = ("batch", "context", "count", "excess", "offset", "tick", "tokens")

    def __init__(self) -> None:
        self.count = 0
        self.excess = 0.0
        self.offset = 0.0
        self.context = 0.0
        self.tokens = 0.0
        self.batch = 0.0
        self.tick = 0.0

    def join(self, other: "_Bin") -> None:
        """Takes over all lines of another bin."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


Place = tuple[int, int, int]
"""Bucket of batch, bucket of context, epoch."""


class Excess:
    """Sums up lines since the onset of a suspicion, bounded."""

    __slots__ = ("_began", "_bins", "_epoch", "_high", "_least", "_lines", "_low", "_model", "_most", "_seconds")

    def __init__(self, model: StepTime) -> None:
        self._model = model
        self.clear()

    def use(self, model: StepTime) -> None:
        """Splits the lines to come by another model."""
        self._model = model

    def clear(self) -> None:
        """Forgets all lines."""
        self._bins: dict[Place, _Bin] = {}
        self._began: float | None = None
        self._epoch = EPOCH_SECONDS
        self._lines = 0
        self._seconds = 0.0
        self._low = self._least = float("inf")
        self._high = self._most = 0.0

    def add(self, line: Line) -> None:
        """Takes a line since the onset."""
        where = self._place(line)
        one = self._bins.get(where)
        if one is None:
            while len(self._bins) >= MOST_BINS:
                if not self._coarsen():
                    return
                where = self._place(line)
            one = self._bins.setdefault(where, _Bin())
        expected = line.expected_seconds
        one.count += 1
        one.excess += line.step_seconds / expected - 1.0
        one.offset += 1.0 / expected
        one.context += self._model.context_seconds(line.total_context) / expected
        one.tokens += line.total_context / expected
        one.batch += self._model.batch.at(line.batch) / expected
        one.tick += line.tick
        self._lines += 1
        self._seconds += line.step_seconds - expected
        self._low, self._high = min(self._low, line.total_context), max(self._high, line.total_context)
        self._least, self._most = min(self._least, line.batch), max(self._most, line.batch)

    def _place(self, line: Line) -> Place:
        if self._began is None:
            self._began = line.tick
        return (*bucket(line.batch, line.total_context), int((line.tick - self._began) / self._epoch))

    def _coarsen(self) -> bool:
        """Joins bins of neighbouring epochs; False when there is only one epoch."""
        if all(epoch == 0 for _, _, epoch in self._bins):
            return False
        bins, self._bins = self._bins, {}
        self._epoch *= 2.0
        for (batch, context, epoch), one in bins.items():
            kept = self._bins.setdefault((batch, context, epoch // 2), one)
            if kept is not one:
                kept.join(one)
        return True

    def shape(self, noise: Noise, fit_error: float) -> Shape | None:
        """The best explanation of the lines so far; None without any."""
        if not self._lines:
            return None
        error = max(fit_error, SMALLEST_ERROR)
        tried: dict[Form, Explanation] = {}
        parts: tuple[tuple[Form, Callable[[_Bin], float]], ...] = (
            ("offset", lambda one: one.offset / one.count),
            ("factor", lambda one: 1.0),
            ("context", lambda one: one.context / one.count),
            # The model's cost of context begins at the smallest context it saw; a cost per token begins at zero.
            ("context", lambda one: one.tokens / one.count),
            ("batch", lambda one: one.batch / one.count),
        )
        for form, part in parts:
            explained = self._explained(part, noise, error)
            if explained is not None and (form not in tried or explained.chi_square < tried[form].chi_square):
                tried[form] = explained
        best = _named(tried)
        offset, factor = tried["offset"], tried["factor"]
        # An offset that is named comes from the fit; elsewhere it is the plain mean excess.
        seconds = offset.value if best == "offset" else self._seconds / self._lines
        return Shape(
            form=best,
            offset_seconds=seconds,
            offset_error=offset.error,
            factor=1.0 + factor.value,
            factor_error=factor.error,
            contexts=(self._low, self._high),
            batches=(self._least, self._most),
            lines=self._lines,
        )

    def _explained(self, part: Callable[[_Bin], float], noise: Noise, error: float) -> Explanation | None:
        """Weighted least squares of the bins' excess on one regressor without a constant, then on its growth."""
        thinning = (1.0 - noise.lag) / (1.0 + noise.lag)
        # The curve's error at one place is the same in all its epochs: each of them may count for its share only.
        epochs = Counter((batch, context) for batch, context, _ in self._bins)
        squares = products = total = times = 0.0
        points: list[tuple[float, float, float, float]] = []
        for (batch, context, _), one in self._bins.items():
            x, y, at = part(one), one.excess / one.count, one.tick / one.count
            spread = noise.spread * (1.0 + max(y, 0.0))
            curve = error * error * epochs[batch, context]
            weight = 1.0 / (spread * spread / max(one.count * thinning, 1.0) + curve)
            squares += weight * x * x
            products += weight * x * y
            total += weight * y * y
            times += weight * x * x * at
            points.append((weight, x, y, at))
        if squares <= 1e-12 or not isfinite(squares):
            return None
        value, middle = products / squares, times / squares
        # Around the middle of the time, so that growth and size do not disturb each other.
        across = sum(weight * x * (at - middle) * y for weight, x, y, at in points)
        along = sum(weight * (x * (at - middle)) ** 2 for weight, x, y, at in points)
        growth = across * across / along if along > 1e-9 else 0.0
        return Explanation(value, squares**-0.5, max(0.0, total - products * value), growth)


def _named(tried: dict[Form, Explanation]) -> Form:
    """The explanation that is clearly the best; growing ones are compared once the best one needs to grow."""
    best = min(tried, key=lambda form: tried[form].chi_square)
    grows = tried[best].growth >= GROWING
    left = {form: one.chi_square - (one.growth if grows else 0.0) for form, one in tried.items()}
    ranked = sorted(left, key=lambda form: left[form])
    if len(ranked) > 1 and left[ranked[1]] - left[ranked[0]] < CLEARLY:
        return "undetermined"
    return ranked[0]
