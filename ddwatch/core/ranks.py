"""The live ranks: the newest word of each, which of them still count, and their sum."""

from collections import deque
from statistics import median

from msgspec.structs import replace

from ddwatch.core.agreement import Agreement, Disagreement
from ddwatch.core.engine import RankMetrics
from ddwatch.core.pooled import pooled
from ddwatch.core.positions import RankKey
from ddwatch.core.records import DecodeBatch, PrefillBatch, RankLoad
from ddwatch.core.seconds import middle
from ddwatch.core.snapshot import Flag, Now, RankView, Sample

EXPIRY_SECONDS = 10.0
EXPIRY_MULTIPLE = 4.0
"""A rank expires after both: this long, and this many of its usual distances between lines."""
CADENCES_KEPT = 9
READING_SECONDS = 3.0
"""Log lines this close together are read as one, so that the figures of single steps do not flicker."""
RECENT_SAMPLES = 200
MOMENTS_SECONDS = 10.0
"""A sample from decode moments speaks for this long; polls come every 2 s."""
PAGE_SECONDS = 15.0
"""A reading of /metrics speaks for this long; polls come every 5 s, the page changes once per log interval."""
HEALTH_PROBE_TOKENS = 1
"""`/health` runs a prefill of this many tokens and no decode worth a line."""


