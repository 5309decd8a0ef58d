"""Predictions follow the two formulas exactly, keep their band, and say when they are a guess."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ddwatch.core.expectation.accept import AcceptCurve, AcceptPoint
from ddwatch.core.expectation.predict import AcceptChoice, choose_accept, expected_now, predict, widened
from ddwatch.core.expectation.profile import Band
from tests.core.expectation.documents import founding, whole

FIVE = AcceptChoice(length=5.0, origin="given")


def test_a_load_gives_batch_times_accept_over_step() -> None:
    profile = whole()
    step = profile.step_time.seconds(4, 4 * 1500)
    found = predict(profile, context=1500, batch=4, accept=FIVE)
    assert found.step_seconds == pytest.approx(step)
    assert found.tokens_per_second == pytest.approx(4 * 5.0 / step)
    assert (found.low, found.high) == pytest.approx(tuple(found.tokens_per_second * ratio for ratio in profile.band()))
    assert not found.extrapolated


@given(st.integers(1, 8000), st.integers(1, 4000), st.integers(1, 4))
def test_a_request_takes_the_integral_over_its_growing_context(prompt: int, output: int, batch: int) -> None:
    profile = replace(founding(), prefill_tokens_per_second=None)
    found = predict(profile, context=prompt, output=output, batch=batch, accept=FIVE)

    contexts = np.unique(
        np.concatenate([np.linspace(prompt, prompt + output, 20), np.array(profile.step_time.context.knots) / batch])
    )
    contexts = contexts[(contexts >= prompt) & (contexts <= prompt + output)]
    steps = [profile.step_time.seconds(batch, batch * float(context)) for context in contexts]
    seconds = float(np.trapezoid(steps, contexts)) / 5.0

    assert found.seconds == pytest.approx(seconds, rel=1e-9)
    assert found.tokens_per_second == pytest.approx(output / seconds, rel=1e-9)
    assert found.low < found.tokens_per_second < found.high


def test_prefill_counts_where_the_profile_knows_it() -> None:
    profile = whole()
    bare = replace(profile, prefill_tokens_per_second=None)
    with_prefill = predict(profile, context=5000, output=500, accept=FIVE)
    without = predict(bare, context=5000, output=500, accept=FIVE)
    assert with_prefill.prefill_seconds == pytest.approx(1.0)
    assert without.prefill_seconds is None
    assert with_prefill.seconds is not None and without.seconds is not None
    assert with_prefill.seconds - without.seconds == pytest.approx(1.0)
    assert with_prefill.tokens_per_second < without.tokens_per_second


def test_a_class_with_falling_accept_length_slows_a_long_request() -> None:
    falling = AcceptCurve(
        text_class="falling", points=(AcceptPoint(context=100.0, p50=8.0), AcceptPoint(context=10_000.0, p50=2.0))
    )
    choice = AcceptChoice(curve=falling, origin="class falling")
    found = predict(founding(), context=100, output=5000, accept=choice)
    assert 2.0 < found.accept_length < 8.0
    assert found.seconds is not None
    best = predict(founding(), context=100, output=5000, accept=AcceptChoice(length=8.0, origin="given"))
    assert best.seconds is not None and found.seconds > best.seconds


def test_outside_the_evidence_it_says_so() -> None:
    profile = founding()
    assert not predict(profile, context=6800, accept=FIVE).extrapolated
    assert predict(profile, context=6900, accept=FIVE).extrapolated
    assert predict(profile, context=100, batch=2, accept=FIVE).extrapolated
    assert predict(profile, context=3000, output=9000, accept=FIVE).extrapolated


def test_the_accept_length_is_the_given_the_class_the_overall_or_the_references() -> None:
    profile, known = founding(), whole()
    given_length = choose_accept(profile, accept=4.0, text_class=None)
    assert given_length is not None and given_length.at(99.0) == 4.0
    reasoning = choose_accept(profile, accept=None, text_class="reasoning")
    assert reasoning is not None and reasoning.at(4600.0) == 2.9 and reasoning.covers(4600.0)
    assert not reasoning.covers(50.0)
    overall = choose_accept(known, accept=None, text_class=None)
    assert overall is not None and overall.origin == "overall"
    remembered = choose_accept(profile, accept=None, text_class=None)
    assert remembered is not None and remembered.at(1.0) == 7.4
    assert choose_accept(profile, accept=None, text_class="poetry") is None
    assert choose_accept(replace(profile, references=()), accept=None, text_class=None) is None


def test_the_spread_of_a_class_widens_the_band() -> None:
    profile = founding()
    predictable = choose_accept(profile, accept=None, text_class="predictable")
    assert predictable is not None
    band = widened(profile.band(), predictable.margin(1024.0))
    assert band.low < 0.75 and band.high > 1.35
    assert widened(Band(0.75, 1.35), (0.0, 0.0)) == pytest.approx(Band(0.75, 1.35))


def test_the_live_value_uses_what_was_observed() -> None:
    profile = founding()
    found = expected_now(profile, batch=1, total_context=5500.0, accept_length=2.9)
    assert found.step_seconds == pytest.approx(0.144)
    assert found.tokens_per_second == pytest.approx(2.9 / 0.144)
    assert found.low < found.tokens_per_second < found.high
    assert not found.extrapolated
    shared = expected_now(profile, batch=1, total_context=100.0, accept_length=2.9, shared=(1, 5500.0))
    assert shared.step_seconds == found.step_seconds
