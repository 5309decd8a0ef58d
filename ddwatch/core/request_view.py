"""What is shown of finished requests: their numbers beside what the model holds, and what the drafter got right."""

from typing import Literal

from msgspec import Struct

RequestVerdict = Literal["as-expected", "slow", "fast", "unjudged"]


class FinishedRequest(Struct, frozen=True, kw_only=True):
    """One request that is over; its text is known to nobody here."""

    seq: int
    """Place in the history, one rising number over points, events and requests."""
    at: float
    """When it was over, seconds since the epoch."""
    engine: str | None = None
    dp_rank: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """Tokens of the prompt that came from the prefix cache."""
    latency_seconds: float | None = None
    """From its arrival to its end."""
    first_token_seconds: float | None = None
    queue_seconds: float | None = None
    throughput: float | None = None
    """Tokens per second that the requester saw; see `whole`."""
    whole: bool = False
    """Whether queue and prefill are inside `throughput`, because nobody told when the first token came."""
    accept_length: float | None = None
    """Tokens per step, bonus token included."""
    retractions: int | None = None
    finish_reason: str | None = None
    expected: float | None = None
    """Tokens per second that the model holds at the loads it ran in and with its own accept length."""
    expected_low: float | None = None
    expected_high: float | None = None
    ratio: float | None = None
    verdict: RequestVerdict = "unjudged"
    reason: str | None = None
    """Why it is unjudged."""


class AcceptHistogram(Struct, frozen=True, kw_only=True):
    """Tokens committed per step over the newest finished requests, exact: each verify step is counted once."""

    steps: tuple[int, ...]
    """How many steps committed 1, 2, 3 … tokens, the bonus token included."""
    requests: int
    since: float
    """When the oldest of these requests was over."""
