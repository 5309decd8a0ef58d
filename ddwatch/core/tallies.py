"""Counts since the watch began, per rank and source: what the Prometheus page is made of."""

from bisect import bisect_left

from msgspec import Struct

from ddwatch.core.snapshot import Provenance, Sample, Span

ACCEPT_BOUNDS: tuple[float, ...] = tuple(1 + 0.5 * step for step in range(33))
"""Upper bounds of the accept-length histogram, tokens: 1 to 17 by 0.5 (DESIGN.md section 7)."""


def _geometric(first: float, last: float, factor: float) -> tuple[float, ...]:
    bounds = [first]
    while bounds[-1] * factor < last:
        bounds.append(float(f"{bounds[-1] * factor:.4g}"))
    return (*bounds, last)


LATENCY_BOUNDS: tuple[float, ...] = _geometric(0.001, 2.0, 1.25)
"""Upper bounds of the step-time histogram, seconds: 1 ms to 2 s by 1.25."""


class SeriesKey(Struct, frozen=True, kw_only=True):
    """The bounded label set of a histogram series."""

    dp_rank: int | None
    span: Span
    provenance: Provenance
    resolution: str
    """`step` when one observation is one step, `window` when it is the mean of a window of steps."""


class Histogram(Struct, frozen=True):
    """A histogram of clean samples: `counts[i]` fell at or below bound i, the last one above all bounds."""

    counts: tuple[int, ...]
    total: float
    """Sum of the observed values."""


class Tallies(Struct, frozen=True, kw_only=True):
    """All cumulative counts; a key that is missing was never reported, which is not zero."""

    accept_length: dict[SeriesKey, Histogram] = {}
    step_seconds: dict[SeriesKey, Histogram] = {}
    steps: dict[int | None, int] = {}
    """Per DP rank, only where steps are counted (known log interval)."""
    tokens: dict[int | None, float] = {}
    """Per DP rank, generated tokens, only where they are counted."""
    lines_read: dict[str, int] = {}
    """Per source."""
    lines_unread: dict[str, int] = {}
    rotations: dict[str, int] = {}
    gaps: dict[str, int] = {}
    restarts: int = 0
    alerts: dict[str, int] = {}
    """Incidents that began, by verdict."""


class HistogramCount:
    """A histogram that is being filled."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Counts one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def frozen(self) -> Histogram:
        """What has been counted so far."""
        return Histogram(tuple(self._counts), self._total)


class Count:
    """Tallies that are being counted."""

    def __init__(self) -> None:
        self._accept: dict[SeriesKey, HistogramCount] = {}
        self._step: dict[SeriesKey, HistogramCount] = {}
        self._steps: dict[int | None, int] = {}
        self._tokens: dict[int | None, float] = {}
        self._counted_by_moments: set[int | None] = set()
        self._counted_by_passes: set[int | None] = set()
        self.lines_read: dict[str, int] = {}
        self.lines_unread: dict[str, int] = {}
        self.rotations: dict[str, int] = {}
        self.gaps: dict[str, int] = {}
        self.alerts: dict[str, int] = {}

    def sample(self, sample: Sample, steps: int | None) -> None:
        """Counts one sample; `steps` is the number of steps it stands for, None when unknown.

        Steps are counted once: where a rank's moments count them, its forward passes and log lines no longer do, and
        where its passes count them, its lines do not. Tokens are counted by moments, and by lines that are one step
        each, since the batch within a longer window is not known. Histograms take clean samples only.
        """
        rank = sample.dp_rank
        by_moments, by_passes = sample.provenance == "moments", sample.provenance == "fpm"
        # The first difference of moments covers steps that lines or passes have told already.
        told = by_moments and rank not in self._counted_by_moments and rank in self._steps
        if by_moments:
            self._counted_by_moments.add(rank)
        elif by_passes:
            self._counted_by_passes.add(rank)
        if steps is not None and not told and (by_moments or rank not in self._counted_by_moments):
            if by_moments or by_passes or rank not in self._counted_by_passes:
                self._steps[rank] = self._steps.get(rank, 0) + steps
            tokens = None if by_passes else self._tokens_of(sample, steps)
            if tokens is not None:
                self._tokens[rank] = self._tokens.get(rank, 0.0) + tokens
        if not sample.clean:
            return
        key = SeriesKey(
            dp_rank=rank,
            span=sample.span,
            provenance=sample.provenance,
            resolution="step" if steps == 1 else "window",
        )
        if sample.accept_length is not None:
            self._accept.setdefault(key, HistogramCount(ACCEPT_BOUNDS)).observe(sample.accept_length)
        if sample.step_seconds is not None:
            self._step.setdefault(key, HistogramCount(LATENCY_BOUNDS)).observe(sample.step_seconds)

    @staticmethod
    def _tokens_of(sample: Sample, steps: int) -> float | None:
        if sample.provenance == "moments":
            if sample.throughput is None or sample.step_seconds is None:
                return None
            return sample.throughput * sample.step_seconds * steps
        if steps != 1 or sample.batch is None:
            return None
        return sample.batch * (1.0 if sample.accept_length is None else sample.accept_length)

    def frozen(self, restarts: int) -> Tallies:
        """All counts so far."""
        return Tallies(
            accept_length={key: count.frozen() for key, count in self._accept.items()},
            step_seconds={key: count.frozen() for key, count in self._step.items()},
            steps=dict(self._steps),
            tokens=dict(self._tokens),
            lines_read=dict(self.lines_read),
            lines_unread=dict(self.lines_unread),
            rotations=dict(self.rotations),
            gaps=dict(self.gaps),
            restarts=restarts,
            alerts=dict(self.alerts),
        )
