"""Gathers line residuals into blocks, whose median one odd line cannot move."""

from bisect import insort
from statistics import median
from typing import NamedTuple

from msgspec import Struct

FEWEST_LINES = 3
"""The median of three lines ignores one that is off."""
LONGEST_PAUSE = 600.0
"""Traffic seconds: lines that are further apart do not share a block."""


class Line(NamedTuple):
    """One clean line (or moments interval, or round of coupled ranks) against the model."""

    at: float
    """Time on the timeline."""
    tick: float
    """Seconds of traffic seen until here (gaps counted short, never running backwards)."""
    residual: float
    """ln(step time / expected), less the centre of that load (see `centre.py`)."""
    step_seconds: float
    expected_seconds: float
    batch: float
    total_context: float


class Block(Struct, frozen=True):
    """A closed block."""

    value: float
    """Median residual."""
    lines: int
    before: Line | None
    """The line before its first one: a change at the block's start happened after it."""
    first: Line
    last: Line


class Blocks:
    """Closes a block as soon as it has lines enough and spans time enough."""

    __slots__ = ("_lines", "_ordered", "_seconds", "before", "typical")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lines: list[Line] = []
        self._ordered: list[float] = []
        """The residuals of the open block, ascending: its median is asked for at every line."""
        self.before: Line | None = None
        self.typical = float(FEWEST_LINES)
        """Usual lines per block, a running mean."""

    def clear(self) -> None:
        """Drops the open block and what stood before it."""
        self._drop()
        self.before = None

    @property
    def first(self) -> Line | None:
        """First line of the open block."""
        return self._lines[0] if self._lines else None

    def provisional(self) -> float | None:
        """Median of the open block once two lines agree on one."""
        if len(self._lines) < 2:
            return None
        # The lower middle: with two lines both must be off.
        return self._ordered[(len(self._ordered) - 1) // 2]

    def add(self, line: Line) -> Block | None:
        """Takes the next line; returns the block that it closes."""
        if self._lines and line.tick - self._lines[0].tick > LONGEST_PAUSE:
            self._drop()
        self._lines.append(line)
        insort(self._ordered, line.residual)
        began = self.before.tick if self.before is not None else self._lines[0].tick
        if len(self._lines) < FEWEST_LINES or line.tick - began < self._seconds:
            return None
        block = Block(median(self._ordered), len(self._lines), self.before, self._lines[0], line)
        self.typical += 0.2 * (len(self._lines) - self.typical)
        self.before = line
        self._drop()
        return block

    def _drop(self) -> None:
        self._lines = []
        self._ordered = []
