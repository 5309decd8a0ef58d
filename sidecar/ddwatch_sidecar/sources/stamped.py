"""Lines that something else stamped when it stored them: their order, and how they are handed on."""

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


class Stamp(NamedTuple):
    """When a line was stored, to the nanosecond."""

    seconds: int
    nanos: int

    @property
    def epoch(self) -> float:
        """Seconds since the epoch."""
        return self.seconds + self.nanos * 1e-9

    def printed(self) -> bytes:
        """As RFC 3339 writes it."""
        moment = datetime.fromtimestamp(self.seconds, timezone.utc)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.nanos:09d}Z".encode()


class Stamps:
    """Reads stamps; the same second is read once."""

    def __init__(self) -> None:
        self._second: tuple[bytes, bytes] = (b"", b"")
        self._seconds = 0

    def split(self, line: bytes) -> tuple[Stamp, bytes] | None:
        """The stamp before a line and the line, None where there is no stamp."""
        found = STAMP.match(line)
        if found is None:
            return None
        second = (found[1], found[3])
        if second != self._second:
            offset = "+00:00" if found[3] == b"Z" else found[3].decode()
            try:
                self._seconds = int(datetime.fromisoformat(found[1].decode() + offset).timestamp())
            except (ValueError, OverflowError):
                return None
            self._second = second
        return Stamp(self._seconds, int((found[2] or b"0").ljust(9, b"0"))), line[found.end() :]


class Seam:
    """Drops what was delivered before from the beginning of a further reading of the same lines."""

    def __init__(self) -> None:
        self.last: Stamp | None = None
        self._at_last: set[int] = set()
        """Digests of the lines of that very moment."""
        self._joining = False
        self.torn = False
        """Whether the place where we stopped was not there any more."""

    def again(self) -> None:
        """The lines are read again, from `last` or earlier."""
        self._joining = self.last is not None
        self.torn = self._joining

    def passes(self, stamp: Stamp, line: bytes) -> bool:
        """Whether a line is new."""
        if self._joining and self.last is not None:
            if stamp < self.last:
                return False
            if stamp == self.last and hash(line) in self._at_last:
                self.torn = False
                return False
            self._joining = stamp == self.last
        if self.last is None or stamp > self.last:
            self.last = stamp
            self._at_last.clear()
        if stamp == self.last and len(self._at_last) < 4096:
            self._at_last.add(hash(line))
        return True


def handed_on(line: bytes, stamp: Stamp, *, live: bool, whole: bool) -> Line:
    """A line for the reader: an old one keeps the stamp that it was stored with, which knows its zone."""
    if not live:
        line = stamp.printed() + b" " + line
    if len(line) > LINE_LIMIT:
        return Line(line[:LINE_LIMIT], None, live, whole=False)
    return Line(line, None, live, whole)


def newest(stamps: Sequence[Stamp | None]) -> Stamp | None:
    """The newest of several stamps, None where there is none."""
    known = [stamp for stamp in stamps if stamp is not None]
    return max(known) if known else None
