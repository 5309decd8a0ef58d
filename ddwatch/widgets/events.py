"""What happened and when: the newest first, in local time."""

from collections.abc import Hashable, Sequence
from datetime import datetime, tzinfo

from ddwatch.core.snapshot import Event, Frame
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import clock
from ddwatch.widgets.rows import Role, Row, clean, faded, heading, merged, width_of, wrapped
from ddwatch.widgets.view import View

SIGNS: dict[str, tuple[str, Role]] = {
    "page": ("✗", "page"),
    "notice": ("!", "notice"),
    "unknown": ("?", "unknown"),
    "ok": (" ", "text"),
}


def when(at: float, today: float, zone: tzinfo) -> str:
    """A time of day in eight cells; for another day than that of `today`, the date: `Nov 30`."""
    moment, now = datetime.fromtimestamp(at, zone), datetime.fromtimestamp(today, zone)
    if moment.date() == now.date():
        return clock(at, zone)
    return f"{moment:%b %d}  "


def event_rows(
    event: Event, today: float, zone: tzinfo, width: int, most: int = 99, *, date: bool = False
) -> list[Row]:
    """Time, sign, kind and text of one event in at most `most` rows; with `date` the day stands before the time."""
    sign, role = SIGNS[event.severity]
    time = f"{datetime.fromtimestamp(event.at, zone):%Y-%m-%d %H:%M:%S}" if date else when(event.at, today, zone)
    head: Row = ((f" {time}", "label"), (f" {sign} ", role), (f"{event.kind:<11}", "text"), (" ", "text"))
    # The kind stands beside it already.
    text = clean(event.text).removeprefix(f"{event.kind}: ") + (f" ×{event.count}" if event.count > 1 else "")
    look: Role = "strong" if event.severity == "page" else "text"
    across = width_of(head)
    lines = wrapped(text, max(8, width - across - 1), most) or [""]
    blank: Row = ((" " * across, "text"),)
    return [merged((*(blank if place else head), (line, look))) for place, line in enumerate(lines)]


class EventPanel(Drawn, can_focus=True):
    """The newest events, as many as fit."""

    def memory(self, frame: Frame, view: View) -> Hashable:
        """New events, or a new day."""
        events = frame.history.events
        newest = (events[-1], len(events)) if events else None
        return (newest, view.zone, view.dimmed(), int(frame.snapshot.at // 3600))

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """Heading and rows."""
        events = frame.history.events
        said: list[Row] = []
        shown = 0
        for event in reversed(events):
            room = height - 1 - len(said)
            if room < 1:
                break
            # A long text takes the room of the older events below it, but for one.
            said += event_rows(event, frame.snapshot.at, view.zone, width, max(1, min(2, room - 1)))
            shown += 1
        more = len(events) - shown
        right = f"{more} more: e" if more else ""
        rows = [heading("events", "", right, width, focused=self.has_focus), *said]
        if not events:
            rows.append((("   nothing has happened since this watch began", "label"),))
        return faded(rows) if view.dimmed() else rows

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading alone."""
        return [heading("events", "", "", width)]
