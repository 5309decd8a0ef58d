"""The bounded past: points, events and finished requests, in the monitor and in every reader that follows it."""

from collections import deque
from collections.abc import Callable
from itertools import islice, takewhile

from msgspec.structs import replace

from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.snapshot import Event, EventKind, History, Point, Severity

POINTS_KEPT = 7200
"""Two hours of one-second points."""
EVENTS_KEPT = 500
REQUESTS_KEPT = 200
SAME_INCIDENT_SECONDS = 10.0
"""Equal signs within this time are one incident."""


class Ring:
    """The newest points, events and finished requests with one rising sequence number over all."""

    def __init__(self, points: int = POINTS_KEPT, events: int = EVENTS_KEPT, requests: int = REQUESTS_KEPT) -> None:
        self._points: deque[Point] = deque(maxlen=points)
        self._events: deque[Event] = deque(maxlen=events)
        self._requests: deque[FinishedRequest] = deque(maxlen=requests)
        self._dropped = 0
        self._restored_until = float("-inf")
        self.seq = 0

    def restore(self, past: History) -> None:
        """Puts the items of an earlier watch first; what is added later of the same time is left out.

        Each kind must be in order of time; all get sequence numbers of this ring.
        """
        items: list[Point | Event | FinishedRequest] = [*past.points, *past.events, *past.requests]
        items.sort(key=lambda item: item.at)
        for item in items:
            if isinstance(item, Point):
                self.add_point(replace(item, seq=self.next_seq()))
            elif isinstance(item, FinishedRequest):
                self.add_request(replace(item, seq=self.next_seq()))
            else:
                self._append(replace(item, seq=self.next_seq(), replaces=None))
        if items:
            self._restored_until = items[-1].at

    def add_point(self, point: Point) -> None:
        """Appends a point; its `seq` must come from `next_seq`."""
        if point.at <= self._restored_until:
            return
        if len(self._points) == self._points.maxlen:
            self._dropped = max(self._dropped, self._points[0].seq)
        self._points.append(point)

    def add_request(self, request: FinishedRequest) -> None:
        """Appends a finished request; its `seq` must come from `next_seq`. The older ones go and are not missed."""
        if request.at > self._restored_until:
            self._requests.append(request)

    def next_seq(self) -> int:
        """The sequence number for the next point, event or request."""
        self.seq += 1
        return self.seq

    def add_event(self, at: float, kind: EventKind, severity: Severity, text: str) -> Event:
        """Appends an event."""
        event = Event(seq=self.next_seq(), at=at, kind=kind, severity=severity, text=text)
        self._append(event)
        return event

    def reword(self, old: Event, *, text: str | None = None, count: int | None = None) -> Event:
        """Replaces an event by a newer wording of the same incident, at its old place in time."""
        event = Event(
            seq=self.next_seq(),
            at=old.at,
            kind=old.kind,
            severity=old.severity,
            text=old.text if text is None else text,
            count=old.count if count is None else count,
            replaces=old.seq if old.replaces is None else old.replaces,
        )
        kept = [item for item in self._events if item.seq != old.seq]
        self._events.clear()
        self._events.extend(kept)
        self._append(event)
        return event

    def _append(self, event: Event) -> None:
        if event.at <= self._restored_until:
            return
        if len(self._events) == self._events.maxlen:
            self._dropped = max(self._dropped, self._events[0].seq)
        self._events.append(event)

    def last_point(self) -> Point | None:
        """The newest point."""
        return self._points[-1] if self._points else None

    def recent_points(self, since: float) -> list[Point]:
        """Points at or after a time, oldest first."""
        found: list[Point] = []
        for point in reversed(self._points):
            if point.at < since:
                break
            found.append(point)
        found.reverse()
        return found

    def since(self, seq: int) -> History:
        """All items with a higher sequence number; `complete` is False when some of them are gone."""
        if seq >= self.seq:
            # A reader that is ahead of this ring followed another one; it gets everything and is told so.
            return History() if seq == self.seq else self._all(complete=False)
        points = tuple(reversed(list(takewhile(lambda point: point.seq > seq, reversed(self._points)))))
        events = tuple(event for event in self._events if event.seq > seq)
        requests = tuple(request for request in self._requests if request.seq > seq)
        return History(complete=seq >= self._dropped, points=points, events=events, requests=requests)

    def _all(self, *, complete: bool) -> History:
        return History(
            complete=complete,
            points=tuple(self._points),
            events=tuple(self._events),
            requests=tuple(self._requests),
        )


