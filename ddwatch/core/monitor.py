"""Folds records into one immutable snapshot: the same code behind the live sidecar and every replay."""

from collections.abc import Sequence

from msgspec.structs import replace

from ddwatch.core.alert_view import AlertView, KeepingView
from ddwatch.core.alerts import VERDICTS, Held, Incident, Incidents, noted
from ddwatch.core.causes import Facts
from ddwatch.core.comparison.epochs import coupled
from ddwatch.core.comparison.restart import RestartComparison
from ddwatch.core.durations import in_words
from ddwatch.core.engine import EngineMetrics, ForwardPass
from ddwatch.core.engine_witness import EngineWitness
from ddwatch.core.expectation.learning import Learner
from ddwatch.core.expecting import Expecting
from ddwatch.core.gpus.book import GpuBook
from ddwatch.core.hardware import GpuReading, HostReading
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.judging import Judging
from ddwatch.core.lifecycle import Lifecycle
from ddwatch.core.records import (
    DecodeBatch,
    Gap,
    GpuNames,
    LinesSeen,
    Loads,
    LogRecord,
    OrdersSeen,
    PrefillBatch,
    Record,
    RequestDone,
    Rotation,
    SelfReading,
    ServerInfo,
    ServerStart,
    SourceFault,
    SourceUp,
    Unread,
)
from ddwatch.core.requests import RequestBook
from ddwatch.core.rules import alarms, verdicts
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import pending
from ddwatch.core.snapshot import (
    Expected,
    History,
    Note,
    Sample,
    SelfView,
    Snapshot,
    Verdict,
    VerdictName,
)
from ddwatch.core.source_book import SourceBook
from ddwatch.core.tallies import Count, Tallies
from ddwatch.core.traffic import Traffic

LOG = "log"
"""Name of the source of records that come without one."""


CALM: frozenset[VerdictName] = frozenset({"learning", "as-expected", "idle", "blind"})
"""Verdicts under which clean samples may be learned: nothing is suspected."""


def loud(one: Note) -> bool:
    """Whether a verdict belongs on the event list when it comes and when it goes.

    `blind` with a known cause has that on the list already.
    """
    return one.severity in ("page", "notice") or (one.name == "blind" and one.cause is None)


