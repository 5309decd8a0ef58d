"""Notices that the text changed: a lasting move of the accept length inside the usual range, an event and no alarm."""

from collections import deque
from math import exp, log, sqrt
from statistics import fmean, median

from msgspec import Struct

from ddwatch.core.detection.accept import (
    BLOCK_SECONDS,
    FEWEST_LINES,
    LONGEST_STEP_OF_TIME,
    AcceptBlock,
)
from ddwatch.core.snapshot import Sample

BEFORE_BLOCKS = 6
AFTER_BLOCKS = 3
"""A quarter of a minute of traffic after the change."""
CHANGE = 1.25
"""Smaller moves are not worth a line in the list of events."""
CERTAIN = 5.0
"""Standard errors between the two means."""
WHOLE_SHARE = 0.7
"""Every block after the change has moved by this share of the mean move at least."""
SCATTER_BLOCKS = 40
"""Neighbouring blocks that tell how much chance moves a block."""
NEEDED_BLOCKS = 8
MAD_TO_SIGMA = 1.4826


class TextChanged(Struct, frozen=True, kw_only=True):
    """The accept length moved at `since` and stayed."""

    at: float
    since: float
    before: float
    after: float

    def sentence(self) -> str:
        """For the list of events."""
        return f"text changed: accept length {self.before:.1f} -> {self.after:.1f}"


class TextWatch:
    """Compares the newest blocks of accept lengths with those before them."""

    def __init__(self) -> None:
        self._blocks: deque[AcceptBlock] = deque(maxlen=BEFORE_BLOCKS + AFTER_BLOCKS)
        self._steps: deque[float] = deque(maxlen=SCATTER_BLOCKS)
        """How far neighbouring blocks lie apart, as ln ratios."""
        self._open: AcceptBlock | None = None
        self._at: float | None = None
        self._tick = 0.0

    def restart(self) -> None:
        """Starts anew."""
        self._blocks.clear()
        self._steps.clear()
        self._open = None
        self._at = None

    def see(self, sample: Sample) -> TextChanged | None:
        """Takes the next sample; returns the change that it completes, once."""
        length, batch = sample.accept_length, sample.batch
        if not sample.clean or length is None or not batch or length < 1.0:
            return None
        if self._at is not None and sample.at > self._at:
            self._tick += min(sample.at - self._at, LONGEST_STEP_OF_TIME)
        self._at = sample.at
        if self._open is None:
            self._open = AcceptBlock(sample.at, self._tick)
        self._open.add(sample.at, length, float(batch * (sample.steps or 1)), None)
        if self._open.lines < FEWEST_LINES or self._tick - self._open.tick < BLOCK_SECONDS:
            return None
        if self._blocks:
            self._steps.append(abs(log(self._open.mean / self._blocks[-1].mean)))
        self._blocks.append(self._open)
        self._open = None
        return self._compare(sample.at)

    def _compare(self, at: float) -> TextChanged | None:
        if len(self._blocks) < BEFORE_BLOCKS + AFTER_BLOCKS or len(self._steps) < NEEDED_BLOCKS:
            return None
        blocks = list(self._blocks)
        before = fmean(log(block.mean) for block in blocks[:BEFORE_BLOCKS])
        after = fmean(log(block.mean) for block in blocks[BEFORE_BLOCKS:])
        # Robust: a few real changes among the neighbours do not widen it.
        scatter = MAD_TO_SIGMA * median(self._steps) / sqrt(2.0)
        chance = scatter * sqrt(1.0 / BEFORE_BLOCKS + 1.0 / AFTER_BLOCKS)
        if abs(after - before) < max(CERTAIN * chance, log(CHANGE)):
            return None
        new = blocks[BEFORE_BLOCKS:]
        # All of them must have moved, else the change lies among them and the next block tells more.
        if min(abs(log(block.mean) - before) for block in new) < WHOLE_SHARE * abs(after - before):
            return None
        self._blocks.clear()
        self._blocks.extend(new)
        return TextChanged(at=at, since=new[0].began, before=exp(before), after=exp(after))
