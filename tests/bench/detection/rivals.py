"""The usual rules that ddwatch's detector is compared with, each fed with the same samples."""

import importlib
from collections import deque
from collections.abc import Callable, Sequence
from math import log
from statistics import fmean, median, pstdev
from typing import Any, Protocol

from ddwatch.core.snapshot import Sample

DROP = 0.7
"""Rules on throughput fire below this share of what is usual."""


OVER_SECONDS = 300.0
"""A static rule's incident is over after this long above the limit."""


class Rival(Protocol):
    """Fires at a sample, or does not; one incident is told once."""

    def see(self, sample: Sample) -> bool:
        """Takes the next sample; True at the moment it fires."""
        ...


class StaticThreshold:
    """tokens/s below 70 % of the usual, three lines running; over after five minutes without."""

    def __init__(self, healthy: Sequence[Sample]) -> None:
        self._limit = DROP * median(sample.throughput or 0.0 for sample in healthy)
        self._below = 0
        self._last: float | None = None

    def see(self, sample: Sample) -> bool:
        """Takes the next sample; True at the moment it fires."""
        self._below = self._below + 1 if (sample.throughput or 0.0) < self._limit else 0
        if self._below < 3:
            return False
        fired = self._last is None or sample.at - self._last > OVER_SECONDS
        self._last = sample.at
        return fired


class PrometheusAverage:
    """avg_over_time(throughput[5m]) below 70 % of the usual for a minute, scraped every 15 s."""

    def __init__(self, healthy: Sequence[Sample]) -> None:
        self._limit = DROP * fmean(sample.throughput or 0.0 for sample in healthy)
        self._scrapes: deque[tuple[float, float]] = deque()
        self._below_since: float | None = None
        self._firing = False

    def see(self, sample: Sample) -> bool:
        """Takes the next sample; True at the moment it fires."""
        at = sample.at
        if self._scrapes and at - self._scrapes[-1][0] < 15.0:
            return False
        self._scrapes.append((at, sample.throughput or 0.0))
        while at - self._scrapes[0][0] > 300.0:
            self._scrapes.popleft()
        if fmean(value for _, value in self._scrapes) >= self._limit:
            self._below_since, self._firing = None, False
            return False
        self._below_since = at if self._below_since is None else self._below_since
        fired = at - self._below_since >= 60.0 and not self._firing
        self._firing = self._firing or fired
        return fired


class Drift:
    """A drift detector of river on ln(step time) of clean lines, which has no model of context and batch."""

    def __init__(self, healthy: Sequence[Sample], make: Callable[[], Any]) -> None:
        steps = [log(sample.step_seconds) for sample in healthy if sample.clean and sample.step_seconds]
        self._mean, self._spread = fmean(steps), pstdev(steps)
        self._make = make
        self._detector = make()
        self._lately: deque[float] = deque(maxlen=20)
        self._usual: deque[float] = deque(maxlen=200)

    def see(self, sample: Sample) -> bool:
        """Takes the next sample; True at the moment it fires upwards."""
        if not sample.clean or not sample.step_seconds:
            return False
        value = (log(sample.step_seconds) - self._mean) / self._spread
        self._lately.append(value)
        self._usual.append(value)
        self._detector.update(value)
        if not self._detector.drift_detected:
            return False
        self._detector = self._make()
        return fmean(self._lately) > fmean(self._usual)


def rivals(healthy: Sequence[Sample]) -> dict[str, Rival]:
    """Fresh rivals, tuned on a healthy stretch; those of river only where river is installed."""
    found: dict[str, Rival] = {
        "static threshold": StaticThreshold(healthy),
        "avg_over_time": PrometheusAverage(healthy),
    }
    try:
        drift = importlib.import_module("river.drift")
    except ImportError:
        return found
    found["river ADWIN"] = Drift(healthy, drift.ADWIN)
    found["river Page-Hinkley"] = Drift(healthy, lambda: drift.PageHinkley(mode="up"))
    return found