class LiveRank:
    """What is known of one rank."""

    __slots__ = (
        "_distances",
        "_page",
        "_reading",
        "_recent",
        "_said",
        "agreement",
        "at",
        "clean",
        "graph",
        "graph_off_since",
        "graph_ran",
        "idle_since",
        "moments",
        "queued",
        "running",
        "sample",
        "token_usage",
    )

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.clean: Sample | None = None
        self.queued: int | None = None
        self.token_usage: float | None = None
        self.graph: bool | None = None
        self.graph_off_since: float | None = None
        """Since when its lines say that no captured graph runs."""
        self.graph_ran = False
        """Whether a captured graph ever ran."""
        self.running: int | None = None
        self.at = 0.0
        """Time of its newest batch line."""
        self.idle_since: float | None = None
        """Since when it has said that nothing runs on it."""
        self._distances: list[float] = []
        self.moments: Sample | None = None
        """Its newest sample from decode moments."""
        self._recent: deque[Sample] = deque(maxlen=RECENT_SAMPLES)
        self._reading: Sample | None = None
        """The lines of the last seconds pooled; made anew after each line."""
        self._said: float | None = None
        """When a better witness than /metrics spoke: a line of the log, or its load."""
        self._page: tuple[float, RankMetrics, Sample | None] | None = None
        """Its newest reading of /metrics, and the sample of it where no better witness has one."""
        self.agreement = Agreement()

    def quiet(self, at: float) -> bool:
        """Whether neither log nor load has spoken of it lately."""
        return self._said is None or at - self._said > max(EXPIRY_SECONDS, EXPIRY_MULTIPLE * (self.cadence or 0.0))

    def paged(self, at: float, page: RankMetrics, sample: Sample | None, *, moved: bool) -> None:
        """Takes what /metrics says; it fills in what better witnesses leave out, and speaks where they are silent.

        Args:
            at: when.
            page: the reading.
            sample: what its counters come to, where they move.
            moved: whether they have moved: gauges alone may stand still.
        """
        self._page = (at, page, sample)
        if not self.quiet(at):
            self.queued = page.queued if self.queued is None else self.queued
            self.token_usage = page.token_usage if self.token_usage is None else self.token_usage
            return
        self.queued, self.token_usage = page.queued, page.token_usage
        resting = page.running == 0 and not page.queued and not moved
        if moved or resting:
            self.at = max(self.at, at)
            self.running = page.running
        if not resting:
            self.idle_since = None if moved else self.idle_since
        elif self.idle_since is None:
            self.idle_since = at

    def rest(self, since: float, at: float) -> None:
        """Takes that it has done nothing but say that it lives, unless a better witness has spoken meanwhile."""
        if self.quiet(at):
            self.at = max(self.at, at)
            self.running = 0
            self.idle_since = since if self.idle_since is None else self.idle_since

    def _completed(self, sample: Sample, now: float) -> Sample:
        """A sample whose source leaves the context out, with that of /metrics."""
        if sample.total_context_tokens is not None or self._page is None or not sample.batch:
            return sample
        at, page, _ = self._page
        if now - at > PAGE_SECONDS or not page.running or page.total_context_tokens is None:
            return sample
        context = page.total_context_tokens / page.running
        return replace(sample, context_tokens=context, total_context_tokens=round(context * sample.batch))

    def loaded(self, at: float, load: RankLoad) -> None:
        """Takes what the server itself says of this rank's load."""
        self.at = max(self.at, at)
        self._said = at if load.running is not None else self._said
        self.running = load.running
        self.queued = load.queued if load.queued is not None else self.queued
        if load.used_tokens is not None and load.max_total_tokens:
            self.token_usage = load.used_tokens / load.max_total_tokens
        if load.running == 0 and not load.queued:
            self.idle_since = at if self.idle_since is None else self.idle_since
        elif load.running:
            self.idle_since = None

    def measured(self, sample: Sample) -> Disagreement | None:
        """Takes a sample from decode moments; says when the log's lines of the same stretch differ."""
        self.moments = sample
        return self.agreement.moments(sample)

    def fresh_moments(self, now: float) -> Sample | None:
        """Its newest sample from decode moments while that still speaks for the present."""
        moments = self.moments
        return moments if moments is not None and now - moments.at <= MOMENTS_SECONDS else None

    def newest(self, now: float) -> Sample | None:
        """What speaks for this rank: moments before log lines; the clean lines of the last seconds together."""
        moments = self.fresh_moments(now)
        if moments is not None:
            return self._completed(moments, now)
        paged = self._page[2] if self._page is not None and now - self._page[0] <= PAGE_SECONDS else None
        if paged is not None and (self.sample is None or self.quiet(now)):
            return paged
        if self._reading is None and self.sample is not None:
            since = self.sample.at - READING_SECONDS
            lately = [sample for sample in self._recent if sample.at >= since]
            self._reading = pooled([sample for sample in lately if sample.clean] or [self.sample])
        return None if self._reading is None else self._completed(self._reading, now)

    def decoded(self, record: DecodeBatch, sample: Sample) -> None:
        """Takes a decode line and its sample."""
        if self.sample is not None and not {"idle", "prefill", "first", "gap"} & set(sample.flags):
            self._distances.append(record.at - self.sample.at)
            del self._distances[:-CADENCES_KEPT]
        self.sample = sample
        if sample.clean:
            self.clean = sample
        if self._recent and self._recent[-1].batch != sample.batch:
            self._recent.clear()
        self._recent.append(sample)
        self._reading = None
        self.agreement.line(sample)
        self.at = self._said = record.at
        self.queued = record.queued
        self.token_usage = record.token_usage
        self.graph = record.graph
        self.graph_ran = self.graph_ran or record.graph is True
        if record.graph is not False:
            self.graph_off_since = None
        elif self.graph_off_since is None:
            self.graph_off_since = record.at
        over = record.context_flaw == "request-end" or record.running == 0
        self.running = 0 if over else record.running
        self.idle_since = record.at if over else None

    def prefilled(self, record: PrefillBatch) -> None:
        """Takes a prefill line; one of a health probe on an idle rank leaves it idle."""
        self.at = self._said = record.at
        self.queued = record.queued if record.queued is not None else self.queued
        probe = (record.new_tokens or 0) <= HEALTH_PROBE_TOKENS and not record.cached_tokens
        if record.running == 0 and probe:
            self.running = 0
            self.idle_since = self.idle_since or record.at
            return
        self.idle_since = None
        if record.running is not None:
            self.running = record.running + (record.new_requests or 0)

    @property
    def cadence(self) -> float | None:
        """Usual seconds between its decode lines."""
        return median(self._distances) if self._distances else None

    def expired(self, now: float) -> bool:
        """Whether it has been silent for longer than its cadence allows."""
        return now - self.at > max(EXPIRY_SECONDS, EXPIRY_MULTIPLE * (self.cadence or 0.0))

    def counting(self, now: float) -> Sample | None:
        """The sample that it counts with in sums: its newest clean one while fresh, else its newest."""
        moments = self.fresh_moments(now)
        if moments is not None:
            return moments
        clean = self.clean
        if self.sample is None or self.quiet(now):
            return self.newest(now)
        if (
            clean is not None
            and not self.expired(now)
            and now - clean.at <= max(EXPIRY_SECONDS, EXPIRY_MULTIPLE * (self.cadence or 0.0))
        ):
            return clean
        return self.sample


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class LiveRanks:
    """All ranks that have spoken since the server's start."""

    def __init__(self) -> None:
        self._ranks: dict[RankKey, LiveRank] = {}
        self._graphs_ran = False

    def clear(self) -> None:
        """Forgets all ranks: a server started anew. Whether graphs ran before is what tells that they are off now."""
        self._graphs_ran = self._any_graph_ran()
        self._ranks.clear()

    def of(self, key: RankKey) -> LiveRank:
        """The rank of that key, made when it is new."""
        rank = self._ranks.get(key)
        if rank is None:
            rank = self._ranks[key] = LiveRank()
        return rank

    def graph_off_since(self, now: float) -> float | None:
        """Since when the first live rank runs without captured graphs; None while all run with them or none did."""
        if not self._any_graph_ran():
            return None
        off = [rank.graph_off_since for rank in self._ranks.values() if not rank.expired(now)]
        return min((since for since in off if since is not None), default=None)

    def _any_graph_ran(self) -> bool:
        return self._graphs_ran or any(rank.graph_ran for rank in self._ranks.values())

    def knows(self, key: RankKey) -> bool:
        """Whether that rank has spoken."""
        return key in self._ranks

    def _live(self, now: float) -> list[LiveRank]:
        return [rank for rank in self._ranks.values() if rank.newest(now) is not None and not rank.expired(now)]

    def carried(self, now: float) -> dict[RankKey, Sample]:
        """What each live, busy rank counts with."""
        return {
            key: sample
            for key, rank in self._ranks.items()
            if rank.idle_since is None and not rank.expired(now) and (sample := rank.counting(now)) is not None
        }

    def queued(self, now: float) -> int | None:
        """Waiting requests over live ranks."""
        return _sum([rank.queued for rank in self._ranks.values() if not rank.expired(now)])

    def running(self) -> int | None:
        """Running requests by the newest batch lines; ranks that fell silent while busy still count."""
        return _sum([rank.running for rank in self._ranks.values()])

    def cadence(self) -> float | None:
        """Median over ranks of the usual distance between decode lines."""
        return middle([rank.cadence for rank in self._ranks.values()])

    def idle_since(self) -> float | None:
        """Since when all ranks have said that nothing runs; None while one is busy or did not say."""
        since = [rank.idle_since for rank in self._ranks.values()]
        known = [moment for moment in since if moment is not None]
        return max(known) if known and len(known) == len(since) else None

    def views(self, now: float) -> tuple[RankView, ...]:
        """One view per rank that has decoded, in order of engine and rank."""
        ordered = sorted(self._ranks.items(), key=lambda item: (item[0][0] or "", item[0][1] or 0))
        return tuple(
            RankView(
                sample=sample,
                queued=rank.queued,
                token_usage=rank.token_usage,
                graph=rank.graph,
                live=not rank.expired(now),
            )
            for _, rank in ordered
            if (sample := rank.newest(now)) is not None
        )

    def busy(self, now: float) -> list[Sample]:
        """What speaks for each live rank that runs something."""
        if self.idle_since() is not None:
            return []
        newest = [rank.newest(now) for rank in self._live(now) if rank.idle_since is None]
        return [sample for sample in newest if sample is not None]

    def reading(self, now: float) -> Now:
        """The sum over live ranks at this instant; all None when no rank is live or nothing runs."""
        queued = self.queued(now)
        if self.idle_since() is not None:
            return Now(at=self.idle_since(), batch=0, queued=queued)
        live = self._live(now)
        samples = self.busy(now)
        if not samples:
            return Now(queued=queued)
        throughput = [sample.throughput for sample in samples if sample.throughput is not None]
        accept = [(s.accept_length, s.batch or 1) for s in samples if s.accept_length is not None]
        batch = _sum([sample.batch for sample in samples])
        contexts = [(s.total_context_tokens, s.batch) for s in samples]
        total = None if any(tokens is None for tokens, _ in contexts) else _sum([tokens for tokens, _ in contexts])
        flags: dict[Flag, None] = {flag: None for sample in samples for flag in sample.flags}
        return Now(
            at=max(sample.at for sample in samples),
            provenance=samples[0].provenance,
            span=samples[0].span,
            throughput=sum(throughput) if throughput else None,
            accept_length=sum(a * b for a, b in accept) / sum(b for _, b in accept) if accept else None,
            step_seconds=middle([sample.step_seconds for sample in samples]),
            batch=batch,
            queued=queued,
            context_tokens=total / batch if total is not None and batch else None,
            total_context_tokens=total,
            token_usage=max((rank.token_usage for rank in live if rank.token_usage is not None), default=None),
            flags=tuple(flags),
        )
