"""A profile's text becomes a profile, or every problem is named with its key; nothing makes the reader raise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.curve import Curve
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.profile import Band, Problem, Profile
from ddwatch.core.expectation.profile_text import read_profile, sentence
from tests.core.expectation.documents import FOUNDING_TEXT, WHOLE, founding, profile, whole


def problems(text: str) -> list[str]:
    """What is wrong with a text, sentence by sentence."""
    found = read_profile(text)
    assert not isinstance(found, Profile), "it was read"
    return [problem.sentence() for problem in found]


def test_every_part_is_read() -> None:
    read = whole()
    assert read.calibrated and read.name == "mine"
    assert (read.identity.model, read.identity.tp, read.identity.dp) == ("m", 8, None)
    assert read.judged == {"version": "0.5.12", "disable_cuda_graph": False}
    assert read.evidence.batches == (1, 2, 4)
    assert read.step_time.batch == Curve((1.0, 2.0, 4.0), (0.001, 0.002))
    assert read.step_time.context == Curve((100.0, 2000.0, 8000.0), (1e-6, 2e-6))
    assert read.lag1 == 0.3 and read.fit_error == 0.012
    assert tuple(read.band()) == pytest.approx((0.9418, 1.0513), abs=1e-3)
    assert read.classes() == ("code",)
    overall = read.accept_curve("overall")
    assert overall is not None and overall.points[1].p90 == 6.0
    assert read.accept_curve("none") is None
    assert read.references[0].batch == 2 and not read.references[0].inferred
    assert read.covers(2, 4000) and not read.covers(8, 4000)
    assert read.fit_error_at(2, 4000) == 0.01
    assert read.fit_error_at(99, 4000) == 0.012


def test_a_profile_without_residuals_or_band_has_the_wide_band() -> None:
    read = profile(FOUNDING_TEXT.replace("band = [0.75, 1.35]\n", ""))
    assert read.band() == Band(0.75, 1.35)
    assert read.fit_error_at(1, 100) is None


def test_differences_are_told_by_kind() -> None:
    other = Identity(model="m", tp=4)
    assert [one.kind for one in whole().matches(other)] == ["identity"]
    assert [one.name for one in whole().matches(Identity(), {"version": "0.6"})] == ["version"]
    assert whole().context_limit() is None


def test_the_founding_profile_is_as_written() -> None:
    read = founding()
    assert not read.calibrated
    assert read.band() == Band(0.75, 1.35)
    for total, step in ((64, 0.029), (1024, 0.034), (3072, 0.065), (5500, 0.144)):
        assert read.step_time.seconds(1, total) == pytest.approx(step, abs=1e-6)
    unfitted = [figure for figure in read.evidence.figures if not figure.fitted]
    assert [(figure.context, figure.step_seconds) for figure in unfitted] == [(13.0, 0.034)]
    assert all(figure.provenance for figure in read.evidence.figures)
    for figure in read.evidence.figures:
        if figure.fitted:
            assert read.step_time.seconds(1, figure.context) == pytest.approx(figure.step_seconds, abs=1e-4)
    (reference,) = read.references
    assert (reference.tokens_per_second, reference.accept, reference.context) == (138.0, 7.4, 2300.0)
    assert reference.inferred


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("1e-6, 2e-6]", "-1e-6, 2e-6]", "step_time.coefficients[3]: must not be negative"),
        ("1e-6, 2e-6]", "nan, 2e-6]", "step_time.coefficients[3]: must be a finite number, not nan"),
        ("1e-6, 2e-6]", "inf, 2e-6]", "step_time.coefficients[3]: must be a finite number, not inf"),
        ("1e-6, 2e-6]", "true, 2e-6]", "step_time.coefficients[3]: must be a number, not true or false"),
        ("1e-6, 2e-6]", "1e-6]", "step_time.coefficients: must be 5 numbers"),
        ("[0.02, 0.001, 0.002, 1e-6, 2e-6]", "[0, 0, 0, 0, 0]", "step_time.coefficients: must give a step time above"),
        ("[0.02, 0.001, 0.002, 1e-6, 2e-6]", "0.02", "step_time.coefficients: must be a list"),
        (
            "batch_knots = [1, 2, 4]",
            "batch_knots = [1, 4, 2]",
            "step_time.batch_knots[2]: must be above the one before",
        ),
        ('span = "step"', 'span = "leap"', "step_time.span: must be one of step, forward, verify"),
        ('span = "step"', "", "step_time.span: missing"),
        ("schema = 1", "schema = 2", "schema: this profile has schema 2, this ddwatch reads schema 1"),
        ("schema = 1", 'schema = "1"', "schema: must be a whole number, not text"),
        ("schema = 1", "", "schema: missing"),
        ('name = "mine"', 'name = ""', "name: must not be empty"),
        ('name = "mine"', 'name = "\\u001b[31m"', "name: must not hold control characters"),
        ('name = "mine"', "", "name: missing"),
        ("calibrated = true", 'calibrated = "yes"', "calibrated: must be true or false, not text"),
        ("tp = 8", "tp = 0", "identity.tp: must not be below 1"),
        ("tp = 8", "tp = 1.5", "identity.tp: must be a whole number, not a number"),
        ("tp = 8", "tpp = 8", "identity.tpp: is not a key of a profile"),
        ("disable_cuda_graph = false", "when = 2026-01-01", "judged.when: must be a plain value, not a date"),
        ("disable_cuda_graph = false", "x = nan", "judged.x: must be a finite number, not nan"),
        ("samples = 400\ncontexts", "samples = -1\ncontexts", "evidence.samples: must not be negative"),
        ("total_context = [100, 8000]", "total_context = [9, 8]", "evidence.region[0].total_context: must be two"),
        (
            "lag1_autocorrelation = 0.3",
            "lag1_autocorrelation = 3",
            "step_time.lag1_autocorrelation: must not be above 1",
        ),
        ("p95 = 0.06", "p95 = -1", "step_time.residual_quantiles.p95: must not be below p75"),
        ("p95 = 0.06", "", "step_time.residual_quantiles.p95: missing"),
        ("p50 = [3.0, 2.6]", "p50 = [3.0]", "accept[0].p50: must be 2 numbers, one per context"),
        ("p50 = [3.0, 2.6]", "p50 = [3.0, 1.0]", "accept[0].p50[1]: must not be below p10"),
        ("p50 = [3.0, 2.6]", "", "accept[0].p50: missing"),
        ("p50 = [5.0]", "p50 = [0.0]", "accept[1].p50[0]: must be positive"),
        ('class = "code"', 'class = "overall"', "accept[1].class: 'overall' is there twice"),
        ("tokens_per_second = 300.0", "tokens_per_second = 0", "reference[0].tokens_per_second: must be positive"),
        ("tokens_per_second = 300.0", "tokens_per_second = -3.0", "reference[0].tokens_per_second: must be positive"),
        ("[judged]", "[judgd]", "judgd: is not a key of a profile"),
        ("[identity]\nmodel", "identity = 3\n[nothing]\nmodel", "identity: must be a table, not a number"),
        ('class = "code"', 'class = "code"\nsamples = [1.0, 2.0]', "accept[1].samples: must be 1 numbers, one per"),
        (
            'class = "code"\ncontext = [1000]\np50 = [5.0]',
            'class = "code"\ncontext = []\np50 = []',
            "accept[1].context: must",
        ),
        ("disable_cuda_graph = false", 'x = "a\\u0007"', "judged.x: must not hold control characters"),
        ("created = ", "figure = [3]\ncreated = ", "evidence.figure[0]: must be a table, not a number"),
        ('name = "mine"', 'name = "' + "x" * 2001 + '"', "name: must not be longer than 2000 characters"),
        (
            "[[evidence.region]]",
            '[[evidence.figure]]\nstep_seconds = 0\ncontext = 1\nprovenance = "x"\n[[evidence.region]]',
            "evidence.figure[0].step_seconds: must be positive",
        ),
        ("[[reference]]", "[reference]", "reference: must be a list of at most"),
    ],
)
def test_the_offending_key_is_named(old: str, new: str, told: str) -> None:
    assert WHOLE.count(old) >= 1
    found = problems(WHOLE.replace(old, new, 1))
    assert any(one.startswith(told) for one in found), found


def test_a_band_that_does_not_hold_one_is_refused() -> None:
    assert problems(FOUNDING_TEXT.replace("[0.75, 1.35]", "[1.1, 1.35]")) == [
        "step_time.band: must be two ratios, one at or below 1 and one at or above 1"
    ]


def test_a_calibrated_profile_needs_its_residuals() -> None:
    found = problems(FOUNDING_TEXT.replace("calibrated = false", "calibrated = true"))
    assert found == ["step_time.residual_quantiles: missing, and a calibrated profile needs them"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not a profile: neither schema nor step_time"),
        ("<html>", "not TOML: "),
        ("a = [" * 3000, "not TOML: "),
        ("x" * 2_000_000, "not a profile: longer than"),
        ("schema = 1", "name: missing"),
    ],
)
def test_what_is_no_profile_is_said_to_be_none(text: str, told: str) -> None:
    assert problems(text)[0].startswith(told)


def test_many_problems_are_one_sentence() -> None:
    many = [Problem(f"k{i}", "bad") for i in range(5)]
    assert sentence(many) == "k0: bad; k1: bad; k2: bad; and 2 more"
    assert sentence(many[:1]) == "k0: bad"


@given(st.text(max_size=200))
def test_no_text_makes_it_raise(text: str) -> None:
    read_profile(text)


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        "1",
        "-1",
        "0",
        "nan",
        "inf",
        '"x"',
        "true",
        "[]",
        "[1, 2]",
        "[[1]]",
        "{}",
        "{a = 1}",
        "[{a = 1}]",
        "1e400",
        "07:32:00",
    ]
)


@given(st.integers(0, 60), VALUES)
def test_any_value_anywhere_is_read_or_named(line: int, value: str) -> None:
    lines = WHOLE.split("\n")
    key = lines[line % len(lines)].split(" = ")[0]
    if " = " in lines[line % len(lines)]:
        lines[line % len(lines)] = f"{key} = {value}"
    found = read_profile("\n".join(lines))
    assert isinstance(found, Profile) or all(problem.what for problem in found)
