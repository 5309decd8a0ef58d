"""Rows that the reader scrolls through: the full event list, the sources in detail, the help."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import MouseScrollDown, MouseScrollUp

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.events import event_rows
from ddwatch.widgets.figures import zone_name
from ddwatch.widgets.key_line import PAGE_KEYS
from ddwatch.widgets.rows import Role, Row, Span, heading, merged
from ddwatch.widgets.sources import own_cost, source_rows, unread_rows
from ddwatch.widgets.view import View


class Listing(Drawn, can_focus=True):
    """A heading that stays, and rows below it that move only when the reader moves them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "end(-1)", show=False),
        Binding("end", "end(1)", show=False),
    ]

    KEYS: ClassVar[tuple[tuple[int, str, str], ...]] = PAGE_KEYS
    """What the line below it names: worth, key, what it does."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self.top = 0
        self._count = 0

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """The heading's name and unit."""
        raise NotImplementedError

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """All rows."""
        raise NotImplementedError

    def draw(self, frame: Frame | None, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading with the place in the list, and the rows that are in sight."""
        rows = self.content(frame, view, width)
        self._count = len(rows)
        room = max(1, height - 1)
        self.top = max(0, min(self.top, len(rows) - room))
        last = min(len(rows), self.top + room)
        place = f"{self.top + 1}–{last} of {len(rows)}" if len(rows) > room else ""
        name, unit = self.title(frame, view)
        return [heading(name, unit, place, width), *rows[self.top : last]]

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The same without a frame."""
        return self.draw(None, view, width, height)

    def action_move(self, rows: int) -> None:
        """Moves by rows."""
        self.top = max(0, min(self.top + rows, self._count - 1))
        self.bring_up_to_date()

    def action_page(self, direction: int) -> None:
        """Moves by what is in sight."""
        self.action_move(direction * max(1, self.size.height - 2))

    def action_end(self, direction: int) -> None:
        """Moves to the first or the last row."""
        self.action_move(direction * self._count)

    def on_mouse_scroll_down(self, _event: MouseScrollDown) -> None:
        """Moves down."""
        self.action_move(3)

    def on_mouse_scroll_up(self, _event: MouseScrollUp) -> None:
        """Moves up."""
        self.action_move(-3)


class EventListing(Listing):
    """Every event that is known, the newest first; what is being read stays in place when new ones arrive."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._newest = -1

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """Names the zone of the times."""
        return "events", f"times {zone_name(frame.snapshot.at, view.zone)}" if frame is not None else ""

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """One row per event."""
        events = frame.history.events if frame is not None else ()
        if frame is None or not events:
            return [(("   nothing has happened since this watch began", "label"),)]
        at, zone = frame.snapshot.at, view.zone
        blocks = [event_rows(event, at, zone, width, date=width >= 100) for event in reversed(events)]
        if self.top:
            fresh = sum(1 for event in events if event.seq > self._newest)
            self.top += sum(len(block) for block in blocks[:fresh])
        self._newest = max(event.seq for event in events)
        rows = [row for block in blocks for row in block]
        if not frame.history.complete:
            rows.append((("   older events are no longer kept", "label"),))
        return rows


class SourceListing(Listing):
    """Every source with its counts, the lines that could not be read, and what ddwatch costs."""

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """Names where the data comes from."""
        return "sources", view.origin

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """A few rows per source."""
        if frame is None:
            return [(("   no data yet", "label"),)]
        rows: list[Row] = []
        for source in frame.snapshot.sources:
            rows += [*source_rows(source, frame, view, width), ()]
        rows += unread_rows(frame)
        rows.append(((f"   {own_cost(frame)} · ddwatch {frame.snapshot.ddwatch_version}", "label"),))
        return rows


HELP: tuple[tuple[str, str], ...] = (
    ("", "Reading"),
    ("✓ …", "well, or nothing to judge: as expected, idle · learning, warming"),
    ("! ✗ ?", "look: low or high accept · slow step, stalled, down · blind"),
    ("↓ ↑", "of a card: too low, too hot · x8/16 G1/5: PCIe now and at most"),
    ("line", "measured on clean samples; a break is a time without any"),
    ("dots", "contaminated (prefill, idle, batch changed): never averaged"),
    ("band", "expected at this batch, context and accept length; = its line"),
    ("range", "learned accept lengths here: 80 % lie inside"),
    ("◆ ╱", "the present step among earlier ones · no evidence: a guess"),
    ("×", "factors of now over remembered; their product is exact"),
    ("╌ ┊", "idle stretch · lines may have been lost here"),
    ("▲ ! ✗", "on the time row: start or restart · retraction, GPU · crash"),
    ("–", "not reported; never zero"),
    ("", "Keys"),
    ("space", "freeze the picture, data goes on; again: go on"),
    ("+ -", "time window: 1, 5, 15, 60 min"),
    ("1-9", "one panel large: throughput, accept, latency, step time,"),
    ("", "  load, ranks, events, sources, GPUs; again or escape: back"),
    ("tab", "choose a panel; enter: make it large; tab: the next one"),
    ("x  e  s", "why · all events · all sources; again or escape: back"),
    ("a", "alerts; ↑ ↓: choose, c: acknowledge, m: mute for 1 h, u: undo,"),
    ("", "  enter: the recorded minute before it; b: back to the present"),
    ("g", "GPUs and host; ↑ ↓: choose a card, enter: that card in full"),
    ("r", "finished requests; o: newest, lowest ratio or longest first"),
    ("p ← → [ ]", "in a replay: pause, back and on 30 s, slower and faster"),
    ("ctrl+p", "all commands by name"),
    ("ctrl+z", "to the shell; `fg` brings it back"),
    ("q", "quit"),
)
"""Sign or key, and what it means; an empty first part is a title."""


class HelpListing(Listing):
    """What the signs and keys mean."""

    def memory(self, frame: Frame, view: View) -> Hashable:
        """Never changes by itself."""
        return (self.top, self.size)

    def action_move(self, rows: int) -> None:
        """Moves by rows."""
        self._memory = None
        super().action_move(rows)

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """Says how to leave."""
        return "help", "escape: back"

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """The lines of HELP."""
        rows: list[Row] = []
        for sign, words in HELP:
            look: Role = "text"
            spans: list[Span] = [(f"   {sign:<11}", "strong"), (words, look)]
            if not sign:
                # A title stands at the left, a continuation under the words that it continues.
                spans = [(" " * 12 + words, look)] if words.startswith(" ") else [(f" {words}", "label")]
            rows.append(merged(spans))
        return rows
