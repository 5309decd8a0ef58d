"""Folds records into one immutable snapshot: the same code behind the live sidecar and every replay."""

from collections import deque

from msgspec.structs import replace

from ddwatch.core.agreement import Disagreement
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.lifecycle import Lifecycle
from ddwatch.core.moments import Moments
from ddwatch.core.positions import Positions, RankKey, speaks_for_itself
from ddwatch.core.ranks import LiveRanks
from ddwatch.core.records import (
    DecodeBatch,
    Gap,
    GpuNames,
    LinesSeen,
    Loads,
    LogRecord,
    PrefillBatch,
    Record,
    Rotation,
    SelfReading,
    ServerInfo,
    ServerStart,
    SourceFault,
    SourceUp,
    Unread,
)
from ddwatch.core.rules import verdicts
from ddwatch.core.rules.situation import Situation
from ddwatch.core.seconds import Seconds
from ddwatch.core.snapshot import (
    History,
    SelfView,
    Snapshot,
    SourceView,
    UnreadExample,
    Verdict,
)
from ddwatch.core.tallies import Count, Tallies

UNREAD_EXAMPLES = 5
HEADS_SECONDS = 60.0
"""The stretch over which unread lines are weighed against read ones."""
UNREAD_EVENT_SECONDS = 300.0
DISAGREEMENT_SECONDS = 600.0
LOG = "log"
"""Name of the source of records that come without one."""


def loud(verdict: Verdict) -> bool:
    """Whether a verdict belongs on the event list when it comes and when it goes."""
    return verdict.severity in ("page", "notice") or verdict.name == "blind"


