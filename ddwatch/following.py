"""One feed as the screen follows it: its newest frame, the one that is shown, how its line stands, and its messages."""

from collections.abc import Callable, Iterator

from textual.message import Message

from ddwatch.core.alert_view import AlertAction, AlertView
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.feeds.contract import Feed
from ddwatch.widgets.view import Link, ReplayStatus

STALE_AFTER = 5.0
"""Seconds without a sign of life after which what is shown is no longer called live."""


class Following:
    """What is known of one feed. Times are those of the screen's clock."""

    def __init__(self, feed: Feed, now: float) -> None:
        self.feed = feed
        self.newest: Frame | None = None
        self.shown: Frame | None = None
        self.frozen = False
        """Whether the picture is held; data goes on behind it."""
        self.link: Link = "waiting"
        self.trouble = ""
        self.heard = now
        """When it last gave a sign of life."""
        self._arrived = self._shown_arrived = now

    def items(self) -> Iterator[Frame | SourceFault]:
        """What the feed delivers; blocks, so it is for a thread of its own."""
        return self.feed.frames()

    def take(self, frame: Frame, now: float) -> None:
        """Keeps a frame."""
        before = self.newest
        self.heard = now
        self.newest = frame
        if before is None or before.snapshot.at != frame.snapshot.at:
            self._arrived = now
        self.link, self.trouble = "live", ""

    def fail(self, fault: SourceFault) -> None:
        """Notes what is wrong; the last figures stay."""
        waiting = fault.waiting and self.newest is None
        self.link = "waiting" if waiting else "lost"
        self.trouble = fault.reason

    def end(self, sentence: str) -> None:
        """Notes that nothing more will come."""
        said = self.trouble if self.link == "lost" else ""
        self.link = "ended"
        self.trouble = sentence or said or "the feed has ended; what is shown is the last that it said"

    def look(self, now: float) -> None:
        """Notes how late the feed is."""
        if self.link == "live" and now - self.heard > STALE_AFTER and self.feed.controls is None:
            self.link, self.trouble = "stale", ""

    def present(self) -> None:
        """Shows the newest frame, unless the picture is held."""
        if not self.frozen:
            self.shown, self._shown_arrived = self.newest, self._arrived

    def silence(self, now: float) -> float:
        """Whole seconds since its last sign of life."""
        return float(int(now - self.heard))

    def since_arrival(self, now: float) -> float:
        """Whole seconds since the frame that is shown arrived; 0 in a replay, where time is another."""
        return float(int(now - self._shown_arrived)) if self.feed.controls is None else 0.0

    def replay(self) -> ReplayStatus | None:
        """Where a replay stands; None for a feed whose time cannot be moved."""
        controls = self.feed.controls
        if controls is None:
            return None
        return ReplayStatus(
            position=float(int(controls.position)),
            duration=float(int(controls.duration)),
            speed=controls.speed,
            paused=controls.paused,
        )


class FrameArrived(Message):
    """A feed has delivered a frame; an older one of it that still waits is dropped."""

    def __init__(self, of: Following, frame: Frame) -> None:
        super().__init__()
        self.of, self.frame = of, frame

    def can_replace(self, message: Message) -> bool:
        """Only the newest frame is of interest."""
        return isinstance(message, FrameArrived) and message.of is self.of


class FaultArrived(Message):
    """A feed cannot deliver for now."""

    def __init__(self, of: Following, fault: SourceFault) -> None:
        super().__init__()
        self.of, self.fault = of, fault


class FeedStopped(Message):
    """There will be no more frames."""

    def __init__(self, of: Following, sentence: str) -> None:
        super().__init__()
        self.of, self.sentence = of, sentence


class Answered(Message):
    """What was asked has been done, or not; one sentence says so."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


class PastOpened(Message):
    """A recording stands at the moment that was asked for."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed


Past = Callable[[Snapshot, float], Feed | str]
"""Opens what was recorded at a moment as a feed; one sentence where that cannot be."""
Asks = Callable[[Snapshot, AlertAction, AlertView], str]
"""Acknowledges, mutes or undoes; returns one sentence."""
