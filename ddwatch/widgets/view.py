"""How the screen stands to its data: connected or not, frozen or not, and what the reader has chosen to see."""

from bisect import bisect_left
from datetime import timezone, tzinfo
from typing import Any, Literal

from msgspec import Struct

from ddwatch.core.snapshot import Frame, Point

Link = Literal["waiting", "live", "stale", "lost", "ended"]
"""No data yet; arriving; late; the feed says that it has lost its source; the feed has ended."""

WINDOWS = (60.0, 300.0, 900.0, 3600.0)
"""Seconds that the plots can show."""


class ReplayStatus(Struct, frozen=True, kw_only=True):
    """Where a replay stands, in seconds of the log."""

    position: float
    duration: float
    speed: float
    paused: bool


class View(Struct, frozen=True, kw_only=True):
    """Everything that widgets need beside the frame itself."""

    link: Link = "waiting"
    trouble: str = ""
    """One sentence about the feed while it is not well."""
    since_arrival: float = 0.0
    """Seconds since the frame on the screen arrived, in whole seconds."""
    silence: float = 0.0
    """Seconds since the feed last gave a sign of life, in whole seconds."""
    frozen: bool = False
    window: float = 300.0
    zone: tzinfo = timezone.utc
    ascii: bool = False
    replay: ReplayStatus | None = None
    past: bool = False
    """Whether a live feed waits behind this replay."""
    said: str = ""
    """The answer to what the reader asked last."""
    origin: str = ""
    """Where the data comes from, as the operator would name it: a URL or a file."""

    def dimmed(self) -> bool:
        """Whether the figures are too old to be read as the present."""
        return self.link in ("stale", "lost", "ended") and self.replay is None

    def outdated(self, frame: Frame) -> bool:
        """Whether the newest sample is too old to stand for the present."""
        old = self.age_of(frame, frame.snapshot.now.at)
        # An idle service has nothing newer to say: its last word still holds.
        return old is not None and old > OUTDATED_SECONDS and frame.snapshot.verdict.name != "idle"

    def age_of(self, frame: Frame, at: float | None) -> float | None:
        """Seconds since `at` as far as this machine can tell, without comparing two machines' clocks."""
        if at is None:
            return None
        return max(0.0, frame.snapshot.at - at) + self.since_arrival


OUTDATED_SECONDS = 20.0
"""A reading that is older than this is no longer the present, whatever the feed does."""


def points_in_view(frame: Frame, window: float) -> tuple[Point, ...]:
    """The points of the last `window` seconds before the snapshot, and the one before them so that a line can begin."""
    points: Any = frame.history.points
    first = bisect_left(points, frame.snapshot.at - window, key=_time)
    return tuple(points[max(0, first - 1) :])


def _time(point: Point) -> float:
    return point.at


def window_text(seconds: float) -> str:
    """A plot window in words: `5 min`."""
    return f"{seconds / 60:.0f} min"
