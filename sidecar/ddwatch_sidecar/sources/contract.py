"""What the service may expect of every source of lines, whatever stands behind it."""

from typing import Protocol

from msgspec import Struct

from ddwatch.core.records import Gap, Rotation, SourceFault, SourceUp


class Line(Struct, frozen=True):
    r"""One physical line, without its newline (`\n` or `\r\n`; any other `\r` stays inside)."""

    data: bytes
    number: int | None = None
    """1-based number in its file (a rotated or truncated file counts from 1 again); None behind a skipped stretch."""
    live: bool = True
    """False: it stood there before we attached, so its own stamp is its place on the timeline."""
    whole: bool = True
    """False: cut at the length bound, or the newline never came, so its last field may be cut off."""


Item = Line | Gap | Rotation | SourceFault | SourceUp
"""What a poll delivers. A Gap or Rotation carries `at` = the poll's `now`; its true place is between its neighbours."""


class Source(Protocol):
    """One stream of lines; polled by one thread at a time."""

    name: str
    """Label in metrics and on the screen."""
    behind: bool
    """More is ready than the last poll was allowed to read: poll again at once."""

    def poll(self, now: float) -> list[Item]:
        """What arrived since the last poll, in true order; returns at once and does a bounded amount of work.

        `now` is in seconds since the epoch. What the world does is a SourceFault (told once per change of reason) and
        SourceUp once it is over; an exception is a bug.
        """
        ...

    def close(self) -> None:
        """Lets go of everything held; later polls deliver nothing."""
        ...
