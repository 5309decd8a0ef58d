"""The backtest finds what is injected, reports what was there before, and gives honest intervals."""

from math import exp
from random import Random

import pytest

from ddwatch.core.detection.backtest import (
    CHANGES,
    Change,
    Item,
    Restarted,
    altered,
    backtest,
    median_interval,
    poisson_interval,
)
from tests.core.detection.profiled import PROFILE, sample
from tests.core.detection.traffic import START


def recording(lines: int, *, slow_from: int | None = None, seed: int = 1) -> list[Item]:
    """Samples of growing contexts two seconds apart, with a restart in the middle."""
    random = Random(seed)
    items: list[Item] = []
    for number in range(lines):
        ratio = exp(0.02 * random.gauss(0.0, 1.0)) * (1.3 if slow_from is not None and number >= slow_from else 1.0)
        if number == lines // 2:
            items.append(Restarted(START + 2.0 * number - 1.0))
        items.append(sample(START + 2.0 * number, ratio, total=2000 + 40 * (number % 400)))
    return items


def test_every_injected_change_is_found_by_its_right_name() -> None:
    result = backtest(recording(2000), PROFILE, trials=6)

    for one in result.found:
        assert (one.found, one.wrong, one.trials) == (6, 0, 6), one.change.name
    by_name = {one.change.name: one for one in result.found}
    fifteen = by_name["15 % slower"].lines
    assert fifteen is not None and fifteen.value <= 12.0
    assert result.incidents == {}
    assert result.judged == result.samples == 2000
    assert result.hours == pytest.approx(2000 * 2.0 / 3600.0, rel=0.01)


def test_what_fired_anyway_is_counted() -> None:
    result = backtest(recording(1000, slow_from=600), PROFILE, changes=(), trials=1)

    assert result.incidents == {"slow-step": 1}
    assert result.false_per_day is not None and result.false_per_day.low > 0.0


def test_the_same_recording_gives_the_same_figures() -> None:
    items = recording(600)

    assert backtest(items, PROFILE, trials=3, changes=CHANGES[:2]) == backtest(
        items, PROFILE, trials=3, changes=CHANGES[:2]
    )


def test_a_recording_without_judged_samples_has_no_figures() -> None:
    result = backtest([sample(START, 1.0, total=90000)], PROFILE, trials=3)

    assert result.false_per_day is None
    assert all(one.trials == 0 and one.lines is None for one in result.found)


def test_a_change_that_is_too_small_is_missed_not_invented() -> None:
    tiny = Change(name="2 % slower", finds="slow-step", factor=1.02)
    (one,) = backtest(recording(1200), PROFILE, trials=5, changes=(tiny,)).found

    assert (one.found, one.lines) == (0, None)


def test_an_altered_sample_reads_as_the_log_would() -> None:
    before = sample(START, 1.0)
    slower = altered(before, CHANGES[2], 0.0, PROFILE)
    broken = altered(before, CHANGES[-1], 0.0, PROFILE)

    assert before.step_seconds is not None and slower.step_seconds is not None
    assert slower.step_seconds == pytest.approx(1.3 * before.step_seconds)
    assert slower.throughput == pytest.approx(1 * 3.0 / slower.step_seconds)
    assert broken.step_seconds == before.step_seconds
    assert broken.throughput == pytest.approx(1.15 / before.step_seconds)


def test_intervals_agree_with_the_tables() -> None:
    none = poisson_interval(0, 1.0)
    three = poisson_interval(3, 1.0)

    assert none.low == 0.0 and none.high == pytest.approx(3.689, abs=0.01)
    assert three.low == pytest.approx(0.619, abs=0.01) and three.high == pytest.approx(8.767, abs=0.01)
    ten = median_interval([float(value) for value in range(1, 11)])
    assert ten is not None and (ten.low, ten.high) == (2.0, 9.0)


def test_missed_trials_leave_the_median_open_above() -> None:
    half = median_interval([1.0, 2.0, 3.0, 4.0], missed=4)

    assert half is not None and half.high is None
