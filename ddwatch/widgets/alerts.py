"""The alert log: what is wrong and since when, who knows, what it may be and what to do; one of them is chosen."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from ddwatch.core.alert_view import BEFORE_SECONDS, AlertAction, AlertView, MuteView
from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.widgets.alert_words import evidence_words, state_words, times_words, until_words
from ddwatch.widgets.listing import Listing
from ddwatch.widgets.rows import Role, Row, Span, clean, faded, heading, merged, spread, width_of, wrapped
from ddwatch.widgets.view import View

NAME, STATE = 13, 26
"""Cells of an incident's name and state."""
LABEL = 9
INDENT = 5


def alert_rows(alert: AlertView, snapshot: Snapshot, zone: tzinfo, width: int, *, chosen: bool) -> list[Row]:
    """One incident: in full when it is open or chosen, in two rows when it is over."""
    sign, words, role = state_words(alert, snapshot.at, zone)
    over = alert.state == "resolved"
    name: Role = "focus" if chosen else "label" if over else "strong"
    left: list[Span] = [("▸" if chosen else " ", "focus"), (f" {sign} ", role)]
    left += [(alert.name.replace("-", " "), name), (" " * max(1, NAME - len(alert.name)), "text"), (words, role)]
    times = times_words(alert, snapshot.at, zone)
    if width_of(tuple(left)) + len(times) + 2 > width:
        times = times.split(" · ")[0]
    rows = [spread(merged(left), ((times, "label"), (" ", "text")), width)]
    across = max(8, width - INDENT - 1)

    def named(title: str, text: str, most: int, look: Role) -> None:
        for place, line in enumerate(wrapped(clean(text), across - LABEL, most)):
            label = f"{'' if place else title:<{LABEL}}"
            rows.append(merged(((" " * INDENT, "text"), (label, "label"), (line, look))))

    look: Role = "label" if over and not chosen else "text"
    sentence = wrapped(clean(alert.sentence), across, 4 if chosen else 1 if over else 2)
    rows += [((" " * INDENT, "text"), (line, look)) for line in sentence]
    if alert.note:
        named("note:", alert.note, 2 if chosen else 1, "text")
    if over and not chosen:
        return rows
    if alert.cause:
        named("likely:", alert.cause, 4 if chosen else 1, "text")
    for place, step in enumerate(alert.next_steps if chosen else alert.next_steps[:1]):
        named("" if place else "next:", step, 3 if chosen else 1, "text")
    numbers = evidence_words(alert) if chosen else ""
    if numbers:
        named("numbers:", numbers, 3, "label")
    return rows


def mute_rows(
    mutes: Sequence[MuteView], alerts: Sequence[AlertView], now: float, zone: tzinfo, width: int
) -> list[Row]:
    """What is muted and not wrong now."""
    shown = {alert.name for alert in alerts if alert.state == "muted"}
    rows: list[Row] = []
    for mute in mutes:
        if mute.name not in shown:
            note = f" · {clean(mute.note)}" if mute.note else ""
            text = f"{mute.name.replace('-', ' ')} tells nobody until {until_words(mute.until, now, zone)}{note}"
            lines = wrapped(text, max(8, width - INDENT - 1), 1)
            rows.append((("  ‖ ", "strong"), (" ", "text"), (lines[0], "text")))
    return rows


