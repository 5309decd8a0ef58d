"""Whether a server is warm, decodes as fast as its profile says at two contexts, and commits as many tokens."""

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from statistics import median
from typing import NamedTuple

from ddwatch.core.expectation.accept import OVERALL
from ddwatch.core.expectation.measured import Measured
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import milliseconds, rate, short
from ddwatch.probes.findings import Finding
from ddwatch.probes.isolation import Isolation

CONTEXTS = (256, 2048)
WARM_TOKENS = 48
WARM_PROMPT = 64
AGREEING = 3
"""Probes in a row whose times agree: the rate is stable."""
AGREEMENT = 0.12
"""By how much of their median they may differ."""
UNCOUNTED_AGREEMENT = 0.35
"""The same for times per token."""
MOST_PROBES = 10
ONE_STEP = 0.05
"""Usual relative scatter of a single step, memory from step to step included."""
LOWEST_ACCEPT = 1.3
AFTER_IDLE = 1.10
"""Slower than before by more than this after idling is a fault."""


class Warmth(NamedTuple):
    """What repeating a short request has shown."""

    stable: bool
    times: tuple[float, ...]
    """Seconds per step, prefill included, one per request."""
    rate: float
    """Tokens per second of the last request."""


def settle(isolation: Isolation) -> Warmth:
    """Repeats a short request until its time per step is stable."""
    times: list[float] = []
    rate = 0.0
    for _ in range(MOST_PROBES):
        answer = isolation.ask("code", WARM_PROMPT, WARM_TOKENS)
        # Where steps are not counted, tokens are: their time varies with the text.
        counted = not isolation.speculative or answer.steps is not None
        times.append(answer.seconds / max(isolation.steps(answer) if counted else answer.completion_tokens, 1))
        rate = answer.completion_tokens / answer.seconds
        last = times[-AGREEING:]
        tolerance = AGREEMENT if counted else UNCOUNTED_AGREEMENT
        if len(last) == AGREEING and max(last) - min(last) <= 2 * tolerance * median(last):
            return Warmth(True, tuple(times), rate)
    return Warmth(False, tuple(times), rate)


def judge_warmth(warmth: Warmth) -> Finding:
    """Whether the warm-up is over."""
    times = warmth.times
    measured = f"{milliseconds(times[-1])} ms/step"
    if warmth.stable:
        first = f", the first took {milliseconds(times[0])}" if times[0] > 1.5 * times[-1] else ""
        return Finding(
            name="warm-up",
            status="pass",
            measured=measured,
            detail=f"stable over {AGREEING} of {len(times)} probes{first}",
        )
    spread = f"{milliseconds(min(times))} … {milliseconds(max(times))} ms per step"
    return Finding(
        name="warm-up",
        status="unknown",
        measured=measured,
        detail=f"not stable over {len(times)} probes ({spread})",
        fix="wait a minute and check again; compilation may still run",
        verdict="warming",
    )


