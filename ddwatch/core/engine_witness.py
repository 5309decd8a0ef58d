"""What SGLang's /metrics and forward passes add to the other witnesses: filled in, compared with them, never judged."""

from ddwatch.core.agreement import Ratios
from ddwatch.core.engine import EngineMetrics, ForwardPass, RankMetrics
from ddwatch.core.engine_rates import EngineRates, RankRate
from ddwatch.core.engine_view import EngineView, ForwardView
from ddwatch.core.forward_book import ForwardBook
from ddwatch.core.history import EventLog
from ddwatch.core.lifecycle import Lifecycle
from ddwatch.core.positions import RankKey
from ddwatch.core.records import Gap, Retraction
from ddwatch.core.snapshot import Flag, Sample, Severity
from ddwatch.core.source_book import SourceBook
from ddwatch.core.tallies import Count
from ddwatch.core.traffic import Traffic
from ddwatch.core.waiting import Wait
from ddwatch.core.witnessed_rate import WitnessedRate

SHOWN_SECONDS = 15.0
"""A reading of the page stands for this long."""
TOLD_SECONDS = 600.0
"""The same difference between witnesses is told once within this time."""
RATE_TOLERANCE = 0.10
"""Relative difference of tokens per second beyond the rate's own error."""
CONTEXT_TOLERANCE = 0.10
"""Relative difference of total context, beyond what the steps between two readings explain."""
APART_SECONDS = 8
"""How far two readings that are compared may lie apart: a page is up to 5 s old, and what is on it a log interval."""
STILL_SHARE = 0.05
"""A total context that grows by no more than this meanwhile stands still enough to be compared."""
SURE_ERROR = 0.15
"""A rate with a larger error is not compared."""
OFF_RATIO = 0.5
"""Below this share of graph passes the graphs count as off."""