class AlertListing(Listing):
    """Every incident that is kept: open ones, suspicions, then those that are over; up and down choose."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "past", "the recorded minute before", show=False),
        Binding("c", "ask('acknowledge')", "acknowledge", show=False),
        Binding("m", "ask('mute')", "mute for an hour", show=False),
        Binding("u", "ask('undo')", "undo", show=False),
    ]
    KEYS: ClassVar[tuple[tuple[int, str, str], ...]] = (
        (9, "esc", "back"),
        (5, "↑ ↓", "pick"),
        (8, "enter", "minute before"),
        (7, "c", "ack"),
        (6, "m", "mute 1 h"),
        (4, "u", "undo"),
    )

    class Asked(Message):
        """The reader wants something of the chosen incident."""

        def __init__(self, action: AlertAction, alert: AlertView) -> None:
            super().__init__()
            self.action: AlertAction = action
            self.alert = alert

    class PastWanted(Message):
        """The reader wants to see what was recorded before an incident."""

        def __init__(self, alert: AlertView) -> None:
            super().__init__()
            self.alert = alert
            self.at = alert.since - BEFORE_SECONDS

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self.chosen: str | None = None
        """What the chosen incident is called."""
        self._alerts: tuple[AlertView, ...] = ()
        self._starts: tuple[int, ...] = ()
        self._moved = False

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """How many are open and how many are over."""
        open_now = sum(alert.open for alert in self._alerts)
        pending = sum(alert.state == "pending" for alert in self._alerts)
        over = sum(alert.state == "resolved" for alert in self._alerts)
        counts = ((open_now, "open"), (pending, "suspected"), (over, "over"))
        return "alerts", " · ".join(f"{number} {words}" for number, words in counts if number)

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """The answer to what was asked last, mutes, and every incident."""
        if frame is None:
            self._alerts, self._starts = (), ()
            return [(("   no data yet", "label"),)]
        snapshot = frame.snapshot
        self._alerts = snapshot.alerts
        rows: list[Row] = []
        if not self._alerts:
            rows.append((("   nothing is wrong, and nothing was as far as this log goes back", "label"),))
        elif self.chosen is None:
            self.chosen = self._alerts[0].incident
        place, starts = self._place(), []
        for number, alert in enumerate(self._alerts):
            starts.append(len(rows))
            rows += alert_rows(alert, snapshot, view.zone, width, chosen=number == place)
        self._starts = (*starts, len(rows))
        rows += mute_rows(snapshot.mutes, self._alerts, snapshot.at, view.zone, width)
        return faded(rows) if view.dimmed() else rows

    def draw(self, frame: Frame | None, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading, what was answered last, and the rows around the chosen incident."""
        rows = self.content(frame, view, width)
        self._count = len(rows)
        answer: list[Row] = [
            (((" › " if number == 0 else "   "), "strong"), (line, "strong"))
            for number, line in enumerate(wrapped(clean(view.said), max(8, width - 4), 3))
        ]
        room = max(1, height - 1 - len(answer))
        if self._alerts and self._moved:
            self._moved = False
            first, last = self._starts[self._place()], self._starts[self._place() + 1]
            self.top = min(max(self.top, last - room), first)
        self.top = max(0, min(self.top, len(rows) - room))
        last = min(len(rows), self.top + room)
        place = f"{self.top + 1}–{last} of {len(rows)}" if len(rows) > room else ""
        name, unit = self.title(frame, view)
        return [heading(name, unit, place, width), *answer, *rows[self.top : last]]

    def _place(self) -> int:
        """Where the chosen incident stands now; it keeps its choice while others come above it."""
        names = [alert.incident for alert in self._alerts]
        return names.index(self.chosen) if self.chosen in names else 0

    def action_move(self, rows: int) -> None:
        """Chooses the incident before or after."""
        if not self._alerts:
            return
        place = max(0, min(self._place() + rows, len(self._alerts) - 1))
        self.chosen = self._alerts[place].incident
        self._moved = True
        self.bring_up_to_date()

    def action_page(self, direction: int) -> None:
        """Chooses one that is a few further."""
        self.action_move(5 * direction)

    def action_end(self, direction: int) -> None:
        """Chooses the first or the last."""
        self.action_move(direction * len(self._alerts))

    def action_ask(self, action: AlertAction) -> None:
        """Asks for something of the chosen incident."""
        if self._alerts:
            self.post_message(self.Asked(action, self._alerts[self._place()]))

    def action_past(self) -> None:
        """Asks for the recorded minute before the chosen incident."""
        if self._alerts:
            self.post_message(self.PastWanted(self._alerts[self._place()]))
