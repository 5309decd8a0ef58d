"""Judges finished requests one by one: what each got, and what the model holds for the seconds in which it ran."""

from collections import deque
from collections.abc import Sequence
from statistics import mean

from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.engine import ForwardPass
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
MARKS_KEPT = 4096
"""Prefills, and seconds in which the model may not accuse, that are remembered."""
OWN_PREFILL_SECONDS = 0.5
"""So long behind the first token the line of the request's own prefill may still arrive."""


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


class Ground:
    """What else held while requests ran: prefills, and whether the model may accuse; bounded."""

    def __init__(self) -> None:
        self.told = False
        """Whether anybody tells of prefills at all."""
        self.prefills: deque[float] = deque(maxlen=MARKS_KEPT)
        self.doubts: deque[tuple[float, str]] = deque(maxlen=MARKS_KEPT)

    def excuse(self, record: RequestDone, began: float, *, unclean: bool) -> str | None:
        """What took time that no step took, if something may have; the steps themselves are judged apart."""
        if record.retractions:
            return "retracted on its way"
        if any(began + OWN_PREFILL_SECONDS < at <= record.at for at in self.prefills):
            return "others' prefills inside"
        if unclean:
            return "unclean seconds inside"
        return None if self.told else "nobody tells of prefills"

    def doubt(self, record: RequestDone, began: float) -> str | None:
        """Why the model may not accuse of what it says about these seconds, if so."""
        return next((why for at, why in reversed(self.doubts) if began - 1.0 < at <= record.at), None)


def judge(record: RequestDone, points: Sequence[Point], ground: Ground) -> Judged:
    """Compares a request with the model at the loads that it ran in.

    Expected tokens/s = accept length of the request x steps per second that the model holds, mean over the clean
    seconds between its first token and its end. The points carry the step time for the batch and context of the whole
    rank group, so the neighbours of the request are part of the expectation; time in which nobody stepped is not.

    Args:
        record: the request.
        points: the timeline from its beginning on, oldest first.
        ground: what else held then.
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
    ran = _since_pause([point for point in points if began - 1.0 < point.at <= record.at], began)
    if any(point.state != "data" for point in ran):
        return Judged(reason="not seen throughout")
    inner = ran[1:-1]
    unclean = sum(point.contaminated for point in inner)
    excuse = ground.excuse(record, began, unclean=unclean > 0)
    if unclean > (1.0 - CLEAN_SHARE) * len(inner):
        return Judged(reason="too few clean seconds" if excuse == "unclean seconds inside" else excuse)
    clean = [point for point in _within(ran) if not point.contaminated]
    timed = [point for point in clean if point.expected_step_seconds]
    if clean and not timed:
        return Judged(reason="no model for this load")
    if len(timed) < LEAST_POINTS:
        return Judged(reason="too few clean seconds")
    if accept is None:
        if any(point.accept_length is not None and point.accept_length != 1.0 for point in clean):
            return Judged(reason="accept length not told")
        # An engine that never speaks of acceptance commits one token per step.
        accept = 1.0
    expected = accept * mean(1.0 / point.expected_step_seconds for point in timed if point.expected_step_seconds)
    low, high = (_edge(clean, which) for which in ("expected_low", "expected_high"))
    found = Judged(expected=expected, ratio=measured / expected)
    if low is None or high is None:
        return replace(found, reason="no band for this load")
    found = replace(found, low=expected * low, high=expected * high)
    if low * expected <= measured <= high * expected:
        return replace(found, verdict="as-expected")
    if (doubt := ground.doubt(record, began)) is not None:
        return replace(found, reason=doubt)
    if measured > high * expected:
        return replace(found, verdict="fast")
    if excuse is not None and not _slow_steps(timed, low):
        return replace(found, reason=excuse)
    return replace(found, verdict="slow")


def _since_pause(ran: Sequence[Point], began: float) -> Sequence[Point]:
    """The points behind the last pause or gap that was there when the request began.

    Nothing pauses while a request runs, so a pause that begins within its first second began before it.
    """
    before = [
        place
        for place, point in enumerate(ran)
        if point.state != "data" and point.at <= began + (1.0 if point.state == "idle" else 0.0)
    ]
    return ran[before[-1] + 1 :] if before else ran


def _within(ran: Sequence[Point]) -> Sequence[Point]:
    """The seconds without a first and a last one of another batch: those were mostly before or after the request."""
    begin = 1 if len(ran) > 1 and ran[0].batch != ran[1].batch else 0
    end = len(ran) - 1 if len(ran) > 1 and ran[-1].batch != ran[-2].batch else len(ran)
    return ran[begin:end]


def _slow_steps(points: Sequence[Point], low: float) -> bool:
    """Whether the steps of clean seconds were slow themselves, so that no other work explains it."""
    shares = [p.expected_step_seconds / p.step_seconds for p in points if p.expected_step_seconds and p.step_seconds]
    return bool(shares) and mean(shares) < low


def _edge(points: Sequence[Point], edge: str) -> float | None:
    """The band's edge as a multiple of the expectation, mean over the points."""
    shares = [
        value / point.expected_throughput
        for point in points
        if (value := getattr(point, edge)) is not None and point.expected_throughput
    ]
    return mean(shares) if shares else None


class RequestBook:
    """The finished requests of one watch: each is told once, whoever tells of it."""

    def __init__(self, ring: Ring) -> None:
        """Begins without requests; what is judged goes into the ring."""
        self._ring = ring
        self._latest: deque[tuple[float, tuple[object, ...]]] = deque(maxlen=HISTOGRAM_REQUESTS)
        self._drafts: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=HISTOGRAM_REQUESTS)
        self._histogram: AcceptHistogram | None = None
        self._ground = Ground()

    def prefills_told(self) -> None:
        """Somebody tells of prefills: where none is told of, none was."""
        self._ground.told = True

    def prefilled(self, at: float) -> None:
        """A prefill ran, and nobody decoded meanwhile."""
        self._ground.told = True
        self._ground.prefills.append(at)

    def passed(self, record: ForwardPass) -> None:
        """A forward pass tells by itself whether it prefilled."""
        self.prefills_told()
        if record.prefill_requests:
            self.prefilled(record.at)

    def doubt(self, at: float, why: str) -> None:
        """What the model says of this second is a guess."""
        self._ground.doubts.append((at, why))

    def see(self, record: RequestDone) -> FinishedRequest | None:
        """Takes a finished request; returns it judged, or None when it was told before."""
        told = (record.prompt_tokens, record.completion_tokens, record.latency_seconds)
        if record.latency_seconds is not None:
            if any(same == told and abs(record.at - at) <= TWICE_SECONDS for at, same in self._latest):
                return None
            self._latest.append((record.at, told))
        points = self._ring.recent_points(record.at - (record.latency_seconds or 0.0) - 1.0)
        judged = judge(record, points, self._ground)
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
