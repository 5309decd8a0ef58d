"""Finds the place in a repeated output where reading stopped, by the last lines that were read before."""

from collections import deque

from msgspec import Struct

REMEMBERED = 3
"""Last lines that must stand there in this order."""
HELD_LINES = 20_000
HELD_BYTES = 4 * 1024 * 1024
"""How much of the repeated output is held until the place is found."""


class Found(Struct, frozen=True):
    """What came of a comparison."""

    fresh: list[bytes]
    """Lines that were not read before."""
    joined: bool
    """Whether the place was found."""


class Overlap:
    """Remembers the last lines of one output, and holds the beginning of the next against them."""

    def __init__(self) -> None:
        self._last: deque[bytes] = deque(maxlen=REMEMBERED)
        self._newest: deque[bytes] = deque(maxlen=REMEMBERED)
        """The last lines of the repeated output."""
        self._held: deque[bytes] = deque()
        """Its lines behind the latest place that fits, or all of them."""
        self._bytes = 0
        self._joined = False

    @property
    def known(self) -> bool:
        """Whether there is anything to compare with."""
        return bool(self._last)

    def passed(self, line: bytes) -> None:
        """A line was read that nothing had to be compared with."""
        self._last.append(line)

    def hold(self, line: bytes) -> None:
        """Takes a line of a repeated output."""
        self._newest.append(line)
        self._held.append(line)
        self._bytes += len(line)
        if line == self._last[-1] and self._fits():
            # Everything up to here was read before.
            self._held.clear()
            self._bytes = 0
            self._joined = True
        while len(self._held) > HELD_LINES or self._bytes > HELD_BYTES:
            self._bytes -= len(self._held.popleft())

    def _fits(self) -> bool:
        """Whether the last lines are those of before; an output may begin in the midst of them."""
        ours, theirs = list(self._last), list(self._newest)
        return ours[-len(theirs) :] == theirs[-len(ours) :]

    def settle(self) -> Found:
        """The repeated output is over: what of it is new."""
        found = Found(list(self._held), self._joined)
        self._last.extend(found.fresh)
        self._newest.clear()
        self._held.clear()
        self._bytes = 0
        self._joined = False
        return found
