"""Judges finished requests one by one: what each got, and what the model holds for the seconds in which it ran."""

from collections import deque
from collections.abc import Sequence
from statistics import mean

from msgspec import Struct

from ddwatch.core.history import Ring
from ddwatch.core.records import RequestDone
from ddwatch.core.request_view import AcceptHistogram, FinishedRequest, RequestVerdict
from ddwatch.core.snapshot import Point

TWICE_SECONDS = 30.0
"""Two witnesses (the log and the request records) tell of one request within this time."""
HISTOGRAM_REQUESTS = 200
"""Requests that the distribution of accepted tokens is taken over."""
HISTOGRAM_DEPTH = 64
"""Deepest tree that is kept apart; deeper steps are counted with the last."""
LEAST_TOKENS = 16
LEAST_POINTS = 3
"""Clean seconds with an expectation without which a request is not judged."""
CLEAN_SHARE = 0.8
"""Share of its seconds, without the first and the last, that must be clean."""


class Judged(Struct, frozen=True, kw_only=True):
    """What the model holds for one request."""

    expected: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None
    verdict: RequestVerdict = "unjudged"
    reason: str | None = None


def accept_length(record: RequestDone) -> float | None:
    """Tokens per step of one request: from its exact distribution, else from its counts, else as the engine says."""
    drafts = record.accepted_drafts
    if drafts is not None and sum(drafts) > 0:
        return sum((number + 1) * steps for number, steps in enumerate(drafts)) / sum(drafts)
    if record.accept_length is not None:
        return record.accept_length
    if record.verify_steps and record.completion_tokens:
        return record.completion_tokens / record.verify_steps
    return None


def speed(record: RequestDone) -> tuple[float | None, bool]:
    """Tokens per second behind the first token, and whether queue and prefill had to be left inside."""
    if record.throughput_tokens_per_second:
        return record.throughput_tokens_per_second, False
    tokens, latency, first = record.completion_tokens, record.latency_seconds, record.first_token_seconds
    if not tokens or not latency:
        return None, False
    if first is not None and tokens > 1 and latency > first:
        return (tokens - 1) / (latency - first), False
    return tokens / latency, True


def judge(record: RequestDone, points: Sequence[Point]) -> Judged:
    """Compares a request with the model at the loads that it ran in.

    Expected tokens/s = accept length of the request / mean expected step time of the clean seconds between its first
    token and its end. The points carry that time for the batch and context of the whole rank group, so the neighbours
    of the request are part of the expectation.

    Args:
        record: the request.
        points: the timeline from its beginning on, oldest first.
    """
    measured, whole = speed(record)
    accept = accept_length(record)
    if measured is None or record.latency_seconds is None:
        return Judged(reason="its time is not told")
    if whole:
        return Judged(reason="with queue and prefill")
    if (record.completion_tokens or 0) < LEAST_TOKENS:
        return Judged(reason="too short")
    began = record.at - record.latency_seconds + (record.first_token_seconds or 0.0)
    if record.first_token_seconds is None and record.completion_tokens:
        began = record.at - (record.completion_tokens - 1) / measured
    ran = [point for point in points if began - 1.0 < point.at <= record.at]
    if any(point.state != "data" for point in ran[1:]):
        return Judged(reason="not seen throughout")
    inner = ran[1:-1]
    if inner and sum(not point.contaminated for point in inner) < CLEAN_SHARE * len(inner):
        return Judged(reason="others' prefills inside")
    clean = [point for point in ran if not point.contaminated]
    steps = [point.expected_step_seconds for point in clean if point.expected_step_seconds is not None]
    if clean and not steps:
        return Judged(reason="no model for this load")
    if len(steps) < LEAST_POINTS:
        return Judged(reason="too few clean seconds")
    if accept is None:
        if any(point.accept_length is not None and point.accept_length != 1.0 for point in clean):
            return Judged(reason="accept length not told")
        # An engine that never speaks of acceptance commits one token per step.
        accept = 1.0
    expected = accept / mean(steps)
    low, high = (_edge(clean, which, expected) for which in ("expected_low", "expected_high"))
    verdict: RequestVerdict = "as-expected"
    if low is not None and measured < low:
        verdict = "slow"
    elif high is not None and measured > high:
        verdict = "fast"
    elif low is None or high is None:
        return Judged(expected=expected, ratio=measured / expected, reason="no band for this load")
    return Judged(expected=expected, low=low, high=high, ratio=measured / expected, verdict=verdict)


def _edge(points: Sequence[Point], edge: str, expected: float) -> float | None:
    """The band's edge as a multiple of the expectation, mean over the points."""
    shares = [
        value / point.expected_throughput
        for point in points
        if (value := getattr(point, edge)) is not None and point.expected_throughput
    ]
    return expected * mean(shares) if shares else None


class RequestBook:
    """The finished requests of one watch: each is told once, whoever tells of it."""

    def __init__(self, ring: Ring) -> None:
        """Begins without requests; what is judged goes into the ring."""
        self._ring = ring
        self._latest: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=HISTOGRAM_REQUESTS)
        self._drafts: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=HISTOGRAM_REQUESTS)
        self._histogram: AcceptHistogram | None = None

    def see(self, record: RequestDone) -> FinishedRequest | None:
        """Takes a finished request; returns it judged, or None when it was told before."""
        told = (record.prompt_tokens, record.completion_tokens, record.latency_seconds)
        if record.latency_seconds is not None:
            if any(same == told and abs(record.at - at) <= TWICE_SECONDS for at, same in self._latest):
                return None
            self._latest.append((record.at, told))
        points = self._ring.recent_points(record.at - (record.latency_seconds or 0.0) - 1.0)
        judged = judge(record, points)
        measured, whole = speed(record)
        done = FinishedRequest(
            seq=self._ring.next_seq(),
            at=record.at,
            engine=record.rank.engine,
            dp_rank=record.rank.dp,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
            cached_tokens=record.cached_tokens,
            latency_seconds=record.latency_seconds,
            first_token_seconds=record.first_token_seconds,
            queue_seconds=record.queue_seconds,
            throughput=measured,
            whole=whole,
            accept_length=accept_length(record),
            retractions=record.retractions,
            finish_reason=record.finish_reason,
            expected=judged.expected,
            expected_low=judged.low,
            expected_high=judged.high,
            ratio=judged.ratio,
            verdict=judged.verdict,
            reason=judged.reason,
        )
        self._ring.add_request(done)
        if record.accepted_drafts and sum(record.accepted_drafts) > 0:
            self._drafts.append((record.at, record.accepted_drafts))
            self._histogram = self._summed()
        return done

    def histogram(self) -> AcceptHistogram | None:
        """Tokens per step over the newest requests; None where no request told of it."""
        return self._histogram

    def _summed(self) -> AcceptHistogram:
        depth = min(HISTOGRAM_DEPTH, max(len(drafts) for _, drafts in self._drafts))
        steps = [0] * depth
        for _, drafts in self._drafts:
            for number, count in enumerate(drafts):
                steps[min(number, depth - 1)] += count
        return AcceptHistogram(steps=tuple(steps), requests=len(self._drafts), since=min(at for at, _ in self._drafts))
