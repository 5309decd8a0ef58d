"""What runs: decode and prefill lines and the port's moments become samples, ranks and seconds."""

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from ddwatch.core.agreement import Disagreement
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.lifecycle import Lifecycle
from ddwatch.core.moments import Moments
from ddwatch.core.positions import Positions, RankKey, speaks_for_itself
from ddwatch.core.ranks import LiveRanks
from ddwatch.core.records import DecodeBatch, Gap, Loads, PrefillBatch, ServerInfo
from ddwatch.core.seconds import Expect, Seconds
from ddwatch.core.snapshot import PointState, Sample
from ddwatch.core.source_book import SourceBook
from ddwatch.core.tallies import Count

DISAGREEMENT_SECONDS = 600.0
MISSING = "forward passes are missing between two decode lines: the log lost lines"
DRAIN_SAMPLES = 4096
"""Samples that wait for whoever drains them; older ones are gone."""


class Traffic:
    """The samples of every rank by the better witness; each is counted once and handed on once."""

    def __init__(
        self,
        ring: Ring,
        events: EventLog,
        count: Count,
        *,
        sources: SourceBook,
        lifecycle: Lifecycle,
        expect: Expect,
        judge: Callable[[Sample], None],
    ) -> None:
        """Begins without traffic.

        Args:
            ring: where the points go.
            events: where events go.
            count: what is counted of every sample.
            sources: told of heads that were read and of witnesses that answered.
            lifecycle: told that there is traffic.
            expect: what the model holds of one sample per rank.
            judge: takes each sample of the witness that counts, flagged ones too.
        """
        self.positions = Positions()
        self.ranks = LiveRanks()
        self.seconds = Seconds(ring)
        self.decode_at: float | None = None
        """When a decode step was last seen, by any witness."""
        self.seen_at: float | None = None
        """When a witness last spoke of traffic at all."""
        self._events = events
        self._count = count
        self._sources = sources
        self._lifecycle = lifecycle
        self._expect = expect
        self._judge = judge
        self._moments = Moments()
        self._engine: str | None = None
        self._line_at: float | None = None
        """When a rank last wrote a decode line."""
        self._fresh: deque[Sample] = deque(maxlen=DRAIN_SAMPLES)

    def fresh(self) -> list[Sample]:
        """Every sample since this was last asked, flagged ones too; for one taker."""
        fresh, self._fresh = list(self._fresh), deque(maxlen=DRAIN_SAMPLES)
        return fresh

    def close_second(self, now: float) -> None:
        """Closes the open second once it has passed."""
        if self.seconds.open_until(now):
            self.seconds.close(self.ranks.carried(now), self.ranks.queued(now), self._expect)

    def mark(self, at: float, state: PointState) -> None:
        """Marks where an idle stretch or a gap begins."""
        self.close_second(at)
        self.seconds.mark(at, state)

    def _batch_line(self, at: float) -> None:
        self._sources.head(at, read=True)
        self.seen_at = at
        self._lifecycle.traffic()

    def decode(self, record: DecodeBatch, source: str) -> None:
        """Takes a decode line of a source."""
        self.close_second(record.at)
        self._batch_line(record.at)
        self.decode_at = record.at
        before, self._line_at = self._line_at, record.at
        sample = self.positions.see(record)
        if sample is None:
            return
        if self.positions.lines_missing:
            self._sources.gap(Gap(at=record.at, source=source, reason="lost", detail=MISSING))
        self._fresh.append(sample)
        key = (sample.engine, sample.dp_rank)
        rank = self.ranks.of(key)
        if "gap" in sample.flags and rank.sample is not None:
            self.seconds.mark(rank.sample.at, "gap")
        elif "idle" in sample.flags and rank.sample is not None and (before is None or before <= rank.sample.at):
            # Where others decoded meanwhile only this rank rested, and the line goes on.
            self.seconds.mark(rank.sample.at, "idle")
        rank.decoded(record, sample)
        self._engine = sample.engine
        if rank.fresh_moments(record.at) is None:
            self.seconds.add(key, sample)
            self._judge(sample)
        self._count.sample(sample, self.positions.log_interval(sample.engine))

    def prefill(self, record: PrefillBatch) -> None:
        """Takes a prefill line."""
        self.close_second(record.at)
        self._batch_line(record.at)
        self.positions.see(record)
        if speaks_for_itself(record.rank):
            self.ranks.of((record.rank.engine, record.rank.dp)).prefilled(record)

    def loads(self, record: Loads) -> None:
        """Takes an answer of the port about its load."""
        self.close_second(record.at)
        samples, restarted = self._moments.see(record, warming=self.positions.warming())
        self._fresh.extend(samples)
        if restarted:
            self.seconds.mark(record.at, "gap")
        for load in record.ranks:
            self.ranks.of(self.rank_key(load.dp_rank, len(record.ranks))).loaded(record.at, load)
            if load.running is not None:
                self.seen_at = record.at
        for sample in samples:
            key = self.rank_key(sample.dp_rank, len(record.ranks))
            # The port names no engine; both witnesses must speak of the same rank.
            named = replace(sample, engine=key[0], dp_rank=key[1])
            disagreement = self.ranks.of(key).measured(named)
            self.seconds.add(key, named)
            self._judge(named)
            self._count.sample(named, named.steps)
            self.decode_at = record.at
            self._lifecycle.traffic()
            if disagreement is not None:
                self._disagree(record.at, disagreement)
        self._sources.answered(record.source, record.at)

    def rank_key(self, dp: int | None, ranks: int) -> RankKey:
        """The key that the log uses for this rank; a lone rank 0 has no number in the log."""
        alone = ranks == 1 and dp in (0, None) and not self.ranks.knows((self._engine, 0))
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

    def passed(self, sample: Sample) -> None:
        """Takes a forward pass to hand on: its span is another than all that is summed and judged here."""
        self._fresh.append(sample)

    def arguments(self, record: ServerInfo) -> None:
        """Takes what the port says of the server's arguments."""
        self.positions.arguments(self._engine, record.arguments)

    def forget(self, at: float) -> None:
        """The engine began anew: its ranks and counters are others."""
        self.close_second(at)
        self.ranks.clear()
        self._moments.clear()
        self.seconds.mark(at, "gap")
