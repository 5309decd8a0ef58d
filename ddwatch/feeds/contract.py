"""What the screen asks of a feed: frames and faults in order, an end on request, controls where time can be moved."""

from collections.abc import Iterator
from typing import Protocol

from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame


class ReplayControls(Protocol):
    """Moves the time of a replay. Every method is called from the screen's thread and returns at once."""

    @property
    def position(self) -> float:
        """Seconds of the log that have been played."""

    @property
    def duration(self) -> float:
        """Seconds that the log lasts."""

    @property
    def speed(self) -> float:
        """Seconds of the log per second of the clock."""

    @property
    def paused(self) -> bool:
        """Whether time stands still."""

    def toggle_pause(self) -> None:
        """Halts or goes on."""

    def seek(self, seconds: float) -> None:
        """Moves by that many seconds of the log, back when negative; stops at both ends."""

    def faster(self) -> None:
        """Raises the speed by one step."""

    def slower(self) -> None:
        """Lowers the speed by one step."""


class Feed(Protocol):
    """Where the screen gets what it shows."""

    @property
    def origin(self) -> str:
        """Where the data comes from, as the operator would name it: a URL or a file."""

    @property
    def controls(self) -> ReplayControls | None:
        """Controls of a replay; None where time cannot be moved."""

    def frames(self) -> Iterator[Frame | SourceFault]:
        """Frames with growing history, and faults as values; blocks between them. Called once, in a thread of its own.

        A frame that repeats the last one is a sign of life. A fault means that no frames come until further
        notice; the feed goes on trying. The iterator ends when there will never be another frame.
        """

    def close(self) -> None:
        """Makes `frames` end within a second; may be called from any thread, and more than once."""
