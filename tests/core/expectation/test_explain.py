"""The explanation answers the founding question, splits by the truth, and never accuses without grounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ddwatch.core.expectation.explain import Explanation, Incomplete, explain
from ddwatch.core.expectation.pasted import Understood, understand
from ddwatch.core.expectation.profile import Profile
from tests.core.expectation.documents import founding, whole


def explained(profile: Profile, text: str, **more: float | int) -> Explanation:
    found = explain(profile, understand(text), **more)  # type: ignore[arg-type]
    assert isinstance(found, Explanation), found
    return found


def test_the_founding_question_is_answered() -> None:
    found = explained(founding(), "3239/2750 tok 32.2 t/s", accept=2.9)

    assert found.verdict == "as-expected"
    assert found.low <= 30.0 <= found.high
    assert found.factors.accept_length == pytest.approx(0.39, abs=0.005)
    assert found.factors.context is not None and 0.5 <= found.factors.context <= 0.6
    assert found.factors.batch == pytest.approx(1.0)
    assert found.factors.idle is None
    assert found.factors.unexplained_offset is None and found.factors.unexplained_slope is None
    product = found.factors.product()
    assert product is not None and product * 138.0 == pytest.approx(32.2)
    assert found.typical_of == "reasoning"
    assert not found.extrapolated


def test_without_an_accept_length_the_number_itself_says_which_text_it_fits() -> None:
    found = explained(founding(), "3239/2750 tok 32.2 t/s")
    assert found.implied_accept_length == pytest.approx(3.4, abs=0.2)
    assert found.verdict == "as-expected"
    assert "if the text is reasoning" in found.reason
    assert found.factors.accept_length is None
    product = found.factors.product()
    assert product is not None and product * 138.0 == pytest.approx(32.2)


def test_what_if_keeps_everything_else_as_it_is() -> None:
    found = explained(founding(), "3239/2750 tok 32.2 t/s", accept=2.9)
    by_change = {what.change: what.tokens_per_second for what in found.what_if}
    assert by_change["accept length 7.4 as in the reference"] == pytest.approx(32.2 * 7.4 / 2.9)
    there = founding().step_time.seconds(1, 2300)
    assert by_change["context 2.3k as in the reference"] == pytest.approx(32.2 * found.step_seconds / there)
    halved = 0.029 + (found.step_seconds - 0.029) / 2
    assert by_change["context cost halved"] == pytest.approx(32.2 * found.step_seconds / halved)


def test_outside_the_evidence_it_never_accuses() -> None:
    for text in ("0.1 tok/s at 60k ctx", "0.1 tok/s at 5k ctx batch 9", "0.1 tok/s at 10 ctx", "999 tok/s at 60k ctx"):
        found = explained(whole(), text, accept=3.0)
        assert found.verdict == "learning", text
        assert found.reason.startswith("outside evidence")
        assert found.extrapolated


def test_a_calibrated_profile_accuses_a_slow_step_and_an_uncalibrated_one_does_not() -> None:
    slow = "10 tok/s at 3k ctx"
    accused = explained(whole(), slow, accept=5.0)
    assert accused.verdict == "slow-step"
    assert f"{1 / accused.ratio:.2f} times" in accused.reason
    spared = explained(replace(whole(), calibrated=False), slow, accept=5.0)
    assert spared.verdict == "learning" and "not calibrated" in spared.reason


def test_without_an_accept_length_a_slow_step_cannot_be_told_from_hard_text() -> None:
    assert explained(whole(), "10 tok/s at 3k ctx").verdict == "learning"
    bare = replace(whole(), accept=())
    unknown = explained(bare, "100 tok/s at 3k ctx")
    assert unknown.verdict == "learning" and "accept length is not known" in unknown.reason
    overall = replace(whole(), accept=whole().accept[:1])
    assert explained(overall, "100 tok/s at 3k ctx").typical_of is None


def test_faster_than_expected_is_never_held_against_it() -> None:
    found = explained(whole(), "2000 tok/s at 3k ctx", accept=5.0)
    assert found.ratio > 2.0
    assert found.verdict == "as-expected" and "faster" in found.reason


def test_a_drafter_that_gives_nothing_is_a_notice() -> None:
    profile = whole()
    rate = 1.1 / profile.step_time.seconds(1, 3000)
    assert explained(profile, f"{rate:.2f} tok/s at 3k ctx", accept=1.1).verdict == "low-accept"
    plain = replace(profile, accept=())
    assert explained(plain, f"{rate:.2f} tok/s at 3k ctx", accept=1.1).verdict == "as-expected"


def test_a_decode_line_is_judged_for_all_its_requests() -> None:
    profile = whole()
    rate = 4 * 2.9 / profile.step_time.seconds(4, 6000)
    line = (
        f"Decode batch, #running-req: 4, #token: 6000, accept len: 2.90, gen throughput (token/s): {rate:.2f}, #queue"
    )
    found = explained(profile, line)
    assert found.ratio == pytest.approx(1.0, abs=0.001)
    assert found.load.scope == "service"
    same = explained(profile, f"{rate / 4:.3f} tok/s at 1500 ctx batch 4", accept=2.9)
    assert same.ratio == pytest.approx(1.0, abs=0.001)
    assert same.factors.unexplained == pytest.approx(found.factors.unexplained or 0.0, abs=0.001)
    assert any("one request among 4" in note for note in same.assumed)


def test_prefill_is_a_factor_where_both_times_are_known() -> None:
    profile = whole()
    step = profile.step_time.mean_seconds(1, 2000, 3000)
    decode = 1000 * step / 3.0
    text = f"prompt 2000, completion 1000 in {decode + 2.0:.3f} s, ttft 2.0 s"
    found = explained(profile, text, accept=3.0)
    assert found.factors.idle == pytest.approx(decode / (decode + 2.0), rel=1e-3)
    assert found.ratio == pytest.approx(1.0, rel=1e-3)
    stated = explained(profile, f"prompt 2000, completion 1000 in {decode + 2:.2f} s, ttft 2 s, 60 tok/s", accept=3.0)
    assert stated.factors.idle is None, "a stated rate may be of the decode alone"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("32 tok/s at 600k ctx", "a context that the model can have: 600000 tokens are beyond its limit of 262144"),
        ("hello", "a rate"),
        ("32 tok/s", "how long the context was"),
        ("prompt 5 completion 7", "a rate"),
    ],
)
def test_what_is_missing_is_named(text: str, missing: str) -> None:
    found = explain(replace(founding(), judged={"context_length": 262144}), understand(text))
    assert isinstance(found, Incomplete) and found.missing.startswith(missing)


def test_what_the_operator_adds_counts_more_than_the_paste() -> None:
    found = explained(whole(), "32 tok/s at 6k ctx accept 2 batch 2", accept=3.0, context=1000, batch=4)
    assert (found.load.accept_length, found.load.begin_context, found.load.batch) == (3.0, 1000.0, 4)


def test_without_a_reference_there_are_no_factors() -> None:
    found = explained(replace(whole(), references=()), "32 tok/s at 3k ctx", accept=2.9)
    assert found.reference is None
    assert found.factors.product() is None
    assert [what.change for what in found.what_if] == ["context cost halved"]


@given(
    st.floats(0.01, 1e5),
    st.integers(1, 10**7),
    st.integers(1, 10**6),
    st.none() | st.floats(0.1, 64.0),
    st.none() | st.integers(1, 512),
    st.sampled_from(["request", "service"]),
)
def test_the_product_is_exact_for_any_number(
    rate: float, prompt: int, output: int, accept: float | None, batch: int | None, scope: str
) -> None:
    for profile in (founding(), whole()):
        said = Understood(
            tokens_per_second=rate,
            prompt_tokens=prompt,
            completion_tokens=output,
            scope="request" if scope == "request" else "service",
        )
        found = explain(profile, said, accept=accept, batch=batch)
        assert isinstance(found, Explanation)
        product = found.factors.product()
        reference = profile.references[0]
        remembered = reference.tokens_per_second / (reference.batch if scope == "request" else 1)
        assert product is not None and product * remembered == pytest.approx(rate, rel=1e-9)
        assert found.low <= found.expected <= found.high
        assert found.ratio == pytest.approx(rate / found.expected)