class Monitor:
    """One watch: `accept` records in order, ask for the snapshot `at` a time."""

    def __init__(self, *, started_at: float, version: str = "", simulated: bool = False) -> None:
        """Begins a watch.

        Args:
            started_at: when the watch begins, seconds since the epoch.
            version: version of ddwatch, shown with every snapshot.
            simulated: whether the watched service is a simulation.
        """
        self._started_at = started_at
        self._version = version
        self._simulated = simulated
        self._ring = Ring()
        self._events = EventLog(self._ring)
        self._lifecycle = Lifecycle(self._events)
        self._positions = Positions()
        self._ranks = LiveRanks()
        self._seconds = Seconds(self._ring)
        self._moments = Moments()
        self._engine: str | None = None
        self._count = Count()
        self._sources: dict[str, SourceView] = {}
        self._examples: deque[UnreadExample] = deque(maxlen=UNREAD_EXAMPLES)
        self._heads: deque[tuple[float, bool]] = deque(maxlen=4096)
        self._watch = SelfView()
        self._decode_at: float | None = None
        self._traffic_at: float | None = None
        self._stamped = True
        self._verdict: Verdict | None = None

    def accept(self, record: Record, source: str = LOG) -> None:
        """Takes the next record of a source; records of one source come in order."""
        match record:
            case DecodeBatch():
                self._decode(record)
            case PrefillBatch():
                self._prefill(record)
            case Unread():
                self._unread(record, source)
            case Gap():
                self._gap(record)
            case Rotation():
                self._rotation(record)
            case SourceFault():
                self._fault(record)
            case SourceUp():
                self._source_up(record)
            case LinesSeen():
                self._lines(record)
            case Loads():
                self._loads(record)
            case ServerInfo():
                self._info(record)
            case GpuNames(names=names):
                self._lifecycle.gpus(names)
            case SelfReading():
                self._watch = SelfView(cpu_ratio=record.cpu_ratio, resident_bytes=record.resident_bytes)
            case _:
                self._server(record)

    def unstamped(self) -> None:
        """Says that the log has no times, so that all times here are estimates."""
        self._stamped = False

    def at(self, now: float) -> Snapshot:
        """The snapshot at a time that is not earlier than the last one asked for."""
        held = self.verdicts(now)
        return Snapshot(
            seq=self._ring.seq,
            at=now,
            started_at=self._started_at,
            ddwatch_version=self._version,
            simulated=self._simulated,
            stamped=self._stamped,
            server=self._lifecycle.view,
            now=self._ranks.reading(now),
            window=self._seconds.window(now),
            ranks=self._ranks.views(now),
            verdict=held[0],
            notes=held[1:],
            sources=tuple(self._sources.values()),
            unread_examples=tuple(self._examples),
            watch=self._watch,
        )

    def verdicts(self, now: float) -> tuple[Verdict, ...]:
        """The verdict and the notes beside it; a verdict keeps the `since` that it began with."""
        self._close_second(now)
        held = verdicts(self._situation(now))
        first = held[0]
        previous = self._verdict
        if previous is not None and previous.name == first.name:
            first = replace(first, since=min(previous.since, first.since))
        else:
            self._changed(now, previous, first)
        self._verdict = first
        return (first, *held[1:])

    def history(self, since: int = 0) -> History:
        """Points and events after a sequence number."""
        return self._ring.since(since)

    def tallies(self) -> Tallies:
        """All counts since the watch began."""
        return self._count.frozen(self._lifecycle.view.restarts)

    def _changed(self, now: float, previous: Verdict | None, verdict: Verdict) -> None:
        if previous is not None and (loud(verdict) or loud(previous)):
            self._events.add(now, "verdict", verdict.severity, f"{verdict.name}: {verdict.sentence}")
        if verdict.name == "idle":
            self._seconds.mark(verdict.since, "idle")
        elif verdict.name == "blind":
            self._seconds.mark(min(now, verdict.since), "gap")

    def _situation(self, now: float) -> Situation:
        while self._heads and self._heads[0][0] < now - HEADS_SECONDS:
            self._heads.popleft()
        return Situation(
            at=now,
            started_at=self._started_at,
            server=self._lifecycle.view,
            now=self._ranks.reading(now),
            window=self._seconds.window(now),
            sources=tuple(self._sources.values()),
            warming=self._positions.warming(),
            traffic_at=self._traffic_at,
            decode_at=self._decode_at,
            nothing_runs_since=self._ranks.idle_since(),
            cadence=self._ranks.cadence(),
            running=self._ranks.running(),
            recent_heads=len(self._heads),
            recent_unread=sum(1 for _, read in self._heads if not read),
            lines=sum(source.lines for source in self._sources.values()),
            crash_reason=self._lifecycle.crash_reason,
        )

    def _close_second(self, now: float) -> None:
        if self._seconds.open_until(now):
            self._seconds.close(self._ranks.carried(now), self._ranks.queued(now), None)

    def _batch_line(self, at: float, *, read: bool) -> None:
        self._heads.append((at, read))
        if read:
            self._traffic_at = at
            self._lifecycle.traffic()

    def _decode(self, record: DecodeBatch) -> None:
        self._close_second(record.at)
        self._batch_line(record.at, read=True)
        self._decode_at = record.at
        sample = self._positions.see(record)
        if sample is None:
            return
        key = (sample.engine, sample.dp_rank)
        rank = self._ranks.of(key)
        if "gap" in sample.flags and rank.sample is not None:
            self._seconds.mark(rank.sample.at, "gap")
        elif "idle" in sample.flags and rank.sample is not None:
            self._seconds.mark(rank.sample.at, "idle")
        rank.decoded(record, sample)
        self._engine = sample.engine
        if rank.fresh_moments(record.at) is None:
            self._seconds.add(key, sample)
        self._count.sample(sample, self._positions.log_interval(sample.engine))

    def _prefill(self, record: PrefillBatch) -> None:
        self._close_second(record.at)
        self._batch_line(record.at, read=True)
        self._positions.see(record)
        if speaks_for_itself(record.rank):
            self._ranks.of((record.rank.engine, record.rank.dp)).prefilled(record)

    def _server(self, record: LogRecord) -> None:
        self._positions.see(record)
        restarts, state = self._lifecycle.view.restarts, self._lifecycle.view.state
        self._lifecycle.see(record)
        view = self._lifecycle.view
        began = view.state == "starting" and state != "starting"
        if isinstance(record, ServerStart) or began or view.restarts != restarts:
            self._forget_ranks(record.at)

    def _unread(self, record: Unread, source: str) -> None:
        self._batch_line(record.at, read=False)
        self._positions.see(record)
        self._count.lines_unread[source] = self._count.lines_unread.get(source, 0) + 1
        known = self._source(source)
        self._sources[source] = replace(known, state="up", unread=known.unread + 1)
        self._examples.append(UnreadExample(at=record.at, head=record.head, example=record.example))
        self._events.incident(
            f"unread {record.head}",
            record.at,
            "unread",
            "notice",
            f"a {record.head} line could not be read: {record.example}",
            within=UNREAD_EVENT_SECONDS,
        )

    def _info(self, record: ServerInfo) -> None:
        restarts = self._lifecycle.view.restarts
        self._lifecycle.info(record)
        self._positions.arguments(self._engine, record.arguments)
        if self._lifecycle.view.restarts != restarts:
            self._forget_ranks(record.at)

    def _loads(self, record: Loads) -> None:
        self._close_second(record.at)
        samples, restarted = self._moments.see(record, warming=self._positions.warming())
        if restarted:
            self._seconds.mark(record.at, "gap")
        for load in record.ranks:
            self._ranks.of(self._rank_key(load.dp_rank, len(record.ranks))).loaded(record.at, load)
            if load.running is not None:
                self._traffic_at = record.at
        for sample in samples:
            key = self._rank_key(sample.dp_rank, len(record.ranks))
            disagreement = self._ranks.of(key).measured(sample)
            self._seconds.add(key, sample)
            self._count.sample(sample, sample.steps)
            self._decode_at = record.at
            self._lifecycle.traffic()
            if disagreement is not None:
                self._disagree(record.at, disagreement)
        known = self._source(record.source)
        self._sources[record.source] = replace(known, state="up", last_at=record.at)

    def _rank_key(self, dp: int | None, ranks: int) -> RankKey:
        """The key that the log uses for this rank; a lone rank 0 has no number in the log."""
        alone = ranks == 1 and dp in (0, None) and not self._ranks.knows((self._engine, 0))
        return (self._engine, None if alone else dp)

    def _disagree(self, at: float, found: Disagreement) -> None:
        percent = (found.ratio - 1.0) * 100.0
        self._events.incident(
            f"witnesses {found.quantity}",
            at,
            "source",
            "notice",
            f"log and moments differ: {found.quantity} by the log is {percent:+.0f} % off; moments count",
            within=DISAGREEMENT_SECONDS,
        )

    def _forget_ranks(self, at: float) -> None:
        self._close_second(at)
        self._ranks.clear()
        self._moments.clear()
        self._seconds.mark(at, "gap")

    def _source(self, name: str) -> SourceView:
        return self._sources.get(name) or SourceView(name=name, state="waiting")

    def _gap(self, record: Gap) -> None:
        self._close_second(record.at)
        self._positions.see(record)
        self._count.gaps[record.source] = self._count.gaps.get(record.source, 0) + 1
        known = self._source(record.source)
        self._sources[record.source] = replace(known, gaps=known.gaps + 1)
        self._seconds.mark(record.at, "gap")
        self._events.add(record.at, "gap", "notice", record.detail)

    def _rotation(self, record: Rotation) -> None:
        self._count.rotations[record.source] = self._count.rotations.get(record.source, 0) + 1
        known = self._source(record.source)
        self._sources[record.source] = replace(known, rotations=known.rotations + 1)
        self._events.add(record.at, "rotation", "ok", record.detail)

    def _fault(self, record: SourceFault) -> None:
        known = self._source(record.source)
        state = "waiting" if record.waiting and known.state == "waiting" else "lost"
        if (known.state, known.detail) == (state, record.reason):
            return
        self._sources[record.source] = replace(known, state=state, detail=record.reason)
        if state == "lost":
            self._close_second(record.at)
            self._seconds.mark(record.at, "gap")
            self._events.add(record.at, "source", "notice", f"{record.source}: {record.reason}")

    def _source_up(self, record: SourceUp) -> None:
        known = self._source(record.source)
        self._sources[record.source] = replace(known, state="up", detail=record.detail, last_at=record.at)
        if known.state == "lost":
            self._events.add(record.at, "source", "ok", f"{record.source} is back")

    def _lines(self, record: LinesSeen) -> None:
        self._count.lines_read[record.source] = self._count.lines_read.get(record.source, 0) + record.lines
        known = self._source(record.source)
        detail = known.detail if known.state == "up" else ""
        self._sources[record.source] = replace(
            known, state="up", detail=detail, last_at=record.at, lines=known.lines + record.lines
        )
