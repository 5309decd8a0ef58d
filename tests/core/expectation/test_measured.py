"""A profile from measured points: exact on exact points, honest about noise, refused when there is too little."""

from math import exp

import pytest

from ddwatch.core.expectation.fit import Refusal
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.measured import (
    Measured,
    accept_curve,
    chord_errors,
    doubling,
    fit_measured,
    half_width,
    knots_of,
)
from ddwatch.core.expectation.profile import Profile


def truth(batch: int, total: float) -> float:
    """Rises with both, with a bend at 1000 tokens."""
    return 0.020 + 0.002 * (batch - 1) + 1e-6 * total + 1e-5 * max(0.0, total - 1000.0)


def point(context: int, batch: int = 1, off: float = 0.0, text_class: str = "code", steps: int = 50) -> Measured:
    return Measured(
        batch=batch,
        context_target=context,
        context_tokens=float(context),
        text_class=text_class,
        step_seconds=truth(batch, batch * context) * exp(off),
        steps=steps,
        drafts=(20, 20, 20),
        accept_length=2.0,
        accept_steps=60,
        prefill_seconds=context / 4000.0,
        prompt_tokens=context,
    )


def fitted(points: list[Measured]) -> Profile:
    found = fit_measured(points, name="p", identity=Identity(), judged={})
    assert isinstance(found, Profile)
    return found


def test_exact_points_are_met_exactly_over_contexts_and_batches() -> None:
    places = [(c, b) for b in (1, 2, 4) for c in (125, 250, 500, 1000, 2000)]
    profile = fitted([point(c, b) for c, b in places])
    assert profile.calibrated
    for context, batch in places:
        assert profile.step_time.seconds(batch, batch * context) == pytest.approx(
            truth(batch, batch * context), rel=1e-6
        )
    assert profile.evidence.batches == (1, 2, 4)
    assert profile.covers(4, 8000)
    assert not profile.covers(16, 2000)
    assert profile.prefill_tokens_per_second == pytest.approx(4000.0)


def test_a_hiccup_is_left_out() -> None:
    points = [point(c, off=0.01 * (-1) ** i) for i in range(4) for c in (100, 200, 400, 800)]
    spoilt = [*points, point(400, off=1.0)]
    assert fitted(spoilt).step_time.seconds(1, 400) == pytest.approx(fitted(points).step_time.seconds(1, 400), rel=1e-6)


def test_points_that_scatter_wildly_make_a_profile_that_accuses_nobody() -> None:
    offs = (-0.9, 0.4, 0.8, -0.3, 0.6, -0.7)
    profile = fitted(
        [point(c, off=offs[(i + k) % 6], steps=20) for i in range(6) for k, c in enumerate((100, 200, 400))]
    )
    assert not profile.calibrated
    assert profile.residuals is None
    assert profile.note is not None
    assert "quiet machine" in profile.note


@pytest.mark.parametrize(
    "points",
    [[], [point(100)] * 3, [point(100)] * 20, [point(100, steps=3), point(200, steps=3)] * 3],
    ids=["none", "few", "one context", "few steps"],
)
def test_too_little_is_refused_with_a_sentence(points: list[Measured]) -> None:
    found = fit_measured(points, name="p", identity=Identity(), judged={})
    assert isinstance(found, Refusal)
    assert "too few for a profile" in found.sentence


def test_a_bend_between_two_contexts_is_suspected_and_a_straight_line_is_not() -> None:
    bent = chord_errors([point(c) for c in (125, 250, 500, 2000, 4000)])
    assert max(bent, key=lambda gap: gap[2])[:2] == (500.0, 2000.0)
    assert max(gap for _, _, gap in chord_errors([point(c) for c in (1000, 2000, 4000)])) < 1e-9


def test_accept_quantiles_widen_with_the_spread_between_texts() -> None:
    narrow = accept_curve("code", [point(c) for c in (100, 100, 200, 200)])
    assert narrow is not None
    wide_points = [
        Measured(
            batch=1,
            context_target=100,
            context_tokens=100.0,
            text_class="code",
            step_seconds=0.02,
            steps=50,
            drafts=(20, 20, 20),
            accept_length=accept,
            accept_steps=60,
        )
        for accept in (1.2, 2.8, 1.5, 2.5)
    ]
    wide = accept_curve("code", wide_points)
    assert wide is not None
    assert narrow.points[0].p50 == wide.points[0].p50 == pytest.approx(2.0)
    assert (wide.points[0].p90 or 0) > (narrow.points[0].p90 or 9)
    assert all(one.p1 is not None and one.p1 >= 1.0 for one in wide.points)
    assert accept_curve("code", []) is None


def test_more_steps_make_it_narrower() -> None:
    one, two = half_width([point(100)] * 2, 0.04), half_width([point(100)] * 8, 0.04)
    assert one is not None
    assert two is not None
    assert two == pytest.approx(one / 2)
    assert half_width([point(100)], 0.04) is None


def test_knots_and_contexts() -> None:
    assert knots_of([100.0, 105.0, 200.0]) == (102.5, 200.0)
    assert doubling(64, 64) == (64,)
    assert doubling(64, 1000) == (64, 128, 256, 512, 1000)
    assert doubling(64, 1100) == (64, 128, 256, 512, 1100)
    assert doubling(64, 300) == (64, 128, 300)