class EngineWitness:
    """One engine's own mouths beside its log and its load."""

    def __init__(
        self, traffic: Traffic, events: EventLog, count: Count, *, sources: SourceBook, lifecycle: Lifecycle
    ) -> None:
        """Begins without a reading.

        Args:
            traffic: the samples of the better witnesses, which these complete.
            events: where differences are told.
            count: counts forward passes.
            sources: told that a witness answered.
            lifecycle: told of traffic and of retractions that the log did not show.
        """
        self._traffic = traffic
        self._events = events
        self._count = count
        self._sources = sources
        self._lifecycle = lifecycle
        self._rates = EngineRates()
        self._passes = ForwardBook()
        self._view: EngineView | None = None
        self._compared: dict[tuple[str, RankKey], Ratios] = {}
        self._witnessed: dict[RankKey, WitnessedRate] = {}
        self._before: dict[RankKey, RankMetrics] = {}
        """The reading of the page before the newest."""
        self._graph_off_since: float | None = None
        self._graphs_ran = False
        """Whether captured graphs ever ran, before a restart too: where none did, none was meant to."""
        self._looked: dict[RankKey, int] = {}

    def forget(self, at: float) -> None:
        """The engine began anew: what it counted before is over."""
        self._rates.clear()
        self._passes.forget(at)
        self._view = None
        self._compared.clear()
        self._witnessed.clear()
        self._before.clear()
        self._graph_off_since = None

    # The page.

    def page(self, record: EngineMetrics) -> None:
        """Takes a reading of /metrics."""
        traffic, at = self._traffic, record.at
        traffic.close_second(at)
        rates = self._rates.see(record)
        for rate in rates:
            key = traffic.rank_key(rate.reading.dp_rank, len(rates))
            rank = traffic.ranks.of(key)
            sample = self._sample(at, key, rate)
            rank.paged(at, rate.reading, sample, moved=rate.moved)
            if rate.restarted:
                self._restarted(at)
            if rank.quiet(at):
                self._alone(at, rate)
            if rate.retracted:
                self._retracted(at, rate.retracted)
            better = rank.newest(at)
            if better is not None and better is not sample:
                self._compare(at, key, rate, better)
            elif sample is not None:
                traffic.seconds.add(key, sample)
            self._before[key] = rate.reading
            self._graphs_ran = self._graphs_ran or bool(rate.reading.graph_passes)
        if any(rate.restarted for rate in rates):
            self._compared.clear()
        self._view = _view(at, rates)
        ratio = self._view.graph_ratio
        if ratio is not None:
            off = self._graphs_ran and ratio < OFF_RATIO
            self._graph_off_since = (self._graph_off_since or at) if off else None
        self._sources.answered(record.source, at)

    def _alone(self, at: float, rate: RankRate) -> None:
        """No better witness speaks of this rank: what moves, or rests, is told by the page."""
        if rate.moved or (rate.reading.running == 0 and not rate.reading.queued):
            self._traffic.seen_at = at
        if rate.decoded:
            self._traffic.decode_at = at
            self._lifecycle.traffic()

    def _sample(self, at: float, key: RankKey, rate: RankRate) -> Sample | None:
        """What the counters come to; it has no step time, because the page tells none."""
        reading = rate.reading
        if rate.decode_tokens_per_second is None or not reading.running:
            return None
        total = reading.total_context_tokens
        flags: list[Flag] = []
        if rate.prefilled:
            flags.append("prefill")
        if self._traffic.positions.warming():
            flags.append("warming")
        return Sample(
            at=at,
            engine=key[0],
            dp_rank=key[1],
            batch=reading.running,
            total_context_tokens=total,
            context_tokens=total / reading.running if total is not None else None,
            accept_length=reading.accept_length,
            throughput=rate.decode_tokens_per_second,
            provenance="metrics",
            flags=tuple(flags),
        )

    def _restarted(self, at: float) -> None:
        if self._lifecycle.view.state == "starting":
            return
        self._traffic.seconds.mark(at, "gap")
        self._events.incident(
            "metrics reset",
            at,
            "source",
            "ok",
            "the counters of /metrics begin anew: another process counts",
            within=60.0,
        )

    def _retracted(self, at: float, requests: int) -> None:
        told = self._lifecycle.retracted_at
        if told is None or at - told > TOLD_SECONDS / 10:
            self._lifecycle.see(Retraction(at=at, requests=requests))

    def _compare(self, at: float, key: RankKey, rate: RankRate, better: Sample) -> None:
        """Sets the page beside the log or the moments; a lasting difference is told."""
        ours, told, error = self._meanwhile(key, rate), rate.decode_tokens_per_second, rate.error
        if ours and told and error is not None and error <= SURE_ERROR:
            ratio = self._ratio("rate", key, ours / told, RATE_TOLERANCE + error)
            if ratio is not None:
                words = f"tokens per second by {better.provenance} are {_percent(ratio)} off those that /metrics counts"
                self._differ(at, "rate", words, "notice")
        page = rate.reading
        if rate.decoded and page.total_context_tokens and page.running == better.batch and self._stood(key, page):
            self._compare_context(at, key, better, page.total_context_tokens, "/metrics")

    def _meanwhile(self, key: RankKey, rate: RankRate) -> float | None:
        """What the witness that counts says of the same stretch: text and context change within a minute."""
        witness = self._witnessed.get(key)
        if witness is None or rate.since is None or rate.until is None or rate.prefilled:
            return None
        return witness.mean(rate.since, rate.until)

    def _stood(self, key: RankKey, page: RankMetrics) -> bool:
        """Whether the same requests ran at the reading before, so that a load in between is theirs too."""
        before = self._before.get(key)
        return before is not None and (before.running, before.prefill_tokens) == (page.running, page.prefill_tokens)

    def _compare_context(self, at: float, key: RankKey, better: Sample, total: int, who: str) -> None:
        if not better.total_context_tokens or not better.clean:
            return
        if (better.throughput or 0.0) * APART_SECONDS > STILL_SHARE * total:
            # It changes more between two readings than they could differ by.
            return
        ratio = self._ratio(f"context {who}", key, better.total_context_tokens / total, CONTEXT_TOLERANCE)
        if ratio is not None:
            shared = ": requests share prefixes, which the pool holds once" if ratio < 1 else ""
            words = (
                f"total context by {better.provenance} is {_percent(ratio)} off the sum over requests by {who}{shared}"
            )
            self._differ(at, "context", words, "ok")

    def _ratio(self, what: str, key: RankKey, ratio: float, tolerance: float) -> float | None:
        return self._compared.setdefault((what, key), Ratios()).add(ratio, tolerance)

    def _differ(self, at: float, what: str, words: str, severity: Severity) -> None:
        self._events.incident(f"witnesses page {what}", at, "source", severity, words, within=TOLD_SECONDS)

    # The passes.

    def forward(self, record: ForwardPass) -> None:
        """Takes a forward pass, or a heartbeat."""
        traffic = self._traffic
        key = traffic.rank_key(record.dp_rank, max(1, self._passes.ranks, self._lifecycle.view.dp or 1))
        sample = self._passes.see(record, key, warming=traffic.positions.warming())
        lost = self._passes.losses(key, record.at)
        if lost:
            self._sources.gap(Gap(at=record.at, source=record.source, reason="lost", detail=_lost(lost, key)))
        if sample is None:
            since = self._passes.resting_since(key, record.at)
            if since is not None:
                traffic.ranks.of(key).rest(since, record.at)
                traffic.seen_at = max(traffic.seen_at or 0.0, record.at)
        else:
            traffic.passed(sample)
            if record.decode_requests:
                self._count.sample(sample, 1)
                self._look(key, sample)
        self._sources.answered(record.source, record.at)

    def _look(self, key: RankKey, sample: Sample) -> None:
        """Now and then sets the context of the newest pass beside that of the log."""
        second = int(sample.at) // 5
        if self._looked.get(key) == second:
            return
        self._looked[key] = second
        rank = self._traffic.ranks.of(key)
        better, total = rank.newest(sample.at), sample.total_context_tokens
        computed = self._passes.computed(key, sample.at, APART_SECONDS)
        if better is not None and better.batch == sample.batch and total and not computed:
            self._compare_context(sample.at, key, better, total, "forward passes")

    def step(self, sample: Sample) -> None:
        """Takes a sample of the witness that counts, to set the forward passes and the page beside it."""
        self._passes.step(sample)
        self._witnessed.setdefault((sample.engine, sample.dp_rank), WitnessedRate()).see(sample)

    def waits(self) -> tuple[Wait, ...]:
        """Step beside forward time, by stretches."""
        return self._passes.waits()

    def graph_off_since(self, now: float) -> float | None:
        """Since when /metrics counts passes without captured graphs, where the log does not say."""
        return self._graph_off_since if self.engine(now) is not None else None

    def engine(self, now: float) -> EngineView | None:
        """The page as it is shown; None once it is old."""
        view = self._view
        return view if view is not None and now - view.at <= SHOWN_SECONDS else None

    def passes(self, now: float) -> ForwardView | None:
        """The forward passes as they are shown."""
        return self._passes.view(now)


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"


def _lost(passes: int, key: RankKey) -> str:
    who = "" if key[1] is None else f" of DP{key[1]}"
    return f"{passes} forward pass{'' if passes == 1 else 'es'}{who} did not arrive here"


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _view(at: float, rates: list[RankRate]) -> EngineView:
    readings = [rate.reading for rate in rates]
    told = [rate.decode_tokens_per_second for rate in rates if rate.decode_tokens_per_second is not None]
    errors = [rate.error for rate in rates if rate.error is not None]
    ratios = [rate.graph_ratio for rate in rates if rate.graph_ratio is not None]
    return EngineView(
        at=at,
        ranks=len(rates),
        running=_sum([one.running for one in readings]),
        queued=_sum([one.queued for one in readings]),
        total_context_tokens=_sum([one.total_context_tokens for one in readings if one.running]),
        decode_tokens_per_second=sum(told) if told else None,
        error=max(errors) if told else None,
        graph_ratio=min(ratios) if ratios else None,
    )
