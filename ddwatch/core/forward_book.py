"""Keeps what forward passes (FPM) say: GPU time per pass beside the step, prefill share, and passes that were lost.

Their span is `forward`: they explain, and never enter a fit, a curve or a judgement of step times.
"""

from collections import deque

from ddwatch.core.engine import RANKS_AT_MOST, ForwardPass
from ddwatch.core.engine_view import ForwardView
from ddwatch.core.positions import RankKey
from ddwatch.core.snapshot import Flag, Sample
from ddwatch.core.waiting import Wait, Waits

LATELY_SECONDS = 3
"""Passes of so many seconds are read as one."""
SHARE_SECONDS = 30
PAIR_SECONDS = 2
"""A step time is set beside the passes of so many seconds before it."""
REST_SECONDS = 10.0
"""Heartbeats for this long mean rest: releases before 0.5.23 send one during a single long pass too."""
FRESH_SECONDS = 10.0
LOSS_SECONDS = 60.0
"""Losses of one rank within this time are told once."""


class _Second:
    """The passes of one rank within one second."""

    __slots__ = ("at", "decode_passes", "decode_seconds", "passes", "prefill_seconds", "seconds")

    def __init__(self, at: int) -> None:
        self.at = at
        self.passes = 0
        self.seconds = 0.0
        self.decode_passes = 0
        """Those without a prefill."""
        self.decode_seconds = 0.0
        self.prefill_seconds = 0.0


class _Rank:
    """One rank's passes."""

    __slots__ = ("_seconds", "at", "counter", "lost_told_at", "newest", "resting_since", "unsaid")

    def __init__(self) -> None:
        self.counter: int | None = None
        self.at = 0.0
        self.newest: ForwardPass | None = None
        """Its newest pass that did anything."""
        self.resting_since: float | None = None
        self.unsaid = 0
        self.lost_told_at = float("-inf")
        self._seconds: deque[_Second] = deque(maxlen=SHARE_SECONDS + 1)

    def follow(self, one: ForwardPass) -> int:
        """Takes the number of a message; returns how many before it are missing."""
        missing = 0
        if self.counter is not None and one.counter > self.counter:
            missing = one.counter - self.counter - 1
        elif self.counter is not None:
            # Numbers begin anew with each process.
            self._seconds.clear()
            self.newest = self.resting_since = None
        self.counter, self.at = one.counter, one.at
        return missing

    def count(self, one: ForwardPass) -> None:
        self.newest, self.resting_since = one, None
        if not self._seconds or self._seconds[-1].at < int(one.at):
            self._seconds.append(_Second(int(one.at)))
        second = self._seconds[-1]
        second.passes += 1
        second.seconds += one.seconds
        if one.prefill_requests:
            second.prefill_seconds += one.seconds
        elif one.decode_requests:
            second.decode_passes += 1
            second.decode_seconds += one.seconds

    def lately(self, now: float, seconds: int) -> list[_Second]:
        """The seconds that ended within the last ones, the open one with them."""
        return [second for second in self._seconds if now - seconds - 1 < second.at <= now]

    def forward(self, now: float, seconds: int) -> float | None:
        """Mean GPU time of its decode passes."""
        lately = self.lately(now, seconds)
        passes = sum(second.decode_passes for second in lately)
        return sum(second.decode_seconds for second in lately) / passes if passes else None


