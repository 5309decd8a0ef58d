"""What a restart did to each step is found, with its interval, and nothing else is taken for it."""

from itertools import pairwise
from math import isclose

import pytest

from ddwatch.core.comparison.outcome import Comparison, compare
from ddwatch.core.comparison.words import sentence
from tests.core.comparison.service import Service, Slow, side, unchanged

FLAGS = ("+reasoning_parser kimi_k2", "+tool_call_parser kimi_k2")


def founding(seed: int, slow: Slow = unchanged) -> Comparison:
    """Predictable text around 2.3k tokens, then reasoning up to 6k."""
    before = Service(seed).samples(2000, contexts=(1900.0, 2700.0), accept=7.4)
    after = Service(seed + 1000, slow=slow)
    return compare(
        side(before),
        side(
            after.samples(300, contexts=(1330.0, 2150.0), accept=2.9),
            after.samples(300, contexts=(2290.0, 3150.0), accept=2.9),
            after.samples(900, contexts=(3239.0, 5989.0), accept=2.9),
        ),
    )


def test_the_founding_restart_changed_no_step_although_tokens_per_second_fell_fourfold() -> None:
    found = founding(1)

    assert found.outcome == "accept-fell"
    assert found.step_seconds is not None and found.accept_length is not None and found.shares is not None
    ratio = found.step_seconds.ratio
    assert ratio.low < 1.0 < ratio.high and ratio.high - ratio.low < 0.03
    assert found.accept_length.ratio.low < 2.9 / 7.4 < found.accept_length.ratio.high
    assert found.shares.ratio < 0.3
    assert found.shares.accept_length == pytest.approx(0.39, abs=0.03)
    assert found.shares.batch == 1.0
    words = sentence(found, "the restart", FLAGS)
    assert words.startswith("the restart changed step time by ")
    assert ": the new flags are not the cause; the fall from 1" in words
    assert "tok/s is accept length ×0.40 and context ×0.59" in words


@pytest.mark.parametrize("slow", [unchanged, lambda seconds: seconds + 0.031, lambda seconds: seconds * 1.15])
def test_the_factors_multiply_to_the_ratio_of_the_rates_exactly(slow: Slow) -> None:
    found = founding(2, slow)
    parts, old, new = found.shares, found.before.tokens_per_second, found.after.tokens_per_second

    assert parts is not None and parts.context is not None and parts.batch is not None
    assert old is not None and new is not None
    assert isclose(parts.accept_length * parts.context * parts.batch * parts.step_time, new / old, rel_tol=1e-12)
    assert isclose(parts.load, parts.context * parts.batch, rel_tol=1e-12)
    for one in (found.before, found.after):
        assert one.batch and one.accept_length and one.step_seconds and one.tokens_per_second
        assert isclose(one.tokens_per_second, one.batch * one.accept_length / one.step_seconds, rel_tol=1e-9)


def test_a_restart_that_adds_31_ms_to_each_step_is_found_and_measured_in_ms() -> None:
    found = founding(3, lambda seconds: seconds + 0.031)

    assert found.outcome == "slower"
    assert found.step_seconds is not None
    difference = found.step_seconds.difference
    assert difference.low < 0.031 < difference.high
    assert difference.value == pytest.approx(0.031, abs=0.0015)
    words = sentence(found, "the restart", FLAGS)
    assert f"each step takes {difference.value * 1e3:.1f} ms longer" in words
    assert "step time ×0." in words


def test_a_restart_that_slows_each_step_by_15_percent_is_found() -> None:
    found = founding(4, lambda seconds: seconds * 1.15)

    assert found.outcome == "slower"
    assert found.step_seconds is not None
    ratio = found.step_seconds.ratio
    assert ratio.low < 1.15 < ratio.high
    assert ratio.value == pytest.approx(1.15, abs=0.02)


def test_a_faster_restart_is_no_worse() -> None:
    found = founding(5, lambda seconds: seconds * 0.9)

    assert found.step_seconds is not None and found.step_seconds.ratio.high < 0.95
    assert found.outcome == "accept-fell"
    same_text = compare(
        side(Service(1).samples(500)), side(Service(2, slow=lambda seconds: seconds * 0.9).samples(500))
    )
    assert same_text.outcome == "faster"


