"""The fit meets truths of another form than its own, keeps its promise on unseen samples, and is never fooled."""

import math
import random
from itertools import pairwise

import pytest

from ddwatch.core.expectation.quantiles import quantile
from ddwatch.core.expectation.retention import Observation, Retention
from ddwatch.core.expectation.step_fit import QUANTILES, StepFit, batch_knots, context_knots, fit_step_time, ratio_band
from ddwatch.core.expectation.step_time import covers
from tests.core.expectation.worlds import GRAPHS, TRUTHS, Truth, World, power, world

SEEDS = (11, 12, 13)
HELD_OUT = 2000


def learned(service: World, count: int = 4000) -> StepFit:
    """A fit on what a log of that many clean lines leaves behind."""
    kept = Retention()
    for _ in range(count):
        kept.add(service.observation())
    return fit_step_time(list(kept), GRAPHS)


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_targets_hold_on_other_functional_forms(truth: Truth, seed: int) -> None:
    service = world(truth, seed)
    fit = learned(service)

    misfit = sorted(
        abs(fit.step_time.seconds(batch, total) / truth(batch, total) - 1.0)
        for batch, total in (service.load() for _ in range(1000))
        if covers(fit.regions, batch, total)
    )
    held_out = [service.observation() for _ in range(HELD_OUT)]
    low, high = ratio_band(fit.residual_quantiles[1], fit.residual_quantiles[5])
    inside = sum(
        low <= fit.step_time.seconds(item.batch, item.total_context) / item.step_seconds <= high for item in held_out
    )

    assert len(misfit) > 950
    assert quantile(misfit, 0.5) <= 0.03
    assert quantile(misfit, 0.95) <= 0.05
    assert 0.87 <= inside / HELD_OUT <= 0.93


def test_it_is_monotone_in_batch_and_in_total_context() -> None:
    fit = learned(world(power, 5), 1500)
    for batch in range(1, 25):
        row = [fit.step_time.seconds(batch, total) for total in range(100, 400_000, 9_000)]
        above = [fit.step_time.seconds(batch + 1, total) for total in range(100, 400_000, 9_000)]
        assert all(left <= right + 1e-12 for left, right in pairwise(row))
        assert all(left <= right + 1e-12 for left, right in zip(row, above, strict=True))


def test_a_stair_of_a_graph_is_met_and_not_smoothed() -> None:
    fit = learned(world(power, 6))
    rise = fit.step_time.seconds(9, 20_000) - fit.step_time.seconds(8, 20_000)
    flat = fit.step_time.seconds(12, 20_000) - fit.step_time.seconds(9, 20_000)

    assert rise == pytest.approx(power(9, 20_000) - power(8, 20_000), abs=0.0008)
    assert flat < 0.0006


def test_one_sample_in_ten_may_be_nonsense() -> None:
    service = world(power, 7)
    items = [service.observation() for _ in range(2000)]
    spoiled = [
        item
        if index % 10
        else Observation(batch=item.batch, total_context=item.total_context, step_seconds=item.step_seconds * 4.0)
        for index, item in enumerate(items)
    ]
    fit = fit_step_time(spoiled, GRAPHS)

    misfit = sorted(
        abs(fit.step_time.seconds(batch, total) / power(batch, total) - 1.0)
        for batch, total in (service.load() for _ in range(500))
    )
    assert quantile(misfit, 0.5) <= 0.015
    assert quantile(misfit, 0.95) <= 0.04


def test_samples_that_rounding_spoils_count_for_less() -> None:
    # At 0.05 tok/s two decimals are a tenth of the value; such windows must not blur what the exact ones say.
    draw = random.Random(8)
    exact, coarse = [], []
    for index in range(1200):
        total = draw.uniform(1000.0, 4000.0)
        step = (0.02 + 1e-5 * total) * math.exp(draw.gauss(0.0, 0.01))
        if index % 3 == 0:
            exact.append(Observation(batch=1, total_context=total, step_seconds=step))
        else:
            throughput = round(0.05 * math.exp(draw.gauss(0.0, 0.2)), 2)
            shown = step * math.exp(draw.gauss(0.0, 0.005 / throughput))
            coarse.append(Observation(batch=1, total_context=total, step_seconds=shown, throughput=throughput))
    weighed = fit_step_time([*exact, *coarse])

    for total in (1500.0, 2500.0, 3500.0):
        assert weighed.step_time.seconds(1, total) == pytest.approx(0.02 + 1e-5 * total, rel=0.006)


