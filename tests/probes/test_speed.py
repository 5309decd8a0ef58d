"""Warm-up, decode speed and accept length are judged from measured points, by a model or not at all."""

import pytest

from ddwatch.core.expectation.accept import AcceptCurve, AcceptPoint
from ddwatch.core.expectation.measured import Measured
from ddwatch.core.expectation.profile import Band, Evidence, Profile
from ddwatch.core.expectation.step_time import Region, StepTime
from ddwatch.probes.findings import conclude
from ddwatch.probes.speed import Warmth, contexts_for, judge_accept, judge_after_idle, judge_decode, judge_warmth


def profile(*, calibrated: bool = True) -> Profile:
    return Profile(
        name="p",
        calibrated=calibrated,
        evidence=Evidence(
            samples=9, provenance="log", regions=(Region(batch=(1, 1), total_context=(64, 4096), samples=99),)
        ),
        step_time=StepTime(constant=0.030),
        stated_band=Band(0.95, 1.05),
        accept=(
            AcceptCurve(text_class="code", points=(AcceptPoint(context=1000.0, p50=5.0, p1=3.5, p10=4.0, p90=6.0),)),
        ),
    )


def point(step: float, *, steps: int = 100, context: float = 1000.0, accept: float | None = 5.0) -> Measured:
    return Measured(
        batch=1,
        context_target=1000,
        context_tokens=context,
        text_class="code",
        step_seconds=step,
        steps=steps,
        accept_length=accept,
        accept_steps=steps,
    )


@pytest.mark.parametrize(
    ("step", "calibrated", "status", "verdict"),
    [
        (0.030, True, "pass", None),
        (0.025, True, "pass", None),
        (0.0315, True, "pass", None),
        (0.036, True, "fail", "slow-step"),
        (0.036, False, "warn", None),
    ],
)
def test_decode_speed(step: float, calibrated: bool, status: str, verdict: str | None) -> None:
    found = judge_decode([point(step)], profile(calibrated=calibrated))
    assert (found.status, found.verdict) == (status, verdict)


def test_few_steps_accuse_less() -> None:
    assert judge_decode([point(0.0325, steps=9)], profile()).status == "pass"
    assert judge_decode([point(0.0325, steps=400)], profile()).status == "fail"


def test_outside_the_evidence_and_without_a_profile_nothing_is_accused() -> None:
    assert judge_decode([point(0.09, context=9000.0)], profile()).status == "unknown"
    assert judge_decode([point(0.09)], None).status == "unknown"


def test_accept_length() -> None:
    for accept, status, verdict in ((5.2, "pass", None), (2.0, "warn", "low-accept"), (1.1, "warn", "low-accept")):
        found = judge_accept("code", [point(0.03, accept=accept)], profile())
        assert found is not None
        assert (found.status, found.verdict) == (status, verdict)
    assert judge_accept("code", [point(0.03, accept=None)], profile()) is None
    alone = judge_accept("code", [point(0.03)], None)
    assert alone is not None
    assert alone.status == "unknown"


def test_idling_that_costs_speed_pages() -> None:
    assert judge_after_idle([point(0.030)], [point(0.031)], 90.0).verdict is None
    assert judge_after_idle([point(0.030)], [point(0.042)], 90.0).verdict == "slow-step"


def test_an_unsettled_rate_is_warming() -> None:
    assert judge_warmth(Warmth(True, (0.2, 0.03, 0.03, 0.03), 100.0)).status == "pass"
    assert conclude([judge_warmth(Warmth(False, (0.2, 0.1, 0.3), 10.0))]).verdict == "warming"


def test_a_slow_step_speaks_before_what_is_unknown() -> None:
    slow = judge_decode([point(0.05)], profile())
    unknown = judge_warmth(Warmth(False, (0.2, 0.1, 0.3), 10.0))
    assert conclude([unknown, slow]).verdict == "slow-step"
    assert conclude([]).verdict == "as-expected"


def test_contexts_fit_the_server() -> None:
    assert contexts_for(262144) == (256, 2048)
    assert contexts_for(2048) == (256, 1748)
    low, high = contexts_for(900)
    assert low < high <= 600