class Monitor:
    """One watch: `accept` records in order, ask for the snapshot `at` a time."""

    def __init__(
        self, *, started_at: float, version: str = "", simulated: bool = False, expecting: Expecting | None = None
    ) -> None:
        """Begins a watch.

        Args:
            started_at: when the watch begins, seconds since the epoch.
            version: version of ddwatch, shown with every snapshot.
            simulated: whether the watched service is a simulation.
            expecting: the model side; one that knows no profile and learns from nothing when left out.
        """
        self._started_at = started_at
        self._version = version
        self._simulated = simulated
        self._ring = Ring()
        self._events = EventLog(self._ring)
        self._gpus = GpuBook(self._events)
        self._lifecycle = Lifecycle(self._events, self._gpus.xid)
        self._judging = Judging(expecting if expecting is not None else Expecting(), self._events, started_at)
        self._count = Count()
        self._sources = SourceBook(self._events, self._count)
        self._requests = RequestBook(self._ring)
        self._restarts = RestartComparison(self._events)
        self._traffic = Traffic(
            self._ring,
            self._events,
            self._count,
            sources=self._sources,
            lifecycle=self._lifecycle,
            expect=self._expect,
            judge=self._judge,
        )
        self._engine = EngineWitness(
            self._traffic, self._events, self._count, sources=self._sources, lifecycle=self._lifecycle
        )
        self._watch = SelfView()
        self._stamped = True
        self._verdict: Verdict | None = None
        self._incidents = Incidents()
        self._pending: tuple[Verdict, ...] = ()
        self._keeping: KeepingView | None = None

    def accept(self, record: Record, source: str = LOG) -> None:
        """Takes the next record of a source; records of one source come in order."""
        self._judging.record(record)
        match record:
            case DecodeBatch():
                self._traffic.decode(record, source)
                self._requests.prefills_told()
            case PrefillBatch():
                self._traffic.prefill(record)
                self._requests.prefilled(record.at)
            case ForwardPass():
                self._engine.forward(record)
                self._requests.passed(record)
            case EngineMetrics():
                self._engine.page(record)
            case Unread():
                self._unread(record, source)
            case Gap():
                self._gap(record)
            case Rotation():
                self._sources.rotation(record)
            case SourceFault():
                self._fault(record)
            case SourceUp():
                self._sources.up(record)
            case LinesSeen():
                self._sources.lines_seen(record)
            case Loads():
                self._traffic.loads(record)
            case ServerInfo():
                self._info(record)
            case GpuNames(at=at, names=names):
                self._lifecycle.gpus(names)
                self._identify(at)
            case GpuReading() | HostReading():
                self._gpus.see(record)
                self._sources.answered(record.source, record.at)
            case RequestDone():
                self._traffic.close_second(record.at)
                self._requests.see(record)
                self._server(record)
            case SelfReading():
                self._watch = SelfView(cpu_ratio=record.cpu_ratio, resident_bytes=record.resident_bytes)
            case OrdersSeen():
                self._ordered(record)
            case _:
                self._server(record)

    def unstamped(self) -> None:
        """Says that the log has no times, so that all times here are estimates."""
        self._stamped = False

    def at(self, now: float) -> Snapshot:
        """The snapshot at a time that is not earlier than the last one asked for."""
        verdict, notes = self.verdicts(now)
        reading, judging = self._traffic.ranks.reading(now), self._judging
        return Snapshot(
            seq=self._ring.seq,
            at=now,
            started_at=self._started_at,
            ddwatch_version=self._version,
            simulated=self._simulated,
            stamped=self._stamped,
            server=self._lifecycle.view,
            now=reading,
            window=self._traffic.seconds.window(now),
            expected=judging.newest.expected,
            ratio=judging.newest.ratio,
            model=judging.model(reading),
            reference=judging.reference(),
            factors=judging.factors(now, reading),
            ranks=self._traffic.ranks.views(now),
            verdict=verdict,
            notes=notes,
            sources=self._sources.views(),
            unread_examples=tuple(self._sources.examples),
            watch=self._watch,
            gpus=self._gpus.views(now),
            host=self._gpus.host(now),
            engine=self._engine.engine(now),
            forward=self._engine.passes(now),
            accepted=self._requests.histogram(),
            alerts=self._incidents.views(now, self._pending),
            mutes=self._incidents.mutes(now),
            keeping=self._keeping,
        )

    def verdicts(self, now: float) -> Held:
        """The verdict and the notes beside it; a verdict keeps the `since` that it began with."""
        self._traffic.close_second(now)
        self._judging.compare(now, self._traffic.ranks.busy(now))
        situation = self._situation(now)
        self._pending = pending(situation)
        first, *others = verdicts(situation)
        previous = self._verdict
        if previous is not None and previous.name == first.name:
            first = replace(first, since=min(previous.since, first.since))
        else:
            self._changed(now, previous, first)
        self._verdict = first
        notes = (*map(noted, others), *alarms(situation))
        for incident in self._incidents.see(now, (first, *notes), loud):
            self._incident(now, incident, first)
        return Held(first, notes)

    def _incident(self, now: float, incident: Incident, verdict: Verdict) -> None:
        """Counts what has begun; what is not the verdict of this moment is told on the timeline here."""
        what = incident.verdict
        if incident.resolved_at is None:
            self._count.alerts[what.name] = self._count.alerts.get(what.name, 0) + 1
            if what.name != verdict.name:
                self._events.add(now, "verdict", what.severity, f"{what.name}: {what.sentence}")
        elif what.name not in VERDICTS:
            lasted = in_words(max(0.0, incident.resolved_at - what.since))
            self._events.add(now, "verdict", "ok", f"{what.name}: over after {lasted}")

    def learner(self) -> Learner | None:
        """What has been learned, once after each change that should be saved."""
        return self._judging.learner()

    def relearn(self) -> None:
        """Forgets what was learned of this service and begins anew."""
        self._judging.relearn()

    def _expect(self, samples: Sequence[Sample]) -> Expected | None:
        """What the model holds of one second; where it may not accuse, the requests of that second are told."""
        judged = self._judging.beside(samples)
        if judged.expected is not None and judged.doubt is not None:
            self._requests.doubt(max(sample.at for sample in samples), judged.doubt)
        return judged.expected

    def _judge(self, sample: Sample) -> None:
        self._restarts.see(sample)
        self._engine.step(sample)
        self._judging.sample(sample, calm=self._verdict is None or self._verdict.name in CALM)

    def _identify(self, at: float) -> None:
        self._judging.identify(at, self._lifecycle.view)

    def history(self, since: int = 0) -> History:
        """Points and events after a sequence number."""
        return self._ring.since(since)

    def drain(self) -> list[Sample]:
        """Every sample since this was last asked, flagged ones too; for one taker."""
        return self._traffic.fresh()

    def restore(self, past: History, alerts: Sequence[AlertView] = (), ended_at: float | None = None) -> int:
        """Takes back what an earlier watch, which ended then, has seen; returns the newest sequence number."""
        self._ring.restore(past)
        self._incidents.restore(alerts, self._started_at, ended_at)
        return self._ring.seq

    def tallies(self) -> Tallies:
        """All counts since the watch began."""
        return self._count.frozen(self._lifecycle.view.restarts)

    def _changed(self, now: float, previous: Verdict | None, verdict: Verdict) -> None:
        if previous is not None and (loud(verdict) or loud(previous)):
            self._events.add(now, "verdict", verdict.severity, f"{verdict.name}: {verdict.sentence}")
        if verdict.name == "idle":
            self._traffic.seconds.mark(verdict.since, "idle")
        elif verdict.name == "blind":
            self._traffic.seconds.mark(min(now, verdict.since), "gap")

    def _situation(self, now: float) -> Situation:
        heads, unread = self._sources.recent_heads(now)
        return Situation(
            at=now,
            started_at=self._started_at,
            server=self._lifecycle.view,
            now=self._traffic.ranks.reading(now),
            window=self._traffic.seconds.window(now),
            sources=self._sources.witnesses(),
            warming=self._traffic.positions.warming(),
            traffic_at=self._traffic.seen_at,
            decode_at=self._traffic.decode_at,
            nothing_runs_since=self._traffic.ranks.idle_since(),
            cadence=self._traffic.ranks.cadence(),
            running=self._traffic.ranks.running(),
            recent_heads=heads,
            recent_unread=unread,
            lines=self._sources.lines(),
            crash_reason=self._lifecycle.crash_reason,
            suspicions=self._judging.suspicions(now, self._traffic.ranks.cadence()),
            facts=self._facts(now),
            judged=self._judging.held(now),
            clean_ratio_at=self._judging.clean_ratio_at,
            judgeable=self._judging.judgeable,
        )

    def _facts(self, now: float) -> Facts:
        return Facts(
            server=self._lifecycle.view,
            graph_off_since=self._traffic.ranks.graph_off_since(now) or self._engine.graph_off_since(now),
            retracted_at=self._lifecycle.retracted_at,
            hardware=tuple((one.since, one.sentence, one.next_step) for one in self._gpus.findings(now) if one.slows),
            fatal=tuple((one.since, one.sentence, one.next_step) for one in self._gpus.fatal(now)),
            waits=self._engine.waits(),
            changed_arguments=self._lifecycle.changed_arguments,
        )

    def _server(self, record: LogRecord) -> None:
        self._traffic.positions.see(record)
        restarts, state = self._lifecycle.view.restarts, self._lifecycle.view.state
        self._lifecycle.see(record)
        self._identify(record.at)
        view = self._lifecycle.view
        began = view.state == "starting" and state != "starting"
        if isinstance(record, ServerStart) or began or view.restarts != restarts:
            self._forget_ranks(record.at, record.rank.engine, began=began or view.restarts != restarts)

    def _ordered(self, record: OrdersSeen) -> None:
        first, self._keeping = self._keeping is None, record.keeping
        for news in self._incidents.obey(record.orders, record.at):
            # What stood there before this watch is no news.
            if not first:
                self._events.add(record.at, "verdict", "ok", news)

    def _unread(self, record: Unread, source: str) -> None:
        self._traffic.positions.see(record)
        self._sources.unread(record, source)

    def _info(self, record: ServerInfo) -> None:
        restarts = self._lifecycle.view.restarts
        self._lifecycle.info(record)
        self._traffic.arguments(record)
        self._identify(record.at)
        if self._lifecycle.view.restarts != restarts:
            self._forget_ranks(record.at, None, began=True)

    def _forget_ranks(self, at: float, engine: str | None, *, began: bool) -> None:
        self._traffic.forget(at)
        self._engine.forget(at)
        self._judging.interrupt(at, engine, restarted=began)
        self._restarts.restart(at, coupled(self._lifecycle.view.arguments))

    def _gap(self, record: Gap) -> None:
        self._traffic.close_second(record.at)
        self._traffic.positions.see(record)
        self._sources.gap(record)
        self._traffic.mark(record.at, "gap")

    def _fault(self, record: SourceFault) -> None:
        if self._sources.fault(record):
            self._traffic.mark(record.at, "gap")