def test_another_batch_is_a_factor_of_its_own_and_no_slower_step() -> None:
    before, after = Service(1), Service(2)
    found = compare(
        side(before.samples(900), before.samples(300, batch=2, contexts=(800.0, 1500.0))),
        side(after.samples(200), after.samples(900, batch=2, contexts=(800.0, 1500.0))),
    )

    assert found.outcome == "no-change"
    assert found.shares is not None and found.shares.batch is not None
    assert found.shares.batch > 1.05 and found.shares.context is not None and found.shares.context > 1.15
    assert found.shares.accept_length == pytest.approx(1.0, abs=0.06)


def test_without_a_common_load_nothing_is_extrapolated() -> None:
    short = Service(1).samples(500, contexts=(500.0, 900.0))
    long = Service(2, slow=lambda seconds: seconds * 3.0).samples(500, contexts=(4000.0, 6000.0))
    found = compare(side(short), side(long))

    assert found.outcome == "incomparable"
    assert found.step_seconds is None and found.shares is None
    words = sentence(found, "the restart", FLAGS)
    assert words.startswith("the restart cannot be judged: no batch and context was seen often enough on both sides")
    assert "before: batch 1 at 501 … 90" in words or "before: batch 1 at 50" in words
    assert "after: batch 1 at 4" in words


def test_another_batch_alone_is_no_common_load() -> None:
    found = compare(side(Service(1).samples(500)), side(Service(2).samples(500, batch=4)))

    assert found.outcome == "incomparable"


@pytest.mark.parametrize(("lines", "reason"), [(0, "no decode line after"), (10, "after, 10 of 10 decode lines")])
def test_too_few_lines_say_which_side_lacks_them(lines: int, reason: str) -> None:
    found = compare(side(Service(1).samples(500)), side(Service(2).samples(lines)))

    assert found.outcome == "incomparable"
    assert found.reason is not None and reason in found.reason


def test_other_contexts_inside_one_cell_are_no_slower_step() -> None:
    """At these contexts the step grows by 2.5 % for each 2 % of context; the cell spans 20 %."""
    before = Service(1).samples(600, contexts=(4550.0, 4900.0))
    after = Service(2).samples(600, contexts=(4850.0, 5300.0))
    found = compare(side(before), side(after))

    assert found.step_seconds is not None
    ratio = found.step_seconds.ratio
    assert ratio.low < 1.0 < ratio.high
    raw = (found.after.step_seconds or 0.0) / (found.before.step_seconds or 1.0)
    assert raw > 1.08 and abs(ratio.value - 1.0) < 0.03


@pytest.mark.parametrize("lag", [0.0, 0.3, 0.7])
def test_the_interval_holds_the_truth_as_often_as_it_says(lag: float) -> None:
    """Nineteen of twenty times; over 150 seeds at least 132 (chance of fewer by luck: 1 in 500 at 95 %)."""
    held = 0
    for seed in range(150):
        before = Service(seed, lag=lag).samples(200, contexts=(1900.0, 2300.0))
        after = Service(seed + 5000, lag=lag, slow=lambda seconds: seconds * 1.05)
        found = compare(side(before), side(after.samples(120, contexts=(1900.0, 2300.0))))
        assert found.step_seconds is not None
        held += found.step_seconds.ratio.low <= 1.05 <= found.step_seconds.ratio.high

    assert held >= 132


def test_one_odd_line_moves_nothing() -> None:
    plain = Service(1).samples(300)
    odd = [*plain]
    odd[150] = Service(9, slow=lambda seconds: 40.0).samples(1, contexts=(2000.0, 2001.0))[0]
    after = Service(2).samples(300)
    first, second = compare(side(after), side(plain)), compare(side(after), side(odd))

    assert first.step_seconds is not None and second.step_seconds is not None
    assert abs(first.step_seconds.ratio.value - second.step_seconds.ratio.value) < 0.02


def test_more_samples_narrow_the_interval() -> None:
    widths = []
    for lines in (60, 240, 960):
        found = compare(*(side(Service(seed).samples(lines, contexts=(1900.0, 2100.0))) for seed in (1, 2)))
        assert found.step_seconds is not None
        widths.append(found.step_seconds.ratio.high - found.step_seconds.ratio.low)

    assert all(wide > narrow for wide, narrow in pairwise(widths))
