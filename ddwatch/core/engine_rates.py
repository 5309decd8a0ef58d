"""What the counters of SGLang's /metrics come to: tokens per second, share of graph passes, retractions, a reset.

The engine raises its counters once per log interval and the page is read every few seconds, so the difference of two
readings says little. A rate is taken between moments at which the counter was seen to rise, over up to a minute, and
states its own error.
"""

from collections import deque

from msgspec import Struct

from ddwatch.core.engine import EngineMetrics, RankMetrics

WINDOW_SECONDS = 60.0
"""The longest stretch that a rate is taken over."""
LEAST_SECONDS = 8.0
"""The shortest one."""
PAUSE_SECONDS = 20.0
"""A counter that has not risen for this long stands still."""


class RankRate(Struct, frozen=True, kw_only=True):
    """What one rank's counters say at one reading."""

    reading: RankMetrics
    moved: bool
    """Whether tokens were generated or computed since the reading before."""
    decoded: bool
    """Whether tokens were generated since then."""
    decode_tokens_per_second: float | None = None
    error: float | None = None
    """Relative error of that rate: how late a rise may have been seen, over the stretch."""
    since: float | None = None
    """Begin of the stretch."""
    until: float | None = None
    """Its end: when the counter was last seen to have risen."""
    prefilled: bool = False
    """Whether prompts were computed within the stretch."""
    graph_ratio: float | None = None
    """Share of the decode passes since the reading before that ran a captured graph."""
    retracted: int = 0
    """Requests sent back to the queue since the reading before."""
    restarted: bool = False
    """Whether its counters have begun anew: another process counts."""


class _Rank:
    """The readings of one rank."""

    __slots__ = ("at", "before", "prefilled_at", "rises")

    def __init__(self) -> None:
        self.before: RankMetrics | None = None
        self.at = 0.0
        self.rises: deque[tuple[float, float]] = deque()
        """When the counter of tokens was seen to have risen, and to what."""
        self.prefilled_at = float("-inf")

    def see(self, at: float, reading: RankMetrics) -> RankRate:
        before, last = self.before, self.at
        self.before, self.at = reading, at
        if before is None:
            return RankRate(reading=reading, moved=False, decoded=False)
        if _fell(before, reading):
            self.rises.clear()
            self.prefilled_at = float("-inf")
            return RankRate(reading=reading, moved=False, decoded=False, restarted=True)
        decoded = _rise(before.decode_tokens, reading.decode_tokens) > 0
        prefilled = _rise(before.prefill_tokens, reading.prefill_tokens) > 0
        if prefilled:
            self.prefilled_at = at
        if decoded and reading.decode_tokens is not None:
            self.rises.append((at, reading.decode_tokens))
        while self.rises and at - self.rises[0][0] > WINDOW_SECONDS:
            self.rises.popleft()
        if self.rises and at - self.rises[-1][0] > PAUSE_SECONDS:
            self.rises.clear()
        graph = _rise(before.graph_passes, reading.graph_passes)
        passes = graph + _rise(before.plain_passes, reading.plain_passes)
        rate = error = since = until = None
        if len(self.rises) > 1:
            (since, first), (until, newest) = self.rises[0], self.rises[-1]
            if until - since >= LEAST_SECONDS:
                rate, error = (newest - first) / (until - since), (at - last) / (until - since)
        return RankRate(
            reading=reading,
            moved=decoded or prefilled,
            decoded=decoded,
            decode_tokens_per_second=rate,
            error=error,
            since=since if rate is not None else None,
            until=until if rate is not None else None,
            prefilled=since is not None and self.prefilled_at >= since,
            graph_ratio=graph / passes if passes > 0 else None,
            retracted=round(_rise(before.retracted, reading.retracted)),
        )


def _rise(before: float | None, after: float | None) -> float:
    """How much was counted meanwhile; a counter is not on the page before its first count."""
    return 0.0 if after is None else max(0.0, after - (before or 0.0))


def _fell(before: RankMetrics, after: RankMetrics) -> bool:
    """Whether some counter stands lower than before, or is gone."""
    pairs = (
        (before.decode_tokens, after.decode_tokens),
        (before.prefill_tokens, after.prefill_tokens),
        (before.graph_passes, after.graph_passes),
        (before.plain_passes, after.plain_passes),
    )
    return any(old is not None and old > (new or 0.0) for old, new in pairs)


class EngineRates:
    """Differences the readings of each rank."""

    def __init__(self) -> None:
        self._ranks: dict[int | None, _Rank] = {}

    def clear(self) -> None:
        """Forgets all readings: the engine began anew."""
        self._ranks.clear()

    def see(self, metrics: EngineMetrics) -> list[RankRate]:
        """One rate per rank of the reading."""
        for gone in self._ranks.keys() - {reading.dp_rank for reading in metrics.ranks}:
            del self._ranks[gone]
        return [self._ranks.setdefault(one.dp_rank, _Rank()).see(metrics.at, one) for one in metrics.ranks]