def merged(
    old: History,
    new: History,
    *,
    points: int = POINTS_KEPT,
    events: int = EVENTS_KEPT,
    requests: int = REQUESTS_KEPT,
) -> History:
    """What a reader keeps after it received `new`: all in order, replaced events dropped, bounded.

    An incomplete `new` starts over: what was missed cannot be joined to what was kept.
    """
    if not new.complete:
        return History(
            complete=False,
            points=new.points[-points:],
            events=new.events[-events:],
            requests=new.requests[-requests:],
        )
    if not new.points and not new.events and not new.requests:
        return old
    replaced = {event.replaces for event in new.events if event.replaces is not None}
    kept = [event for event in old.events if (event.replaces or event.seq) not in replaced]
    joined = sorted((*kept, *new.events), key=lambda event: (event.at, event.seq))
    all_points = old.points + new.points
    start = max(0, len(all_points) - points)
    return History(
        complete=old.complete,
        points=tuple(islice(all_points, start, None)) if start else all_points,
        events=tuple(joined[-events:]),
        requests=(old.requests + new.requests)[-requests:] if new.requests else old.requests,
    )


def numbered(history: History, numbers: Callable[[int], bool]) -> History:
    """The items whose sequence number passes; the history itself when all of them do."""
    kept = History(
        complete=history.complete,
        points=tuple(point for point in history.points if numbers(point.seq)),
        events=tuple(event for event in history.events if numbers(event.seq)),
        requests=tuple(request for request in history.requests if numbers(request.seq)),
    )
    sizes = [(len(each.points), len(each.events), len(each.requests)) for each in (kept, history)]
    return history if sizes[0] == sizes[1] else kept


def ends(history: History) -> list[tuple[int, int]]:
    """The first and the last sequence number of each kind that the history holds."""
    kinds = (history.points, history.events, history.requests)
    return [(items[0].seq, items[-1].seq) for items in kinds if items]


class EventLog:
    """Writes events into a ring; equal signs within a short time become one incident."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._latest: dict[str, tuple[float, Event]] = {}

    def add(self, at: float, kind: EventKind, severity: Severity, text: str) -> Event:
        """Adds an event that stands for itself."""
        return self._ring.add_event(at, kind, severity, text)

    def incident(
        self,
        key: str,
        at: float,
        kind: EventKind,
        severity: Severity,
        text: str,
        *,
        within: float = SAME_INCIDENT_SECONDS,
        reword: bool = False,
        joined: float = 0.0,
    ) -> Event:
        """Adds an event, or joins it to the one with the same key if that is recent.

        Args:
            key: what makes two signs the same incident.
            at: when.
            kind: kind of the event.
            severity: its severity.
            text: its sentence.
            within: seconds since the last sign within which this is another sign of the same incident.
            reword: whether the newer text replaces the older.
            joined: seconds since the last sign within which a new incident raises the older event's count
                instead of adding a line.
        """
        known = self._latest.get(key)
        if known is None:
            event = self._ring.add_event(at, kind, severity, text)
        else:
            last, event = known
            since = abs(at - last)
            if since > max(within, joined):
                event = self._ring.add_event(at, kind, severity, text)
            elif since > within:
                event = self._ring.reword(event, text=text, count=event.count + 1)
            elif reword and text != event.text:
                event = self._ring.reword(event, text=text)
        self._latest[key] = (at, event)
        if len(self._latest) > EVENTS_KEPT:
            self._latest.pop(next(iter(self._latest)))
        return event
