"""Frames with finished requests for looking at their page: judged and unjudged ones, with and without speculation."""

import random
from datetime import timezone

from msgspec.structs import replace

from ddwatch.core.request_view import AcceptHistogram, FinishedRequest
from ddwatch.core.snapshot import Frame
from tests.tui import model_frames
from tests.tui.frames import NOON

UTC = timezone.utc
REASONS = ("too short", "with queue and prefill", "others' prefills inside")


def request(number: int, *, rng: random.Random, slow: bool = False) -> FinishedRequest:
    """One request; every fifth is unjudged."""
    accept = rng.uniform(1.6, 6.9)
    step = rng.uniform(0.05, 0.13)
    expected = accept / step
    measured = expected * (0.66 if slow else rng.uniform(0.93, 1.06))
    output = rng.randint(20, 5200)
    first = rng.uniform(0.2, 3.0)
    done = FinishedRequest(
        seq=30_000 + number,
        at=NOON - 600 + number * 9.7,
        prompt_tokens=rng.randint(30, 18_000),
        completion_tokens=output,
        cached_tokens=rng.choice((0, 128, 4096)),
        latency_seconds=first + output / measured,
        first_token_seconds=first,
        queue_seconds=first * 0.1,
        throughput=measured,
        accept_length=accept,
        finish_reason="stop",
        expected=expected,
        expected_low=expected * 0.86,
        expected_high=expected * 1.14,
        ratio=measured / expected,
        verdict="slow" if slow else "as-expected",
    )
    if number % 5 == 3:
        reason = REASONS[number // 5 % len(REASONS)]
        done = replace(
            done,
            verdict="unjudged",
            reason=reason,
            expected=None,
            expected_low=None,
            expected_high=None,
            ratio=None,
            whole=reason.startswith("queue"),
            first_token_seconds=None if reason.startswith("queue") else first,
        )
    return done


def finished(count: int = 60, *, depth: int = 9, seed: int = 3) -> Frame:
    """A service that finished some requests, the newest of them slow."""
    rng = random.Random(seed)
    frame = model_frames.founding_end()
    requests = tuple(request(number, rng=rng, slow=number == count - 1) for number in range(count))
    steps = tuple(max(1, int(4000 * 0.7**place)) if place else 5200 for place in range(depth))
    return replace(
        frame,
        snapshot=replace(frame.snapshot, accepted=AcceptHistogram(steps=steps, requests=count, since=NOON - 600)),
        history=replace(frame.history, requests=requests),
    )


def without_speculation() -> Frame:
    """Requests of an engine that tells of no acceptance."""
    frame = finished(6)
    bare = tuple(replace(request, accept_length=None) for request in frame.history.requests)
    return replace(
        frame, snapshot=replace(frame.snapshot, accepted=None), history=replace(frame.history, requests=bare)
    )