class ForwardBook:
    """The passes of all ranks of one watch."""

    def __init__(self) -> None:
        self._ranks: dict[RankKey, _Rank] = {}
        self._waits = Waits()
        self._pair: tuple[float, float, float] | None = None
        self.lost = 0
        """Passes that did not arrive, since the watch began."""

    @property
    def ranks(self) -> int:
        """How many ranks have been heard."""
        return len(self._ranks)

    def forget(self, at: float) -> None:
        """The engine began anew: its passes are others; what was before a slow step stays known."""
        self._ranks.clear()
        self._waits.close(at)
        self._pair = None

    def see(self, one: ForwardPass, key: RankKey, *, warming: bool) -> Sample | None:
        """The sample of a pass; None for a heartbeat.

        Args:
            one: the pass.
            key: the rank as the log names it.
            warming: whether the rate has not settled.
        """
        rank = self._ranks.get(key)
        if rank is None:
            if len(self._ranks) >= RANKS_AT_MOST:
                return None
            rank = self._ranks[key] = _Rank()
        missing = rank.follow(one)
        self.lost += missing
        rank.unsaid += missing
        if one.heartbeat:
            rank.resting_since = one.at if rank.resting_since is None else rank.resting_since
            return None
        rank.count(one)
        batch = one.decode_requests
        flags: tuple[Flag, ...] = (*(("prefill",) if one.prefill_requests else ()), *(("warming",) if warming else ()))
        return Sample(
            at=one.at,
            engine=key[0],
            dp_rank=key[1],
            batch=batch,
            total_context_tokens=one.decode_context_tokens if batch else None,
            context_tokens=one.decode_context_tokens / batch if batch else None,
            step_seconds=one.seconds,
            span="forward",
            provenance="fpm",
            flags=flags,
            steps=1,
        )

    def losses(self, key: RankKey, at: float) -> int:
        """Passes of a rank that were lost and not told yet; 0 while the last loss was told only just."""
        rank = self._ranks.get(key)
        if rank is None or not rank.unsaid or at - rank.lost_told_at < LOSS_SECONDS:
            return 0
        rank.lost_told_at = at
        unsaid, rank.unsaid = rank.unsaid, 0
        return unsaid

    def resting_since(self, key: RankKey, at: float) -> float | None:
        """Since when a rank has done nothing but say that it lives; None while that is not certain."""
        rank = self._ranks.get(key)
        since = None if rank is None else rank.resting_since
        return since if since is not None and at - since >= REST_SECONDS else None

    def step(self, sample: Sample) -> None:
        """Sets a step time (span `step`) beside the passes of the same seconds."""
        rank = self._ranks.get((sample.engine, sample.dp_rank))
        if rank is None or not sample.clean or sample.step_seconds is None or sample.span != "step":
            return
        forward = rank.forward(sample.at, PAIR_SECONDS)
        if forward is not None:
            self._pair = (sample.at, sample.step_seconds, forward)
            self._waits.add(*self._pair)

    def waits(self) -> tuple[Wait, ...]:
        """Step beside forward time, by stretches."""
        return self._waits.all()

    def computed(self, key: RankKey, at: float, seconds: int) -> bool:
        """Whether a prompt was computed within the last seconds: then other requests run than before it."""
        rank = self._ranks.get(key)
        return rank is not None and any(second.prefill_seconds > 0 for second in rank.lately(at, seconds))

    def view(self, now: float) -> ForwardView | None:
        """What is shown; None while nothing was heard."""
        live = [rank for rank in self._ranks.values() if now - rank.at <= FRESH_SECONDS]
        if not live:
            return None
        busy = [rank for rank in live if rank.newest is not None and now - rank.newest.at <= LATELY_SECONDS]
        newest = [rank.newest for rank in busy if rank.newest is not None]
        forwards = [found for rank in busy if (found := rank.forward(now, LATELY_SECONDS)) is not None]
        shares = [second for rank in live for second in rank.lately(now, SHARE_SECONDS)]
        gpu = sum(second.seconds for second in shares)
        begun = [second for rank in busy for second in rank.lately(now, LATELY_SECONDS) if second.at < int(now)]
        whole = [second for second in begun if second.at >= int(now) - LATELY_SECONDS]
        pair = self._pair if self._pair is not None and now - self._pair[0] <= FRESH_SECONDS and forwards else None
        queued = [one.queued for one in newest if one.queued is not None]
        return ForwardView(
            at=max(rank.at for rank in live),
            ranks=len(live),
            resting=all(rank.resting_since is not None and now - rank.resting_since >= REST_SECONDS for rank in live),
            forward_seconds=pair[2] if pair is not None else sum(forwards) / len(forwards) if forwards else None,
            step_seconds=pair[1] if pair is not None else None,
            wait_seconds=max(0.0, pair[1] - pair[2]) if pair is not None else None,
            passes_per_second=sum(second.passes for second in whole) / LATELY_SECONDS if whole else None,
            prefill_ratio=sum(second.prefill_seconds for second in shares) / gpu if gpu > 0 else None,
            batch=sum(one.decode_requests for one in newest) if newest else None,
            total_context_tokens=sum(one.decode_context_tokens for one in newest) if newest else None,
            queued=sum(queued) if queued else None,
            lost=self.lost,
        )
