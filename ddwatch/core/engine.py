"""What the engine says of itself beside its log: one reading of its /metrics page, and one forward pass (FPM).

`None` is "not reported". Counters are as the page has them, cumulative since the engine's start; what they come to per
second is worked out elsewhere.
"""

from msgspec import Struct

RANKS_AT_MOST = 256
"""DP ranks of one engine that are kept."""


class RankMetrics(Struct, frozen=True, kw_only=True):
    """One DP rank of SGLang's /metrics page, told by its first TP rank."""

    dp_rank: int | None = None
    """None where the page names none."""
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    """Share of the KV pool in use, 0 to 1."""
    total_context_tokens: int | None = None
    """Summed per request (`decode_sum_seq_lens`), so shared prefixes count each time; it stands still at rest."""
    accept_length: float | None = None
    """Of the last log interval; it stands still at rest."""
    decode_tokens: float | None = None
    """Counter: tokens generated, raised once per log interval."""
    prefill_tokens: float | None = None
    """Counter: prompt tokens computed."""
    graph_passes: float | None = None
    """Counter: decode passes that ran a captured graph."""
    plain_passes: float | None = None
    """Counter: decode passes that ran none."""
    retracted: float | None = None
    """Counter: requests sent back to the queue."""


class EngineMetrics(Struct, frozen=True, kw_only=True):
    """One reading of SGLang's /metrics page."""

    at: float
    ranks: tuple[RankMetrics, ...]
    source: str = "metrics"


class ForwardPass(Struct, frozen=True, kw_only=True):
    """One forward pass of one rank, as it was published over ZMQ; a heartbeat is one that did nothing."""

    at: float
    """When it arrived, less what was published after it."""
    dp_rank: int
    counter: int
    """Number of the message, counted from 0 by each engine process: a missing one was lost."""
    seconds: float
    """GPU time of the pass, from its first kernel to its last; 0 in a heartbeat."""
    prefill_requests: int = 0
    prefill_tokens: int = 0
    decode_requests: int = 0
    decode_context_tokens: int = 0
    """Context summed over the decoding requests."""
    queued: int | None = None
    """Requests that wait."""
    source: str = "fpm"

    @property
    def heartbeat(self) -> bool:
        """Whether it only says that the engine lives."""
        return self.seconds == 0.0 and not self.prefill_requests and not self.decode_requests
