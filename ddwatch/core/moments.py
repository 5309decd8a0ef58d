"""Whole-step samples from SGLang's cumulative decode moments: the better witness than one log line.

The scheduler adds up steps, batch, step time and tokens over contiguous decode steps only, so two readings give
the mean step time, mean batch, decode-only throughput and accept length of the steps between them, free of idle time
and prefill (`/v1/loads?include=all`, SGLang 0.5.18 and later; refreshed every 15 decode iterations).
"""

import math

from ddwatch.core.records import Loads, RankLoad
from ddwatch.core.snapshot import Flag, Sample

FEWEST_STEPS = 8
"""Fewer steps between two readings are left to add up until the next one."""
LONGEST_SECONDS = 60.0
"""Readings further apart than this mean over too much change of context."""
BATCH_SPREAD = 0.25
"""Standard deviation of the batch over its mean, above which the interval mixes batches."""


class _Reading:
    """The last used reading of one rank."""

    __slots__ = ("at", "load")

    def __init__(self, at: float, load: RankLoad) -> None:
        self.at = at
        self.load = load


def _context(load: RankLoad) -> float | None:
    """Tokens per running request; None when nothing runs or the pool says nothing."""
    if not load.running or not load.used_tokens:
        return None
    return load.used_tokens / load.running


def _mean(first: float | None, second: float | None) -> float | None:
    known = [value for value in (first, second) if value is not None]
    return sum(known) / len(known) if known else None


class Moments:
    """Differences the moments of each rank."""

    def __init__(self) -> None:
        self._readings: dict[int | None, _Reading] = {}

    def clear(self) -> None:
        """Forgets all readings: the server started anew."""
        self._readings.clear()

    def see(self, loads: Loads, *, warming: bool) -> tuple[list[Sample], bool]:
        """Samples of the ranks that stepped enough since their last used reading, and whether a restart shows.

        Args:
            loads: the newest reading.
            warming: whether the rate has not settled; such samples are flagged.
        """
        samples: list[Sample] = []
        restarted = False
        for load in loads.ranks:
            if load.moments is None:
                continue
            dp = None if len(loads.ranks) == 1 and load.dp_rank in (0, None) else load.dp_rank
            before = self._readings.get(dp)
            if before is None or before.load.moments is None:
                self._readings[dp] = _Reading(loads.at, load)
                continue
            if load.moments[0] < before.load.moments[0]:
                restarted = True
                self._readings[dp] = _Reading(loads.at, load)
                continue
            if load.moments[0] - before.load.moments[0] < FEWEST_STEPS:
                if loads.at - before.at > LONGEST_SECONDS:
                    self._readings[dp] = _Reading(loads.at, load)
                continue
            sample = self._sample(loads.at, dp, before, load, warming)
            self._readings[dp] = _Reading(loads.at, load)
            if sample is not None:
                samples.append(sample)
        return samples, restarted

    @staticmethod
    def _sample(at: float, dp: int | None, before: _Reading, load: RankLoad, warming: bool) -> Sample | None:
        old, new = before.load.moments, load.moments
        if old is None or new is None:
            return None
        steps, batches, micros, squares, _, tokens = (b - a for a, b in zip(old, new, strict=True))
        if steps <= 0 or batches <= 0 or micros <= 0 or tokens < 0 or not math.isfinite(micros):
            return None
        batch = batches / steps
        spread = math.sqrt(max(squares / steps - batch * batch, 0.0))
        context = _mean(_context(before.load), _context(load))
        flags: list[Flag] = []
        if spread > BATCH_SPREAD * batch:
            flags.append("batch-changed")
        if at - before.at > LONGEST_SECONDS:
            flags.append("gap")
        if warming:
            flags.append("warming")
        return Sample(
            at=at,
            dp_rank=dp,
            batch=round(batch),
            mean_batch=batch,
            total_context_tokens=None if context is None else round(context * batch),
            context_tokens=context,
            accept_length=tokens / batches,
            throughput=tokens / (micros / 1e6),
            step_seconds=micros / steps / 1e6,
            provenance="moments",
            flags=tuple(flags),
            steps=round(steps),
        )
