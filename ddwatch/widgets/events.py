"""What happened and when: the newest first, in local time."""

from collections.abc import Hashable, Sequence
from datetime import datetime, tzinfo

from ddwatch.core.snapshot import Event, Frame
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import clock
from ddwatch.widgets.rows import Role, Row, Span, clean, faded, heading, merged
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


def event_row(event: Event, today: float, zone: tzinfo, *, date: bool = False) -> Row:
    """Time, sign, kind and text of one event; with `date` the day stands before the time."""
    sign, role = SIGNS[event.severity]
    time = f"{datetime.fromtimestamp(event.at, zone):%Y-%m-%d %H:%M:%S}" if date else when(event.at, today, zone)
    spans: list[Span] = [(f" {time}", "label"), (f" {sign} ", role), (f"{event.kind:<11}", "text"), (" ", "text")]
    spans.append((clean(event.text), "strong" if event.severity == "page" else "text"))
    if event.count > 1:
        spans.append((f"  ×{event.count}", "label"))
    return merged(spans)


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
        shown = events[-(height - 1) :] if height > 1 else ()
        more = len(events) - len(shown)
        right = f"{more} more: e" if more else ""
        rows = [heading("events", "", right, width, focused=self.has_focus)]
        rows += [event_row(event, frame.snapshot.at, view.zone) for event in reversed(shown)]
        if not events:
            rows.append((("   nothing has happened since this watch began", "label"),))
        return faded(rows) if view.dimmed() else rows

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading alone."""
        return [heading("events", "", "", width)]
