"""Counts since the watch began, per rank and source: what the Prometheus page is made of."""

from msgspec import Struct

from ddwatch.core.snapshot import Provenance, Span

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
