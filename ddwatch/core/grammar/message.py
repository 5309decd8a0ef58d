"""What every format is handed: one message, free of its prefix, with its place in time."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ddwatch.core.grammar.text import clean
from ddwatch.core.records import Rank, Record, Unread

EXAMPLE_LIMIT = 240


class Message(NamedTuple):
    """One message of one process."""

    text: str
    at: float
    stamp: str | None
    rank: Rank
    line: int | None
    key: bytes = b""
    """Keys the digests of withheld argument values; see ddwatch.core.arguments."""

    @property
    def where(self) -> dict[str, Any]:
        """The fields that every record from a log line carries."""
        return {"at": self.at, "stamp": self.stamp, "rank": self.rank, "line": self.line}

    def unread(self, head: str, shapes: list[str]) -> Unread:
        """The record of a line whose head is known and whose fields are not."""
        return Unread(**self.where, head=head, example=clean(", ".join([head, *shapes]), EXAMPLE_LIMIT))


class Format(NamedTuple):
    """One head: the pattern that a message of it begins with, and its reader."""

    name: str
    head: str
    """Regular expression without groups, matched at the start of the message."""
    read: Callable[[Message], Record | None]
    """Returns None for a message that is not this format's after all."""
