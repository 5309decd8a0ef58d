"""What is written is read back equal, whatever the profile holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.expectation.accept import AcceptCurve, AcceptPoint
from ddwatch.core.expectation.curve import Curve
from ddwatch.core.expectation.identity import Identity, Scalar
from ddwatch.core.expectation.profile import Band, Evidence, Figure, Profile, Reference, Residuals
from ddwatch.core.expectation.profile_text import read_profile
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.core.expectation.step_time import Region, StepTime
from tests.core.expectation.documents import founding, whole

printable = st.text(
    st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn", "Zs")), min_size=1, max_size=20
)
numbers = st.floats(1e-9, 1e12)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    knots = tuple(sorted(draw(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=6, unique=True))))
    slopes = tuple(draw(st.lists(st.floats(0.0, 1.0), min_size=len(knots) - 1, max_size=len(knots) - 1)))
    quantiles = sorted(draw(st.lists(st.floats(-1.0, 1.0), min_size=7, max_size=7)))
    judged = draw(
        st.dictionaries(printable, st.one_of(printable, st.integers(-10, 10), st.booleans(), numbers), max_size=4)
    )
    values: dict[str, Scalar] = dict(judged)
    contexts = sorted(draw(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=4, unique=True)))
    return Profile(
        name=draw(printable),
        calibrated=True,
        note=draw(st.none() | printable),
        identity=Identity(model=draw(st.none() | printable), tp=draw(st.none() | st.integers(1, 64))),
        judged=values,
        evidence=Evidence(
            samples=draw(st.integers(0, 9999)),
            contexts=(1.0, 2.0),
            batches=(1, 2),
            provenance=draw(printable),
            regions=(Region(batch=(1, 2), total_context=(1.0, draw(numbers) + 1.0), samples=3),),
            figures=(Figure(step_seconds=draw(numbers), context=1.0, provenance="x", fitted=draw(st.booleans())),),
        ),
        step_time=StepTime(constant=draw(numbers), batch=Curve(knots, slopes), context=Curve(knots, slopes)),
        residuals=Residuals(**dict(zip(Residuals.__struct_fields__, quantiles, strict=True))),
        stated_band=draw(st.none() | st.just(Band(0.5, 2.0))),
        lag1=draw(st.none() | st.floats(-1.0, 1.0)),
        accept=(
            AcceptCurve(
                text_class=draw(printable),
                points=tuple(AcceptPoint(context=context, p50=3.0, p10=2.0, samples=9) for context in contexts),
            ),
        ),
        references=(
            Reference(label=draw(printable), context=5.0, accept=3.0, tokens_per_second=draw(numbers), inferred=True),
        ),
    )


@given(profiles())
def test_any_profile_comes_back_equal(profile: Profile) -> None:
    assert read_profile(write_profile(profile)) == profile


@pytest.mark.parametrize("profile", [founding(), whole()], ids=["founding", "whole"])
def test_known_profiles_come_back_equal(profile: Profile) -> None:
    assert read_profile(write_profile(profile)) == profile
