"""Keeps what each source has delivered, lost and failed to read, and tells its events."""

from collections import deque

from msgspec.structs import replace

from ddwatch.core.history import EventLog
from ddwatch.core.records import Gap, LinesSeen, Rotation, SourceFault, SourceUp, Unread
from ddwatch.core.snapshot import SourceView, UnreadExample
from ddwatch.core.tallies import Count

UNREAD_EXAMPLES = 5
HEADS_SECONDS = 60.0
"""The stretch over which unread lines are weighed against read ones."""
HEADS_KEPT = 4096
BESIDE = frozenset(
    {
        "recording",
        "webhook",
        "notify command",
        "acknowledgements",
        "nvml",
        "host",
        "kernel log",
        "metrics",
        "fpm",
        "requests",
    }
)
"""What ddwatch itself keeps and sends, the machine, and what completes the witnesses: told among the sources, and
nothing that the service could be judged by."""
UNREAD_EVENT_SECONDS = 300.0
COPIES_SECONDS = 3.0
"""Equal losses within this time are one."""


class SourceBook:
    """The sources of one watch."""

    def __init__(self, events: EventLog, count: Count) -> None:
        self._events = events
        self._count = count
        self._views: dict[str, SourceView] = {}
        self._heads: deque[tuple[float, bool]] = deque()
        self._recent_unread = 0
        self._untold: set[str] = set()
        """Lost sources whose loss was told by another."""
        self.examples: deque[UnreadExample] = deque(maxlen=UNREAD_EXAMPLES)

    def views(self) -> tuple[SourceView, ...]:
        """All sources in the order in which they appeared, witnesses of the service first."""
        return tuple(sorted(self._views.values(), key=lambda view: not view.witness))

    def witnesses(self) -> tuple[SourceView, ...]:
        """Those that tell of the service."""
        return tuple(view for view in self._views.values() if view.witness)

    def lines(self) -> int:
        """Physical lines read from all sources."""
        return sum(view.lines for view in self._views.values())

    def any_up(self) -> bool:
        """Whether some source delivers."""
        return any(view.state == "up" for view in self.witnesses())

    def head(self, at: float, *, read: bool) -> None:
        """Notes a batch line, read or not."""
        if len(self._heads) == HEADS_KEPT:
            self._drop_head()
        self._heads.append((at, read))
        self._recent_unread += not read

    def recent_heads(self, now: float) -> tuple[int, int]:
        """Batch lines of the last minute, and those of them that could not be read."""
        while self._heads and self._heads[0][0] < now - HEADS_SECONDS:
            self._drop_head()
        return len(self._heads), self._recent_unread

    def _drop_head(self) -> None:
        _, read = self._heads.popleft()
        self._recent_unread -= not read

    def _of(self, name: str) -> SourceView:
        return self._views.get(name) or SourceView(name=name, state="waiting", witness=name not in BESIDE)

    def unread(self, record: Unread, source: str) -> None:
        """A batch line that could not be read."""
        self.head(record.at, read=False)
        self._count.lines_unread[source] = self._count.lines_unread.get(source, 0) + 1
        known = self._of(source)
        self._views[source] = replace(known, state="up", unread=known.unread + 1)
        self.examples.append(UnreadExample(at=record.at, head=record.head, example=record.example))
        self._events.incident(
            f"unread {record.head}",
            record.at,
            "unread",
            "notice",
            f"a {record.head} line could not be read: {record.example}",
            within=UNREAD_EVENT_SECONDS,
        )

    def gap(self, record: Gap) -> None:
        """Lines were lost."""
        self._count.gaps[record.source] = self._count.gaps.get(record.source, 0) + 1
        known = self._of(record.source)
        self._views[record.source] = replace(known, gaps=known.gaps + 1)
        # All ranks lose the same lines at once.
        self._events.incident(f"gap {record.detail}", record.at, "gap", "notice", record.detail, within=COPIES_SECONDS)

    def rotation(self, record: Rotation) -> None:
        """A file was rotated without loss."""
        self._count.rotations[record.source] = self._count.rotations.get(record.source, 0) + 1
        known = self._of(record.source)
        self._views[record.source] = replace(known, rotations=known.rotations + 1)
        self._events.add(record.at, "rotation", "ok", record.detail)

    def fault(self, record: SourceFault) -> bool:
        """A source cannot deliver; True when it has just been lost and no other delivers."""
        known = self._of(record.source)
        state = "waiting" if record.waiting and known.state == "waiting" else "lost"
        if (known.state, known.detail, known.gone) == (state, record.reason, record.gone):
            return False
        self._views[record.source] = replace(known, state=state, detail=record.reason, gone=record.gone)
        if state == "lost":
            others = [view for name, view in self._views.items() if name != record.source and view.state == "lost"]
            if any(view.detail == record.reason for view in others):
                # Two sources behind one port lose it for one reason, which is told once.
                self._untold.add(record.source)
            else:
                self._events.add(record.at, "source", "notice", f"{record.source}: {record.reason}")
        return state == "lost" and known.witness and not self.any_up()

    def up(self, record: SourceUp) -> None:
        """A source delivers (again)."""
        known = self._of(record.source)
        self._views[record.source] = replace(known, state="up", detail=record.detail, gone=False, last_at=record.at)
        if known.state == "lost" and record.source not in self._untold:
            self._events.add(record.at, "source", "ok", f"{record.source} is back")
        self._untold.discard(record.source)

    def lines_seen(self, record: LinesSeen) -> None:
        """A source delivered lines."""
        self._count.lines_read[record.source] = self._count.lines_read.get(record.source, 0) + record.lines
        known = self._of(record.source)
        detail = known.detail if known.state == "up" else ""
        self._views[record.source] = replace(
            known, state="up", detail=detail, last_at=record.at, lines=known.lines + record.lines
        )

    def answered(self, source: str, at: float) -> None:
        """A source that has no lines answered."""
        self._views[source] = replace(self._of(source), state="up", gone=False, last_at=at)
