"""Notices that the text changed: a lasting move of the accept length inside the usual range, an event and no alarm."""

from collections import deque
from statistics import fmean

from msgspec import Struct

from ddwatch.core.detection.accept import (
    BLOCK_SECONDS,
    FEWEST_LINES,
    LONGEST_STEP_OF_TIME,
    AcceptBlock,
    certain_mean,
)
from ddwatch.core.snapshot import Sample

BEFORE_BLOCKS = 6
AFTER_BLOCKS = 3
"""A quarter of a minute of traffic after the change."""
CHANGE = 1.25
"""Smaller moves are not worth a line in the list of events."""
CERTAIN = 4.0
"""Standard errors between the two means."""


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
        self._open: AcceptBlock | None = None
        self._at: float | None = None
        self._tick = 0.0

    def restart(self) -> None:
        """Starts anew."""
        self._blocks.clear()
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
        self._blocks.append(self._open)
        self._open = None
        return self._compare(sample.at)

    def _compare(self, at: float) -> TextChanged | None:
        if len(self._blocks) < BEFORE_BLOCKS + AFTER_BLOCKS:
            return None
        blocks = list(self._blocks)
        old, new = blocks[:BEFORE_BLOCKS], blocks[BEFORE_BLOCKS:]
        before, error = certain_mean(old)
        after = fmean(block.mean for block in new)
        # The few new blocks borrow the scatter of the old ones, and their own where that is larger.
        own = max(certain_mean(new)[1], error * (BEFORE_BLOCKS / AFTER_BLOCKS) ** 0.5)
        if abs(after - before) < CERTAIN * (error * error + own * own) ** 0.5:
            return None
        if max(after, before) < CHANGE * min(after, before):
            return None
        self._blocks.clear()
        self._blocks.extend(new)
        return TextChanged(at=at, since=new[0].began, before=before, after=after)
