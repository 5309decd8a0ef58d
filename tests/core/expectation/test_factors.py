"""The factors are those of the truth: measured on simulated services whose parts are known."""

import math
import random

import pytest

from ddwatch.core.expectation.factors import Factors, Load, Split, factor_split, split_unexplained
from ddwatch.core.expectation.fit import fit_profile
from ddwatch.core.expectation.profile import Profile, Reference
from ddwatch.core.expectation.retention import Observation
from ddwatch.core.snapshot import Sample
from ddwatch.demo.physics import step_seconds
from tests.core.expectation.documents import founding, whole
from tests.core.expectation.worlds import power, world

REFERENCE = Reference(label="then", context=1500, batch=1, accept=7.4, tokens_per_second=7.4 / step_seconds(1, 1500))


@pytest.fixture(scope="module")
def demo_profile() -> Profile:
    """A profile fitted on the demo's physics."""
    draw = random.Random(3)
    items = []
    for _ in range(2500):
        batch = draw.randint(1, 16)
        total = batch * math.exp(draw.uniform(math.log(100), math.log(6000)))
        step = step_seconds(batch, total) * math.exp(draw.gauss(0.0, 0.03))
        items.append(
            Observation(
                batch=batch, total_context=total, step_seconds=step, accept_length=3.0, context_tokens=total / batch
            )
        )
    found = fit_profile(items, name="demo", samples=len(items))
    assert isinstance(found, Profile)
    return found


@pytest.mark.parametrize(
    ("batch", "context", "accept", "slow"), [(1, 5500, 2.9, 1.0), (4, 4000, 5.2, 1.0), (8, 800, 7.4, 1.4)]
)
def test_each_factor_is_the_simulators_own(
    demo_profile: Profile, batch: int, context: float, accept: float, slow: float
) -> None:
    measured = batch * accept / (slow * step_seconds(batch, batch * context))
    load = Load(batch=batch, begin_context=context, end_context=context, accept_length=accept)

    found = factor_split(demo_profile, REFERENCE, load, measured)

    assert found.accept_length == pytest.approx(accept / 7.4)
    assert found.context == pytest.approx(step_seconds(1, 1500) / step_seconds(1, context), rel=0.03)
    truth = batch * step_seconds(1, context) / step_seconds(batch, batch * context)
    assert found.batch == pytest.approx(truth, rel=0.04)
    assert found.unexplained == pytest.approx(1.0 / slow, rel=0.04)
    product = found.product()
    assert product is not None and product * REFERENCE.tokens_per_second == pytest.approx(measured, rel=1e-12)


def test_idle_time_is_its_own_factor() -> None:
    profile = whole()
    reference = profile.references[0]
    load = Load(batch=2, begin_context=1000, end_context=1000, accept_length=5.0)
    step = profile.step_time.seconds(2, 2000)
    found = factor_split(profile, reference, load, 0.6 * 2 * 5.0 / step, idle=0.6)
    assert found.idle == 0.6
    assert found.unexplained == pytest.approx(2 * 5.0 / step / reference.tokens_per_second)


def samples(profile: Profile, offset: float, slope: float, count: int = 200) -> list[Sample]:
    """Clean live samples of a service that differs from the profile by an offset and a slope."""
    service = world(power, 21)
    found = []
    for index in range(count):
        batch, total = service.load()
        cost = profile.step_time.context_seconds(total)
        step = profile.step_time.seconds(batch, total) + offset + slope * cost
        found.append(
            Sample(
                at=float(index),
                batch=batch,
                total_context_tokens=int(total),
                step_seconds=step * math.exp(service.random.gauss(0.0, 0.03)),
            )
        )
    return found


@pytest.mark.parametrize(("offset", "slope"), [(0.0308, 0.0), (0.0, 0.5), (0.010, 0.3), (0.0, 0.0), (-0.005, 0.0)])
def test_a_latched_offset_is_told_from_a_steeper_slope(demo_profile: Profile, offset: float, slope: float) -> None:
    found = split_unexplained(demo_profile, samples(demo_profile, offset, slope))
    assert found is not None
    assert found.offset_seconds == pytest.approx(offset, abs=0.003)
    assert found.slope_change == pytest.approx(slope, abs=0.05)
    assert found.samples == 200


def test_one_nonsense_sample_in_ten_does_not_move_the_split(demo_profile: Profile) -> None:
    seen = samples(demo_profile, 0.03, 0.0)
    spoiled = [
        Sample(at=one.at, batch=one.batch, total_context_tokens=one.total_context_tokens, step_seconds=2.0)
        if index % 10 == 0
        else one
        for index, one in enumerate(seen)
    ]
    found = split_unexplained(demo_profile, spoiled)
    assert found is not None
    assert found.offset_seconds == pytest.approx(0.03, abs=0.005)


def test_contexts_too_much_alike_or_samples_too_few_cannot_be_split(demo_profile: Profile) -> None:
    seen = samples(demo_profile, 0.03, 0.0)
    assert split_unexplained(demo_profile, seen[:20]) is None
    alike = [
        Sample(at=float(index), batch=1, total_context_tokens=3000 + index, step_seconds=0.08) for index in range(100)
    ]
    assert split_unexplained(demo_profile, alike) is None
    dirty = [
        Sample(
            at=one.at, batch=one.batch, total_context_tokens=one.total_context_tokens, step_seconds=0.1, flags=("idle",)
        )
        for one in seen
    ]
    assert split_unexplained(demo_profile, dirty) is None


def test_the_split_parts_the_unexplained_factor_exactly(demo_profile: Profile) -> None:
    load = Load(batch=1, begin_context=4000, end_context=4000, accept_length=2.9)
    now = demo_profile.step_time.seconds(1, 4000)
    measured = 2.9 / (now + 0.03)
    found = factor_split(demo_profile, REFERENCE, load, measured, split=Split(0.03, 0.0, 100))
    assert found.unexplained is not None
    assert found.unexplained_offset == pytest.approx(now / (now + 0.03))
    assert found.unexplained_slope is not None and found.unexplained_offset is not None
    assert found.unexplained_offset * found.unexplained_slope == pytest.approx(found.unexplained)
    assert found.unexplained_slope == pytest.approx(1.0, abs=0.03)


def test_factors_that_nobody_knows_have_no_product() -> None:
    assert Factors().product() is None
    assert founding().references[0].batch == 1
