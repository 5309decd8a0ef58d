"""What the engine's own mouths say now, as it is shown beside the readings that are judged."""

from msgspec import Struct


class EngineView(Struct, frozen=True, kw_only=True):
    """SGLang's /metrics, over all DP ranks; shown and compared, never judged."""

    at: float
    """When the page was read."""
    ranks: int
    running: int | None = None
    queued: int | None = None
    total_context_tokens: int | None = None
    """Summed per request, so shared prefixes count each time; None while nothing runs."""
    decode_tokens_per_second: float | None = None
    """From the counter, over up to a minute."""
    error: float | None = None
    """Relative error of that rate."""
    graph_ratio: float | None = None
    """Share of the newest decode passes that ran a captured graph."""


class ForwardView(Struct, frozen=True, kw_only=True):
    """Forward passes (FPM) of the last seconds, over all DP ranks; their span is `forward`, the GPU's time alone."""

    at: float
    """When the newest pass or heartbeat came."""
    ranks: int
    resting: bool = False
    """Whether every rank has said for a while that it has nothing to do."""
    forward_seconds: float | None = None
    """GPU time of a decode pass, the mean of the seconds of `step_seconds` where that is told, else of the last."""
    step_seconds: float | None = None
    """The newest time of a step (span `step`) by log or moments."""
    wait_seconds: float | None = None
    """How long the GPU waits in each step: step less forward pass."""
    passes_per_second: float | None = None
    prefill_ratio: float | None = None
    """Share of the GPU time of the last half minute that went into passes with a prefill."""
    batch: int | None = None
    total_context_tokens: int | None = None
    """Summed per request, so shared prefixes count each time."""
    queued: int | None = None
    lost: int = 0
    """Passes that were published and did not arrive, since the watch began."""
