"""Sums samples up by the second: the points of the timeline and the figures of the last minutes."""

from collections import deque
from collections.abc import Callable, Sequence
from statistics import median

from ddwatch.core.history import Ring
from ddwatch.core.pooled import pooled
from ddwatch.core.positions import RankKey
from ddwatch.core.snapshot import Expected, Point, PointState, Sample, Window

Expect = Callable[[Sequence[Sample]], Expected | None]
"""What the model holds of the samples of all busy ranks at one instant."""

WINDOW_SECONDS = 300.0
"""The stretch that the window's figures are about."""


class RankSecond:
    """The samples of one rank within one second."""

    __slots__ = ("clean", "contaminated")

    def __init__(self) -> None:
        self.clean: list[Sample] = []
        self.contaminated: list[Sample] = []


class _SecondCount:
    """How many samples one second held, and how many of them were clean."""

    __slots__ = ("at", "clean", "flags", "samples")

    def __init__(self, at: float) -> None:
        self.at = at
        self.samples = 0
        self.clean = 0
        self.flags: dict[str, int] = {}


def middle(values: list[float | None]) -> float | None:
    """Median of the values that were reported; None when none was."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


class Seconds:
    """Collects the samples of the running second and closes it into a point."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._second: int | None = None
        self._ranks: dict[RankKey, RankSecond] = {}
        self._counts: deque[_SecondCount] = deque()
        self._marks: list[tuple[float, PointState]] = []
        self._figures: tuple[int, Window] | None = None

    def add(self, key: RankKey, sample: Sample) -> None:
        """Takes a sample; `close` must have been called for its time before."""
        second = int(sample.at)
        if self._second is None:
            self._second = second
            self._counts.append(_SecondCount(float(second)))
            self._forget(second - WINDOW_SECONDS)
        rank = self._ranks.get(key)
        if rank is None:
            rank = self._ranks[key] = RankSecond()
        if self._figures is not None and (second < self._figures[0] or not self._figures[1].samples):
            # What was there before us is read within a moment: figures without it would be those of an empty log.
            self._figures = None
        count = self._counts[-1]
        count.samples += 1
        if sample.clean:
            count.clean += 1
            rank.clean.append(sample)
        else:
            rank.contaminated.append(sample)
            for flag in sample.flags:
                count.flags[flag] = count.flags.get(flag, 0) + 1

    def _forget(self, before: float) -> None:
        while self._counts and self._counts[0].at < before:
            self._counts.popleft()

    def open_until(self, at: float) -> bool:
        """Whether a second is open that ends at or before this time."""
        return self._second is not None and int(at) != self._second

    def close(self, carried: dict[RankKey, Sample], queued: int | None, expect: Expect) -> None:
        """Turns the open second into a point.

        Args:
            carried: what each live, busy rank counts with when it said nothing in this second: its newest clean
                sample, or its newest one when none is clean, which makes the point contaminated.
            queued: requests that wait, summed over live ranks.
            expect: tells what the model holds of one sample per rank.
        """
        if self._second is None:
            return
        at = float(self._second)
        any_clean = any(rank.clean for rank in self._ranks.values())
        chosen = [[sample] for key, sample in carried.items() if key not in self._ranks]
        for key, rank in self._ranks.items():
            stands_in = [carried[key]] if any_clean and key in carried else rank.contaminated
            chosen.append(rank.clean or stands_in)
        self._ranks = {}
        self._second = None
        if chosen:
            contaminated = not all(sample.clean for samples in chosen for sample in samples)
            pools = [pooled(samples) for samples in chosen]
            self._ring.add_point(self._point(at, pools, contaminated, queued, expect(pools)))
        marks, self._marks = self._marks, []
        for when, state in marks:
            self.mark(when, state)

    def _point(
        self, at: float, pools: list[Sample], contaminated: bool, queued: int | None, expected: Expected | None
    ) -> Point:
        batches = [pool.batch for pool in pools]
        known_batch = [batch for batch in batches if batch is not None]
        totals = [pool.total_context_tokens for pool in pools]
        known_total = [total for total in totals if total is not None]
        batch = sum(known_batch) if known_batch else None
        total = sum(known_total) if known_total else None
        accept = [(pool.accept_length, pool.batch or 1) for pool in pools if pool.accept_length is not None]
        throughput = [pool.throughput for pool in pools if pool.throughput is not None]
        return Point(
            seq=self._ring.next_seq(),
            at=at,
            contaminated=contaminated,
            throughput=sum(throughput) if throughput else None,
            accept_length=sum(v * w for v, w in accept) / sum(w for _, w in accept) if accept else None,
            step_seconds=middle([pool.step_seconds for pool in pools]),
            batch=batch,
            queued=queued,
            context_tokens=total / batch if total is not None and batch else None,
            total_context_tokens=total,
            expected_throughput=expected.tokens_per_second if expected else None,
            expected_low=expected.low if expected else None,
            expected_high=expected.high if expected else None,
            expected_step_seconds=expected.step_seconds if expected else None,
        )

    def mark(self, at: float, state: PointState) -> None:
        """Marks where an idle stretch or a gap begins, once; inside the open second it stands behind that second."""
        if self._second is not None and at >= self._second:
            if not self._marks or self._marks[-1][1] != state:
                self._marks.append((at, state))
            return
        last = self._ring.last_point()
        if last is None or last.state == state:
            return
        self._ring.add_point(Point(seq=self._ring.next_seq(), at=max(at, last.at), state=state))

    def window(self, now: float) -> Window:
        """Figures of the last minutes; of what comes live, computed at most once per second of `now`."""
        second = int(now)
        if self._figures is not None and self._figures[0] == second:
            return self._figures[1]
        since = now - WINDOW_SECONDS
        self._forget(since)
        samples = sum(count.samples for count in self._counts)
        clean = sum(count.clean for count in self._counts)
        flags: dict[str, int] = {}
        for count in self._counts:
            for flag, times in count.flags.items():
                flags[flag] = flags.get(flag, 0) + times
        points = [p for p in self._ring.recent_points(since) if p.state == "data" and not p.contaminated]
        throughputs = [p.throughput for p in points if p.throughput is not None]
        window = Window(
            seconds=WINDOW_SECONDS,
            samples=samples,
            clean=clean,
            clean_ratio=clean / samples if samples else None,
            flag_counts=flags,
            throughput_median=median(throughputs) if throughputs else None,
            throughput_min=min(throughputs) if throughputs else None,
            accept_length_median=middle([p.accept_length for p in points]),
            step_seconds_median=middle([p.step_seconds for p in points]),
        )
        self._figures = (second, window)
        return window
