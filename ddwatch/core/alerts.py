"""Verdicts over time become incidents: each begins once and is resolved once, whatever flickers in between."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.alert_orders import Order
from ddwatch.core.alert_view import AlertState, AlertView, MuteView
from ddwatch.core.durations import in_words
from ddwatch.core.snapshot import Note, NoteName, Verdict, VerdictName

CALM_SECONDS = 60.0
"""A verdict that has not held for this long is over; one that comes back earlier is the same incident."""
RESUMED_SECONDS = 300.0
"""An incident of an earlier watch is over when its verdict does not hold again within this time."""
KEPT = 30
"""Incidents of the log; the resolved ones that are oldest give way."""
VERDICTS = frozenset(get_args(VerdictName))


class Held(NamedTuple):
    """All that holds at one instant."""

    verdict: Verdict
    notes: tuple[Note, ...]


def noted(verdict: Verdict) -> Note:
    """A verdict that holds beside the first one."""
    return Note(**{name: getattr(verdict, name) for name in Note.__struct_fields__})


class Incident(Struct, frozen=True, kw_only=True):
    """One thing that is, or was, wrong."""

    id: str
    """What messages call it."""
    verdict: Note
    """The verdict or note as it stood when the incident began."""
    began_at: float
    resolved_at: float | None = None
    """When the verdict was last seen to hold; None while the incident lasts."""


Loud = Callable[[Note], bool]


def beginnings(held: Sequence[Note], loud: Loud) -> tuple[Note, ...]:
    """What may begin an incident, of all that holds.

    That is the verdict itself; beside `learning`, which says only that steps cannot be judged, also a notice that needs
    no model of the step; and always what is no verdict.
    """
    first, *notes = held
    beside = [one for one in notes if first.name == "learning" and one.severity == "notice"]
    alarms = [one for one in notes if one.name not in VERDICTS]
    return tuple({one.name: one for one in (first, *beside, *alarms) if loud(one)}.values())


class _Open(Struct):
    """An incident that lasts."""

    incident: Incident
    newest: Note
    """As it was last seen to hold."""
    seen_at: float
    calm_from: float
    """Since when it has not held."""


class Incidents:
    """The incidents of one watch. What may begin one is `beginnings`; any note keeps one alive."""

    def __init__(self, calm_seconds: float = CALM_SECONDS) -> None:
        self._calm_seconds = calm_seconds
        self._open: dict[NoteName, _Open] = {}
        self._over: deque[AlertView] = deque(maxlen=KEPT)
        """Resolved ones, the newest last."""
        self._orders: tuple[Order, ...] = ()

    def see(self, now: float, held: Sequence[Note], loud: Loud) -> list[Incident]:
        """What has begun and what is over, in that order.

        Args:
            now: not earlier than the last time.
            held: the verdict, then all notes that hold now.
            loud: whether something is worth an incident.
        """
        changes: list[Incident] = []
        for one in beginnings(held, loud):
            if one.name not in self._open:
                began = Incident(id=self._name(one), verdict=one, began_at=now)
                self._open[one.name] = _Open(began, one, now, now)
                changes.append(began)
        holding = {verdict.name: verdict for verdict in held}
        for name, lasting in list(self._open.items()):
            if name in holding:
                lasting.newest, lasting.seen_at, lasting.calm_from = holding[name], now, now
            elif now - lasting.calm_from >= self._calm_seconds:
                del self._open[name]
                over = replace(lasting.incident, resolved_at=lasting.seen_at)
                self._over.append(_view(over, lasting.newest, "resolved"))
                changes.append(over)
        return changes

    def _name(self, verdict: Note) -> str:
        """A name for a new incident; the second one of the same second has a number behind it."""
        first = name = f"{verdict.name}-{int(verdict.since)}"
        known = {alert.incident for alert in self._over}
        number = 2
        while name in known:
            name = f"{first}-{number}"
            number += 1
        return name

    def obey(self, orders: Sequence[Order], now: float) -> list[str]:
        """Takes all that the operator asked for; what was asked before and is not among it is undone.

        Returns:
            What is new and what is undone, in words; what has only ended is no news.
        """
        before, self._orders = self._orders, tuple(orders)
        about = {(order.kind, order.alert, order.incident) for order in orders}
        undone = [
            f"{order.alert}: no longer {_DONE[order.kind]}"
            for order in before
            if order.holds(now) and (order.kind, order.alert, order.incident) not in about
        ]
        return [*undone, *(_asked(order) for order in orders if order not in before)]

    def restore(self, alerts: Sequence[AlertView], now: float, ended_at: float | None = None) -> None:
        """Takes back the log of an earlier watch, in the order of `views`; what was open is open.

        Args:
            alerts: as `views` gave them.
            now: when this watch begins.
            ended_at: when the earlier one ended.
        """
        for alert in reversed(alerts):
            if alert.state == "resolved":
                self._over.append(alert)
            elif alert.open and alert.name not in self._open:
                verdict = Note(
                    name=alert.name,
                    severity=alert.severity,
                    since=alert.since,
                    sentence=alert.sentence,
                    evidence=alert.evidence,
                    cause=alert.cause,
                    next_steps=alert.next_steps,
                )
                incident = Incident(id=alert.incident, verdict=verdict, began_at=alert.began_at)
                seen_at = now if ended_at is None else max(alert.began_at, min(ended_at, now))
                self._open[alert.name] = _Open(incident, verdict, seen_at, now + RESUMED_SECONDS - self._calm_seconds)

    def views(self, now: float, pending: Sequence[Note] = ()) -> tuple[AlertView, ...]:
        """The log: what is open, what is suspected and what is over, each the newest first.

        Args:
            now: when.
            pending: what is suspected and not sure, as the verdict that it would be.
        """
        shown = [
            _view(Incident(id=f"{one.name}-{int(one.since)}", verdict=one, began_at=one.since), one, "pending")
            for one in pending
            if one.name not in self._open
        ]
        shown.sort(key=_begin)
        lasting = [self._lasting(one, now) for one in self._open.values()]
        lasting.sort(key=_begin)
        room = max(0, KEPT - len(shown) - len(lasting))
        return (*lasting, *shown, *list(reversed(self._over))[:room])

    def mutes(self, now: float) -> tuple[MuteView, ...]:
        """What tells nobody now."""
        found = [order for order in self._orders if order.kind == "mute" and order.holds(now)]
        return tuple(
            MuteView(name=order.alert, until=order.until, note=order.note) for order in found if order.until is not None
        )

    def _lasting(self, one: _Open, now: float) -> AlertView:
        for kind, state in _STATES:
            for order in reversed(self._orders):
                about = (
                    order.alert == one.incident.verdict.name if kind == "mute" else order.incident == one.incident.id
                )
                if order.kind == kind and about and order.holds(now):
                    return _view(one.incident, one.newest, state, order.until, order.note)
        return _view(one.incident, one.newest, "firing")


_DONE = {"mute": "muted", "acknowledge": "acknowledged"}


def _asked(order: Order) -> str:
    """What was asked, for the timeline."""
    end = "until it is over" if order.until is None else f"for {in_words(order.until - order.given_at)}"
    note = f": {order.note}" if order.note else ""
    return f"{order.alert}: {_DONE[order.kind]} {end}{note}"


_STATES: tuple[tuple[str, AlertState], ...] = (("mute", "muted"), ("acknowledge", "acknowledged"))
"""A mute keeps more from being told, so it is what is shown of both."""


def _begin(alert: AlertView) -> float:
    return -alert.began_at


def _view(incident: Incident, newest: Note, state: AlertState, until: float | None = None, note: str = "") -> AlertView:
    return AlertView(
        incident=incident.id,
        name=newest.name,
        severity=newest.severity,
        state=state,
        since=incident.verdict.since,
        began_at=incident.began_at,
        resolved_at=incident.resolved_at,
        until=until,
        note=note,
        sentence=newest.sentence,
        cause=newest.cause,
        next_steps=newest.next_steps,
        evidence=newest.evidence,
    )
