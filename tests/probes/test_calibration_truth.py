"""A calibration of the simulated service finds its truth: step times and accept lengths, and says how sure it is."""

from functools import cache
from itertools import pairwise
from math import sqrt
from random import Random

import pytest

from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.measured import Measured, doubling, fit_measured
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.demo.physics import NOISE_MEMORY, NOISE_SIGMA, TEXT_CLASSES, step_seconds
from ddwatch.probes.failures import ProbeFailed
from ddwatch.probes.isolation import Isolation
from ddwatch.probes.server import Server
from ddwatch.probes.sweep import End, Sweep
from ddwatch.probes.texts import CLASSES, Lengths
from tests.fakes.engine_port import EnginePort


@cache
def sweep(seed: int = 1, budget: float = 7200.0, limit: int = 8192) -> tuple[Sweep, End, EnginePort]:
    port = EnginePort(seed=seed)
    server = Server("http://simulated", transport=port, clock=port.now)
    isolation = Isolation(server, Lengths(Random(seed)), speculative=True)
    found = Sweep(isolation, contexts=doubling(64, limit), batches=(1,), classes=CLASSES, budget=budget, clock=port.now)
    return found, found.run(lambda progress: None, lambda point: None), port


def profile(points: list[Measured]) -> Profile:
    found = fit_measured(points, name="sim", identity=Identity(model="m"), judged={}, interval=1)
    assert isinstance(found, Profile)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_step_times_are_met_within_three_percent_everywhere(seed: int) -> None:
    found, end, _ = sweep(seed)
    assert end == "complete"
    fitted = profile(found.points)
    for i in range(300):
        context = 64 * (8192 / 64) ** (i / 299)
        assert fitted.step_time.seconds(1, context) == pytest.approx(step_seconds(1, context), rel=0.03), context
        assert fitted.covers(1, context)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_accept_means_are_met_within_their_sampling_error(seed: int) -> None:
    found, _, _ = sweep(seed)
    for text in TEXT_CLASSES:
        own = [point for point in found.points if point.text_class == text.name]
        steps = sum(point.accept_steps for point in own)
        mean = sum((point.accept_length or 0) * point.accept_steps for point in own) / steps
        assert steps > 300
        assert mean == pytest.approx(text.mean, abs=3.5 * sqrt(text.variance / steps))


def test_the_band_is_that_of_the_service_s_own_noise() -> None:
    fitted = profile(sweep()[0].points)
    # What a single step scatters by, with the memory from step to step that means over many steps contain.
    widest = 1.645 * NOISE_SIGMA * sqrt((1 + NOISE_MEMORY) / (1 - NOISE_MEMORY))
    band = fitted.band()
    assert 1 + 0.6 * 1.645 * NOISE_SIGMA < band.high < 1 + 1.6 * widest


def test_prefill_is_told_apart_from_decoding() -> None:
    rate = profile(sweep()[0].points).prefill_tokens_per_second
    assert rate is not None
    assert 3000 < rate < 4600


def test_the_profile_can_be_read_back() -> None:
    fitted = profile(sweep(limit=1024)[0].points)
    assert isinstance(read_profile(write_profile(fitted)), Profile)


def test_where_time_costs_bend_contexts_are_added() -> None:
    found, _, _ = sweep()
    contexts = sorted({point.context_target for point in found.points})
    assert set(doubling(64, 8192)) < set(contexts)
    between = [b / a for a, b in pairwise(contexts) if 2000 <= a <= 4000]
    assert max(between) < 1.5


def test_when_time_is_up_what_was_measured_still_makes_a_profile() -> None:
    found, end, _ = sweep(budget=60.0)
    assert end == "time"
    assert len(found.points) >= 8
    fitted = profile(found.points)
    assert fitted.step_time.seconds(1, 256) == pytest.approx(step_seconds(1, 256), rel=0.08)


def test_no_prompt_is_helped_by_the_prefix_cache() -> None:
    found, _, port = sweep(limit=1024)
    (load,) = port.service.loads()
    assert load.cached_tokens < 0.02 * load.computed_tokens
    assert all(point.prompt_tokens > 0 for point in found.points)


def test_a_sweep_goes_on_from_what_was_kept() -> None:
    first, _, _ = sweep(budget=60.0)
    port = EnginePort(seed=5)
    server = Server("http://simulated", transport=port, clock=port.now)
    again = Sweep(
        Isolation(server, Lengths(Random(5)), speculative=True),
        contexts=doubling(64, 8192),
        batches=(1,),
        classes=CLASSES,
        budget=7200.0,
        clock=port.now,
        points=first.points,
    )
    kept = len(again.points)
    assert again.run(lambda progress: None, lambda point: None) == "complete"
    assert kept == len(first.points)
    assert again.points[:kept] == first.points


@pytest.mark.parametrize("batch", [2, 4, 6, 12])
def test_batches_are_timed_while_they_are_whole(batch: int) -> None:
    port = EnginePort(seed=batch)
    isolation = Isolation(
        Server("http://simulated", transport=port, clock=port.now), Lengths(Random(3)), speculative=True
    )
    port.batch = batch
    points = [isolation.point(text_class, 512, batch) for text_class in CLASSES for _ in range(4)]
    steps = sum(point.steps for point in points)
    mean = sum(point.step_seconds * point.steps for point in points) / steps
    truth = sum(step_seconds(batch, point.total_context) * point.steps for point in points) / steps
    assert mean == pytest.approx(truth, rel=0.03)
    assert all(point.batch == batch for point in points)


def test_a_profile_over_batches_meets_each_of_them() -> None:
    port = EnginePort(seed=9)
    isolation = Isolation(
        Server("http://simulated", transport=port, clock=port.now), Lengths(Random(9)), speculative=True
    )
    points = []
    for batch in (1, 2, 4, 8):
        port.batch = batch
        points += [
            isolation.point(c, context, batch) for c in CLASSES for context in (128, 512, 1024) for _ in range(3)
        ]
    fitted = profile(points)
    for batch in (1, 2, 4, 8):
        for context in (128, 512, 1024):
            truth = step_seconds(batch, batch * context)
            assert fitted.step_time.seconds(batch, batch * context) == pytest.approx(truth, rel=0.04), (batch, context)


def test_where_answers_do_not_count_steps_the_moments_do() -> None:
    port = EnginePort(seed=4)
    port.counts_steps = False
    isolation = Isolation(
        Server("http://simulated", transport=port, clock=port.now), Lengths(Random(4)), speculative=True
    )
    points = [isolation.point("reasoning", 1024) for _ in range(6)]
    steps = sum(point.steps for point in points)
    mean = sum(point.step_seconds * point.steps for point in points) / steps
    assert mean == pytest.approx(step_seconds(1, 1024), rel=0.03)
    accept = sum((point.accept_length or 0) * point.accept_steps for point in points) / steps
    assert accept == pytest.approx(2.9, rel=0.15)


def test_where_nobody_counts_steps_it_says_so() -> None:
    port = EnginePort(seed=4)
    port.counts_steps = False
    isolation = Isolation(
        Server("http://simulated", transport=port, clock=port.now), Lengths(Random(4)), speculative=True
    )
    # So few steps that the moments have not been refreshed.
    with pytest.raises(ProbeFailed, match="fit its log instead"):
        isolation.point("predictable", 64)
