"""What a rule may look at: the present reading and the recent past, read-only."""

from msgspec import Struct

from ddwatch.core.causes import Facts
from ddwatch.core.detection.suspicion import Suspicion
from ddwatch.core.expecting import Judged
from ddwatch.core.snapshot import Now, ServerView, SourceView, Window


class Situation(Struct, frozen=True, kw_only=True):
    """Everything that verdicts are reached from, at one instant."""

    at: float
    started_at: float
    """When this watch began."""
    server: ServerView
    now: Now
    window: Window
    sources: tuple[SourceView, ...]
    warming: bool
    """Whether the rate has not settled since the start or the last compilation."""
    traffic_at: float | None
    """Time of the newest batch line (decode or prefill)."""
    decode_at: float | None
    """Time of the newest decode line."""
    nothing_runs_since: float | None
    """Since when the log itself has said that nothing runs; None while something does or it did not say."""
    cadence: float | None
    """Usual seconds between decode lines of one rank."""
    running: int | None
    """Running requests by the newest batch lines, summed over live ranks."""
    recent_heads: int
    """Batch lines in the last minute, read or not."""
    recent_unread: int
    """Those of them that could not be read."""
    lines: int
    """Physical lines read from all sources since the watch began."""
    crash_reason: str | None
    judged: Judged
    """The reading beside what the model holds of it."""
    clean_ratio_at: float | None
    """Time of the newest clean reading that could be compared with the model."""
    suspicions: tuple[Suspicion, ...] = ()
    """What the detectors hold, one per name."""
    facts: Facts
    """What is known beside the steps, for the causes."""
    judgeable: bool
    """Whether the load lies within the evidence, with hysteresis at its edge."""