def contexts_for(longest: int) -> tuple[int, ...]:
    """The two contexts that are measured on a server that takes so many tokens."""
    room = longest - 300
    if room < 4 * CONTEXTS[0]:
        return (max(64, room // 4), max(96, room)) if room > 128 else (64,)
    return CONTEXTS[0], min(CONTEXTS[1], room)


def combined(points: Sequence[Measured]) -> tuple[float, float, int]:
    """Mean step time, mean total context, and steps of points at one place."""
    steps = sum(point.steps for point in points)
    seconds = sum(point.step_seconds * point.steps for point in points) / steps
    return seconds, sum(point.total_context * point.steps for point in points) / steps, steps


def judge_decode(points: Sequence[Measured], profile: Profile | None) -> Finding:
    """Step time at one context against the model; it accuses only where a calibrated profile has evidence."""
    step, total, steps = combined(points)
    accept = mean_accept(points)
    name = f"decode at {short(total)}"
    speed = "" if accept is None else f"{rate(accept / step)} tok/s, "
    measured = f"{speed}{milliseconds(step)} ms/step"
    if profile is None:
        return Finding(
            name=name, status="unknown", measured=measured, detail=f"over {steps} steps, nothing to compare with"
        )
    wanted = profile.step_time.seconds(1, total)
    band = profile.band()
    # The mean of these steps has an error of its own, beside the scatter that the band holds.
    margin = 2.0 * ONE_STEP / sqrt(steps)
    ratio = wanted / step
    expected = f"{milliseconds(wanted)} ms/step"
    told = f"ratio {ratio:.2f}, band {band.low:.2f} … {band.high:.2f}"
    if not profile.covers(1, total):
        return Finding(
            name=name,
            status="unknown",
            measured=measured,
            expected=expected,
            detail=f"{told}, outside the profile's evidence",
            verdict="learning",
        )
    if ratio >= band.low * exp(-margin):
        return Finding(name=name, status="pass", measured=measured, expected=expected, detail=told)
    return Finding(
        name=name,
        status="fail" if profile.calibrated else "warn",
        measured=measured,
        expected=expected,
        detail=f"a step takes {step / wanted:.2f}x what it should ({told})",
        fix="look at GPU clocks, throttling and PCIe width under load, and at what changed in the arguments",
        verdict="slow-step" if profile.calibrated else None,
    )


def mean_accept(points: Sequence[Measured]) -> float | None:
    """Mean accept length, weighted by steps; None where nobody counted."""
    told = [(point.accept_length, point.accept_steps) for point in points if point.accept_length is not None]
    weight = sum(steps for _, steps in told)
    return sum(length * steps for length, steps in told) / weight if weight else None


def judge_accept(text_class: str, points: Sequence[Measured], profile: Profile | None) -> Finding | None:
    """Accept length of one class against the model; None where nothing speculates or nobody counts."""
    accept = mean_accept(points)
    if accept is None:
        return None
    steps = sum(point.accept_steps for point in points)
    context = median(point.context_tokens for point in points)
    name, measured = f"accept, {text_class}", f"{accept:.2f} tok/step"
    if accept < LOWEST_ACCEPT:
        return Finding(
            name=name,
            status="warn",
            measured=measured,
            expected=f"≥ {LOWEST_ACCEPT}",
            detail="the drafter hardly helps",
            fix="is the draft model the one that belongs to this model?",
            verdict="low-accept",
        )
    curve = None if profile is None else profile.accept_curve(text_class) or profile.accept_curve(OVERALL)
    if curve is None:
        return Finding(
            name=name, status="unknown", measured=measured, detail=f"over {steps} steps, nothing to compare with"
        )
    point = curve.at(context)
    low = point.p1 or point.p10
    expected = f"{point.p50:.2f}" + (
        "" if point.p10 is None or point.p90 is None else f" ({point.p10:.1f} … {point.p90:.1f})"
    )
    named = "" if curve.text_class == text_class else ", of all text"
    if low is not None and accept < low and curve.covers(context):
        return Finding(
            name=name,
            status="warn",
            measured=measured,
            expected=expected,
            detail=f"below what this text ever showed{named}",
            fix="was the draft model or its setup changed?",
            verdict="low-accept" if curve.text_class == text_class else None,
        )
    return Finding(name=name, status="pass", measured=measured, expected=expected, detail=f"over {steps} steps{named}")


def measure(
    isolation: Isolation, context: int, classes: Sequence[str], again: Callable[[Measured], bool]
) -> list[Measured]:
    """A point per class at a context; where `again` says so of the last, one more of the same class."""
    points = [isolation.point(text_class, context) for text_class in classes]
    if again(points[-1]):
        points.append(isolation.point(classes[-1], context))
    return points


def judge_after_idle(before: Sequence[Measured], after: Sequence[Measured], seconds: float) -> Finding:
    """Whether idling cost speed."""
    first, _, few = combined(before)
    last, _, many = combined(after)
    ratio = last / first
    margin = 2.0 * ONE_STEP * sqrt(1 / few + 1 / many)
    slow = log(ratio) > log(AFTER_IDLE) + margin
    name = f"after {seconds:.0f} s idle"
    measured, expected = f"{milliseconds(last)} ms/step", f"{milliseconds(first)} ms/step"
    if not slow:
        return Finding(
            name=name, status="pass", measured=measured, expected=expected, detail=f"{ratio:.2f}x the step time before"
        )
    return Finding(
        name=name,
        status="fail",
        measured=measured,
        expected=expected,
        detail=f"steps take {ratio:.2f}x as long as before it idled",
        fix="look for GPU power states, and for sleep_on_idle in the arguments",
        verdict="slow-step",
    )
