"""Frames with a model: what the service should do, and why it differs from what is remembered."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ddwatch.core.snapshot import (
    CurvePoint,
    Expected,
    FactorView,
    Frame,
    ModelView,
    Point,
    ReferenceView,
    Verdict,
)
from tests.tui import frames
from tests.tui.frames import NOON, STORY, events, frame_of


@dataclass(frozen=True)
class Truth:
    """A model: step time over total context, how wide its band is and how far its evidence reaches."""

    width: float = 0.14
    reach: tuple[float, float] = (250.0, 6600.0)

    def step(self, context: float) -> float:
        """Seconds at a total context, as the founding service has them."""
        return 0.0335 + 0.0625 * math.pow(context / 5900, 1.2)

    def curve(self, most: float = 6600.0) -> tuple[CurvePoint, ...]:
        """As the core hands it out."""
        places = [most * 1.5 * place / 23 for place in range(24)]
        return tuple(
            CurvePoint(
                total_context_tokens=at,
                step_seconds=self.step(at),
                low=self.step(at) / (1 + self.width),
                high=self.step(at) * (1 + self.width),
                covered=self.reach[0] <= at <= self.reach[1],
            )
            for at in places
        )

    def view(self, **changes: object) -> ModelView:
        """The model in force."""
        view = ModelView(
            profile="kimi-k2.6-ddtree-8x-rtx-pro-6000",
            calibrated=True,
            learned=False,
            samples=1240,
            fit_error=0.011,
            batch=1,
            curve=self.curve(),
            accept_low=1.82,
            accept_median=3.4,
            accept_high=7.9,
        )
        return replace(view, **changes)

    def expected(self, points: Sequence[Point]) -> list[Point]:
        """The points with what was expected of them."""
        found = []
        for point in points:
            if point.total_context_tokens is None or point.accept_length is None:
                found.append(point)
                continue
            step = self.step(point.total_context_tokens)
            rate = point.accept_length / step
            found.append(
                replace(
                    point,
                    expected_throughput=rate,
                    expected_low=rate / (1 + self.width),
                    expected_high=rate * (1 + self.width),
                    expected_step_seconds=step,
                )
            )
        return found

    def now(self, point: Point) -> Expected:
        """What is expected of the newest point."""
        return Expected(
            profile="kimi-k2.6-ddtree-8x-rtx-pro-6000",
            tokens_per_second=point.expected_throughput or 0.0,
            low=point.expected_low or 0.0,
            high=point.expected_high or 0.0,
            step_seconds=point.expected_step_seconds or 0.0,
        )


REMEMBERED = ReferenceView(
    label="what was remembered before the restart",
    tokens_per_second=138.0,
    context_tokens=2300.0,
    batch=1,
    accept_length=7.4,
    inferred=True,
)


def factors_of(truth: Truth, point: Point, reference: ReferenceView = REMEMBERED) -> FactorView:
    """Measured over reference, split as the core does it."""
    accept = (point.accept_length or 0.0) / reference.accept_length
    context = truth.step(reference.context_tokens) / truth.step(point.total_context_tokens or 0.0)
    whole = (point.throughput or 0.0) / reference.tokens_per_second
    return FactorView(accept_length=accept, context=context, batch=1.0, unexplained=whole / accept / context)


def story_points(seconds: int = 300, seed: int = 1) -> list[Point]:
    """From predictable text at 2.3k tokens to reasoning at 5.9k: the rate falls from 138 to 31 as it should."""
    rng = random.Random(seed)
    truth = Truth()
    found = []
    for point in frames.founding_points(seconds, seed=seed):
        share = (point.seq - 1) / seconds
        context = int(2300 + 3600 * share)
        accept = 7.4 - 4.5 / (1 + math.exp(-(share - 0.35) * 16)) + rng.gauss(0, 0.14)
        step = truth.step(context) * math.exp(rng.gauss(0, 0.02)) * (1.8 if point.contaminated else 1.0)
        found.append(
            replace(
                point,
                accept_length=accept,
                step_seconds=step,
                throughput=accept / step,
                context_tokens=float(context),
                total_context_tokens=context,
            )
        )
    return found


def judged(points: Sequence[Point], truth: Truth, **changes: object) -> Frame:
    """A frame in which a model stands beside the newest point."""
    points = truth.expected(points)
    newest = points[-1]
    expected = truth.now(newest)
    found = {
        "expected": expected,
        "ratio": (newest.throughput or 0.0) / expected.tokens_per_second,
        "model": truth.view(),
        "reference": REMEMBERED,
        "factors": factors_of(truth, newest),
        "verdict": AS_EXPECTED,
    }
    return frame_of(points, **{**found, **changes})


AS_EXPECTED = Verdict(
    name="as-expected",
    severity="ok",
    since=NOON - 3000,
    sentence="the step takes what this batch and context should cost (ratio 1.00)",
)


def founding_end() -> Frame:
    """The founding story at its end, by the built-in profile: 4x slower than remembered, and nothing is wrong."""
    truth = Truth(width=0.34)
    model = truth.view(calibrated=False, samples=4, fit_error=None, accept_low=None, accept_high=None)
    return judged(story_points(), truth, model=model)


def narrow() -> Frame:
    """A calibrated profile of this very service: a narrow band."""
    return judged(story_points(), Truth(width=0.045))


def differing() -> Frame:
    """A profile of this service, and a service that is set up a little differently than it was."""
    truth = Truth(width=0.06)
    reference = replace(
        REMEMBERED, label="fastest tenth of what was seen at batch 1", tokens_per_second=162.0, accept_length=8.05
    )
    points = story_points()
    differences = (
        "version: the profile has 0.5.15, the service 0.5.18",
        "attention_backend: the profile has triton, the service trtllm_mla",
    )
    model = truth.view(profile="kimi-k2.6-march", samples=280, differences=differences)
    return judged(points, truth, model=model, reference=reference, factors=factors_of(truth, points[-1], reference))


def outside() -> Frame:
    """A context that nothing was learned at: the model guesses and says so."""
    truth = Truth(width=0.06, reach=(250.0, 3400.0))
    model = truth.view(profile="kimi-k2.6-ddtree-32-8", learned=True, samples=160, settled=4, curve=truth.curve(5900.0))
    frame = judged(
        story_points(),
        truth,
        model=model,
        verdict=Verdict(
            name="learning",
            severity="unknown",
            since=NOON - 130,
            sentence="outside evidence: 12 clean samples between 5.2k and 6.3k tokens at batch 1; need 40",
        ),
    )
    expected = frame.snapshot.expected
    assert expected is not None
    return replace(frame, snapshot=replace(frame.snapshot, expected=replace(expected, extrapolated=True)))


def uncalibrated_slow() -> Frame:
    """Slower than hand-measured figures say: told, not accused."""
    frame = slowed(Truth(width=0.2))
    model = Truth(width=0.2).view(calibrated=False, samples=4, fit_error=None, accept_low=None, accept_high=None)
    verdict = Verdict(
        name="learning",
        severity="unknown",
        since=NOON - 110,
        sentence="slower than kimi-k2.6-ddtree-8x-rtx-pro-6000 says, but that is not calibrated and never accuses",
    )
    return replace(frame, snapshot=replace(frame.snapshot, model=model, verdict=verdict))


def slowed(truth: Truth) -> Frame:
    """The founding service with 43 % on every step since two minutes."""
    points = [
        replace(point, throughput=(point.throughput or 0) * 0.7, step_seconds=(point.step_seconds or 0) / 0.7)
        if point.at > NOON - 120
        else point
        for point in story_points()
    ]
    frame = judged(points, truth)
    split = frame.snapshot.factors
    assert split is not None
    split = replace(split, unexplained_offset=0.71, unexplained_slope=0.99)
    return replace(frame, snapshot=replace(frame.snapshot, factors=split))


def slow() -> Frame:
    """The same, judged by a calibrated profile."""
    frame = slowed(Truth(width=0.08))
    verdict = Verdict(
        name="slow-step",
        severity="page",
        since=NOON - 120,
        sentence="step 142 ms, expected 96: +46 ms on every step since 11:58:00 (112 clean steps)",
        cause="GPU 5 thermal slowdown, 1.62 GHz against 2.41 on the others, since 11:58",
        next_steps=("nvidia-smi -q -d PERFORMANCE -i 5", "check airflow", "ddwatch compare --at 11:58"),
    )
    told = (*STORY, *events((120.0, "verdict", "page", "slow step: 142 ms against 96 expected")))
    return replace(
        frame, snapshot=replace(frame.snapshot, verdict=verdict), history=replace(frame.history, events=told)
    )


def dp8() -> Frame:
    """Eight ranks, as a learned model expects them."""
    frame = frames.dp8()
    rng = random.Random(4)
    points = tuple(
        replace(
            point,
            expected_throughput=(middle := (point.throughput or 0) * rng.gauss(1.02, 0.01)),
            expected_low=middle * 0.95,
            expected_high=middle * 1.05,
            expected_step_seconds=0.057,
        )
        for point in frame.history.points
    )
    rate = points[-1].expected_throughput or 0.0
    model = Truth(width=0.05).view(profile="dsv32-8-8", learned=True, samples=640, settled=16, batch=13)
    snapshot = replace(
        frame.snapshot,
        expected=Expected(
            profile="dsv32-8-8", tokens_per_second=rate, low=rate * 0.95, high=rate * 1.05, step_seconds=0.057
        ),
        ratio=(frame.snapshot.now.throughput or 0.0) / rate,
        model=model,
        verdict=AS_EXPECTED,
    )
    return replace(frame, snapshot=snapshot, history=replace(frame.history, points=points))
