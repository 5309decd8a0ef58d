"""Records in shorthand, for tests that tell stories of a few lines."""

from ddwatch.core.records import (
    ContextFlaw,
    DecodeBatch,
    PrefillBatch,
    Rank,
    ServerStart,
)

STEP = 0.030
"""Seconds per step of the shorthand service."""


def decode(
    at: float,
    *,
    running: int | None = 1,
    tokens: int | None = 1000,
    accept: float | None = 3.0,
    step: float = STEP,
    throughput: float | None = None,
    dp: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    engine: str | None = None,
    flaw: ContextFlaw | None = None,
    queued: int | None = 0,
    iteration: int | None = None,
    spec_tokens: int | None = None,
    spec_rounds: int | None = None,
    line: int | None = None,
) -> DecodeBatch:
    """A decode line whose throughput follows from the step time unless it is given."""
    if throughput is None and running is not None:
        throughput = running * (1.0 if accept is None else accept) / step
    return DecodeBatch(
        at=at,
        rank=Rank(engine=engine, dp=dp, tp=tp, pp=pp),
        running=running,
        total_context_tokens=tokens,
        context_flaw=flaw,
        accept_length=accept,
        throughput_tokens_per_second=throughput,
        queued=queued,
        iteration=iteration,
        spec_tokens=spec_tokens,
        spec_rounds=spec_rounds,
        line=line,
    )


def last_of_request(at: float, *, dp: int | None = None) -> DecodeBatch:
    """The line that SGLang prints when the only request has just ended."""
    return decode(at, tokens=0, flaw="request-end", dp=dp)


def prefill(
    at: float, *, running: int | None = 0, tokens: int = 500, dp: int | None = None, new: int = 1, queued: int = 0
) -> PrefillBatch:
    """A prefill line."""
    return PrefillBatch(
        at=at,
        rank=Rank(dp=dp),
        new_requests=new,
        new_tokens=tokens,
        cached_tokens=0,
        running=running,
        queued=queued,
    )


def start(at: float, **arguments: str | int | float | bool | None) -> ServerStart:
    """A server that announces these arguments."""
    return ServerStart(at=at, arguments=arguments)
