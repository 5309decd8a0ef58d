"""Accept length on both sides: a drafter that no longer helps, and text that repeats itself.

The mean over the last stretch of clean traffic is compared with fixed limits, its chance error measured by batch means
(blocks of a few seconds, whose scatter already holds their autocorrelation). How text is worded moves accept length far
within the learned range; that is never an alarm (see `text.py`).
"""

from collections import deque
from collections.abc import Sequence
from math import sqrt
from statistics import fmean, median, stdev

from ddwatch.core.detection.suspicion import Phases, Suspicion
from ddwatch.core.expectation.accept import AcceptCurve, lowest_p1
from ddwatch.core.records import PrefillBatch
from ddwatch.core.snapshot import Sample

LOW_NAME = "low-accept"
HIGH_NAME = "high-accept"
BROKEN = 1.3
"""Below this a drafter costs more than it brings."""
RECOVERED = 1.45
WORKING = 2.0
"""Above this a drafter works, whatever was learned: text of another kind is no worse drafter."""
LOOPING_SHARE = 0.9
"""Of the block size: text that is predicted nearly whole is usually repeating itself."""
BLOCK_SECONDS = 5.0
STRETCH_BLOCKS = 6
"""Blocks that are looked at: half a minute of traffic."""
LONG_BLOCKS = 24
"""... below the learned range: two minutes of traffic, because a new kind of text looks the same at first."""
FEWEST_LINES = 3
"""A block has at least so many lines."""
CERTAIN = 3.0
"""Standard errors that the mean must lie beyond its limit."""
BELOW_SHARE = 0.97
"""Below the learned range means below this share of the smallest p1."""
NEARLY_ALL = 0.9
LONGEST_STEP_OF_TIME = 30.0
RESTORED_TOKENS = 256
"""A hit in the prefix cache that is smaller explains nothing; nor does one that is less than half of its prefill."""


class AcceptBlock:
    """Clean lines of a few seconds, summed up."""

    __slots__ = ("_over", "_over_weights", "_weights", "at", "began", "lengths", "lines", "tick")

    def __init__(self, at: float, tick: float) -> None:
        self.began = at
        self.at = at
        self.tick = tick
        self.lines = 0
        self.lengths = 0.0
        self._weights = 0.0
        self._over = 0.0
        self._over_weights = 0.0

    def add(self, at: float, length: float, weight: float, floor: float | None) -> None:
        """Adds a line: its accept length, its requests and the smallest learned p1 at its context."""
        self.at = at
        self.lines += 1
        self.lengths += length * weight
        self._weights += weight
        if floor is not None and floor > 0.0:
            self._over += length / floor * weight
            self._over_weights += weight

    @property
    def mean(self) -> float:
        """Mean accept length per request and step."""
        return self.lengths / self._weights

    @property
    def over_floor(self) -> float | None:
        """Mean of accept length over the smallest learned p1; None where two classes are not covered.

        A mean, as the p1 is one of means: single steps are whole numbers whose median lies far below their mean.
        """
        return self._over / self._over_weights if self._over_weights else None


def certain_mean(blocks: Sequence[AcceptBlock]) -> tuple[float, float]:
    """Mean over blocks and its standard error by batch means."""
    means = [block.mean for block in blocks]
    return fmean(means), stdev(means) / sqrt(len(means)) if len(means) > 1 else float("inf")