def test_exact_data_give_the_exact_curve() -> None:
    stairs = {1: 0.0, 2: 0.004, 3: 0.011, 4: 0.011}

    def truth(batch: int, total: float) -> float:
        return 0.02 + stairs[batch] + 1e-5 * total

    draw = random.Random(1)
    items = [
        Observation(batch=batch, total_context=total, step_seconds=truth(batch, total))
        for batch, total in ((draw.randint(1, 4), draw.uniform(100.0, 9000.0)) for _ in range(600))
    ]
    fit = fit_step_time(items)

    for batch in stairs:
        for total in (150.0, 1000.0, 8000.0):
            assert fit.step_time.seconds(batch, total) == pytest.approx(truth(batch, total), rel=1e-7)
    assert fit.fit_error < 0.001


def test_memory_from_sample_to_sample_is_measured() -> None:
    draw = random.Random(2)
    items: list[Observation] = []
    drift = 0.0
    for _ in range(1500):
        drift = 0.6 * drift + draw.gauss(0.0, 0.02)
        items.append(
            Observation(batch=1, total_context=draw.uniform(900.0, 1100.0), step_seconds=0.05 * math.exp(drift))
        )
    fit = fit_step_time(items, (), list(pairwise(items)))

    assert fit.lag1 == pytest.approx(0.6, abs=0.06)
    assert fit_step_time(items).lag1 is None


def test_regions_say_where_the_evidence_is_and_how_well_it_is_met() -> None:
    draw = random.Random(3)
    loads = [(1, draw.uniform(500, 1000)) for _ in range(50)] + [(1, draw.uniform(8000, 9000)) for _ in range(50)]
    loads += [(4, 3000.0)] * 5
    items = [Observation(batch=b, total_context=t, step_seconds=0.03 + 1e-6 * t) for b, t in loads]
    fit = fit_step_time(items)

    assert covers(fit.regions, 1, 700)
    assert covers(fit.regions, 1, 8500)
    assert not covers(fit.regions, 1, 3000)
    assert not covers(fit.regions, 4, 3000)
    assert fit.fit_error < 0.01
    assert [region.samples for region in fit.regions] == [50, 50]
    dense = [Observation(batch=1, total_context=100.0 * 1.01**index, step_seconds=0.03) for index in range(400)]
    parts = fit_step_time(dense).regions
    assert [part.samples for part in parts] == [40] * 10
    assert all(left.total_context[1] == right.total_context[0] for left, right in pairwise(parts))


def test_a_few_stray_samples_do_not_stretch_the_evidence() -> None:
    items = [Observation(batch=1, total_context=1000.0 + index, step_seconds=0.03) for index in range(1000)]
    items += [Observation(batch=1, total_context=3500.0, step_seconds=0.03)] * 8
    regions = fit_step_time(items).regions
    assert covers(regions, 1, 2400)
    assert not covers(regions, 1, 3500)
    assert regions[0].total_context[0] == 1020.0


def test_a_curve_that_misses_says_by_how_much() -> None:
    # A step time that falls with context cannot be met by a rising curve.
    draw = random.Random(4)
    items = [
        Observation(
            batch=1, total_context=total, step_seconds=(0.06 if total < 2000 else 0.05) * math.exp(draw.gauss(0, 0.01))
        )
        for total in (draw.uniform(1000, 4000) for _ in range(600))
    ]
    fit = fit_step_time(items)

    assert math.log(0.06 / 0.05) / 2 < fit.fit_error < math.log(0.06 / 0.05) * 1.05


@pytest.mark.parametrize("count", [1, 2, 5, 9, 12])
def test_few_samples_break_nothing_and_their_band_is_not_narrow(count: int) -> None:
    service = world(power, count)
    items = [service.observation() for _ in range(count)]
    fit = fit_step_time(items)

    assert len(fit.residual_quantiles) == len(QUANTILES)
    assert list(fit.residual_quantiles) == sorted(fit.residual_quantiles)
    assert fit.step_time.seconds(1, 1000) > 0.0


def test_knots_stand_where_samples_are() -> None:
    assert context_knots([500.0] * 40) == (500.0,)
    two = context_knots([100.0] * 30 + [6400.0] * 30)
    assert two[0] == 100.0 and two[-1] == 6400.0
    assert len(two) == 2
    assert batch_knots([1] * 20 + [2] * 20 + [3] * 2 + [8] * 20) == (1.0, 2.0, 8.0)


def test_many_batches_take_their_knots_from_the_graphs() -> None:
    batches = [batch for batch in range(1, 61) for _ in range(20)]
    assert batch_knots(batches, (8, 16, 32)) == (1.0, 8.0, 9.0, 16.0, 17.0, 32.0, 33.0, 60.0)
    spread_out = batch_knots(batches)
    assert spread_out[0] == 1.0 and spread_out[-1] == 60.0
    assert len(spread_out) <= 24