class AcceptDetector:
    """Judges the accept length of all ranks of a service together."""

    def __init__(self, curves: Sequence[AcceptCurve] = (), *, block_size: int | None = None) -> None:
        self.curves = tuple(curves)
        self.block_size = block_size
        """The most tokens that a step can commit; without it nothing is called high."""
        self._blocks: deque[AcceptBlock] = deque(maxlen=LONG_BLOCKS)
        self._open: AcceptBlock | None = None
        self._at: float | None = None
        self._tick = 0.0
        self._low = Phases()
        self._high = Phases()
        self._mean: float | None = None
        self._below: float | None = None
        self._restored: tuple[float, int] | None = None

    def prefilled(self, record: PrefillBatch) -> None:
        """A prefill; tokens that come from the prefix cache have no draft context."""
        cached, new = record.cached_tokens or 0, record.new_tokens or 0
        if cached >= RESTORED_TOKENS and cached >= new:
            self._restored = (record.at, cached)

    def restart(self, at: float) -> None:
        """A new process: what was seen of the old one says nothing about it."""
        self._low.end(at, "restart")
        self._high.end(at, "restart")
        self._blocks.clear()
        self._open = None
        self._at = None
        self._mean = self._below = None
        self._restored = None

    def see(self, sample: Sample) -> None:
        """Takes the next sample; contaminated ones and those without accept length are left out."""
        length, batch = sample.accept_length, sample.batch
        if not sample.clean or length is None or not batch or length < 1.0:
            return
        if self._at is not None and sample.at > self._at:
            self._tick += min(sample.at - self._at, LONGEST_STEP_OF_TIME)
        self._at = sample.at
        floor = None if sample.context_tokens is None else lowest_p1(self.curves, sample.context_tokens)
        if self._open is None:
            self._open = AcceptBlock(sample.at, self._tick)
        self._open.add(sample.at, length, float(batch * (sample.steps or 1)), floor)
        if self._open.lines >= FEWEST_LINES and self._tick - self._open.tick >= BLOCK_SECONDS:
            self._blocks.append(self._open)
            self._open = None
            self._judge(sample.at)

    def _judge(self, at: float) -> None:
        blocks = list(self._blocks)
        stretch = blocks[-STRETCH_BLOCKS:]
        self._mean, error = certain_mean(stretch)
        middle, self._below = self._over_floor(blocks)
        full = len(stretch) == STRETCH_BLOCKS
        began = stretch[0].began
        margin = CERTAIN * error
        low = full and self._mean + margin < BROKEN
        worse = self._below is not None and self._below < BELOW_SHARE and certain_mean(blocks)[0] < WORKING
        if worse and not low and len(blocks) == LONG_BLOCKS:
            low, began = True, blocks[0].began
        suspected_low = self._mean < BROKEN or worse
        usual = middle is None or middle >= 1.0 or self._mean - margin > WORKING
        back = self._mean - margin > RECOVERED and usual
        self._move(self._low, at, began, low, suspected_low, full and back)
        if self.block_size is not None:
            limit = LOOPING_SHARE * self.block_size
            high = full and self._mean - margin > limit
            self._move(self._high, at, stretch[0].began, high, self._mean > limit, full and self._mean < 0.9 * limit)

    @staticmethod
    def _over_floor(blocks: Sequence[AcceptBlock]) -> tuple[float | None, float | None]:
        """Accept length over the smallest learned p1: the middle of the blocks, and what nearly all lie below.

        None where two classes are not covered.
        """
        ratios = sorted(ratio for block in blocks if (ratio := block.over_floor) is not None)
        if len(ratios) < len(blocks):
            return None, None
        return median(ratios), ratios[int(NEARLY_ALL * (len(ratios) - 1))]

    @staticmethod
    def _move(phases: Phases, at: float, began: float, holds: bool, suspected: bool, back: bool) -> None:
        if phases.phase == "firing":
            if back:
                phases.end(at, "back to the usual range")
        elif phases.phase == "pending":
            if holds:
                phases.fire(at)
            elif not suspected:
                phases.end(at, "")
        elif suspected:
            phases.pend(at, began)

    @property
    def suspicious(self) -> bool:
        """Whether an accept length is suspected now."""
        return self._low.open or self._high.open

    @property
    def since(self) -> float | None:
        """Onset of what is suspected now, None while nothing is."""
        return min((phases.since for phases in (self._low, self._high) if phases.open), default=None)

    def suspicions(self, now: float) -> tuple[Suspicion, ...]:
        """What is suspected at this instant; asking changes nothing."""
        found = []
        for name, phases in ((LOW_NAME, self._low), (HIGH_NAME, self._high)):
            phase = phases.shown(now)
            if phase is None or self._mean is None:
                continue
            size = self.block_size
            what = (
                f"accept length {self._mean:.2f}: the drafter brings next to nothing"
                if name == LOW_NAME and self._mean < RECOVERED
                else f"accept length {self._mean:.1f}, below all that was learned"
                if name == LOW_NAME
                else f"accept length {self._mean:.1f} of {size}: the text may be repeating itself"
            )
            limit = BROKEN if name == LOW_NAME else LOOPING_SHARE * (size or 0)
            at, tokens = (None, None) if self._restored is None else self._restored
            restored: dict[str, float | int | None] = (
                {"restored_at": at, "restored_tokens": tokens} if name == LOW_NAME else {}
            )
            found.append(
                Suspicion(
                    name=name,
                    phase=phase,
                    since=phases.since,
                    reached=phases.reached,
                    strength=limit / self._mean if name == LOW_NAME else self._mean / limit,
                    what=what,
                    because=phases.because,
                    evidence={"accept_length": self._mean, "limit": limit, "over_lowest_p1": self._below, **restored},
                )
            )
        return tuple(found)
