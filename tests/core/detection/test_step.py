"""The step detector fires on steps that are really slower, early, and on nothing else."""

from math import log

import pytest

from ddwatch.core.detection.climb import SMALLEST_FIT_ERROR
from ddwatch.core.detection.noise import Noise
from ddwatch.core.detection.step import STALE_SECONDS
from ddwatch.core.detection.suspicion import SHOWN_SECONDS
from tests.core.detection.traffic import MODEL, Lines, factor


@pytest.mark.parametrize("seed", range(8))
def test_15_percent_is_found_within_a_dozen_lines(seed: int) -> None:
    lines = Lines(seed=seed)
    lines.play(150)
    lines.change(factor(1.15))

    found = lines.until_firing()

    assert found is not None and found <= 12


@pytest.mark.parametrize("seed", range(8))
def test_30_percent_is_found_within_four_lines_or_five(seed: int) -> None:
    lines = Lines(seed=seed)
    lines.play(150)
    lines.change(factor(1.30))

    found = lines.until_firing()

    assert found is not None and found <= 5


@pytest.mark.parametrize("steps", [1, 40])
def test_10_percent_is_found_within_five_minutes_of_traffic(steps: int) -> None:
    lines = Lines(steps=steps, spread=0.03)
    lines.play(300)
    lines.change(factor(1.10))

    assert lines.until_firing(300.0) is not None


def test_a_ramp_over_five_minutes_is_found_before_it_ends_or_soon_after() -> None:
    lines = Lines()
    lines.play(150)
    lines.change(lambda healthy, total, seconds: healthy * (1.0 + 0.25 * min(1.0, seconds / 300.0)))

    assert lines.until_firing(360.0) is not None


def test_a_process_that_is_born_slow_after_a_restart_is_found() -> None:
    lines = Lines()
    lines.play(100)
    lines.detector.restart(lines.at)
    lines.at += 600.0
    lines.change(factor(1.25))

    found = lines.until_firing()

    assert found is not None and found <= 6


def test_a_service_that_was_never_seen_fast_is_found() -> None:
    lines = Lines()
    lines.change(factor(1.25))

    found = lines.until_firing()

    assert found is not None and found <= 6
    told = lines.detector.state(lines.at)
    assert told is not None and told.since <= lines.changed_at + 4.0


@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("ratio", [0.5, 0.8, 0.9])
def test_faster_than_expected_never_fires(steps: int, ratio: float) -> None:
    lines = Lines(steps=steps)
    lines.change(factor(ratio))
    lines.play(1500)

    assert lines.phases == [None]


@pytest.mark.parametrize("steps", [1, 10, 40])
def test_hours_of_healthy_traffic_are_silent(steps: int) -> None:
    lines = Lines(steps=steps, spread=0.03, lag=0.6)
    lines.play(6000)

    assert "firing" not in lines.phases


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_a_hiccup_of_two_seconds_in_one_step_does_not_fire(steps: int) -> None:
    lines = Lines(steps=steps)
    for _ in range(40):
        lines.play(50)
        lines.line(extra=2.0)

    assert "firing" not in lines.phases


@pytest.mark.parametrize("steps", [1, 5, 10, 40])
def test_two_seconds_of_slow_steps_do_not_fire(steps: int) -> None:
    lines = Lines(steps=steps)
    for _ in range(20):
        lines.play(200)
        began = lines.at
        lines.change(lambda healthy, total, seconds: healthy * 3.0 if seconds < 2.0 else healthy)
        while lines.at < began + 2.0:
            lines.line()
        lines.change(None)

    assert "firing" not in lines.phases


def test_two_neighbouring_lines_that_share_a_hiccup_do_not_fire() -> None:
    lines = Lines()
    for _ in range(40):
        lines.play(50)
        lines.line(extra=1.0)
        lines.line(extra=1.0)

    assert "firing" not in lines.phases


def test_it_is_pending_before_it_fires_and_resolved_once_after() -> None:
    lines = Lines()
    lines.play(100)
    lines.change(factor(1.2))
    lines.play(60)
    lines.change(None)
    lines.play(120)

    assert lines.phases == [None, "pending", "firing", "resolved", None]


def test_a_firing_suspicion_stays_while_it_is_slow() -> None:
    lines = Lines()
    lines.play(100)
    lines.change(factor(1.12))
    assert lines.until_firing() is not None
    lines.play(3000)

    assert lines.phases == [None, "pending", "firing"]


def test_it_takes_a_while_of_expected_speed_to_resolve() -> None:
    lines = Lines()
    lines.play(100)
    lines.change(factor(1.2))
    lines.play(60)
    lines.change(None)
    began = lines.at
    while lines.phases[-1] == "firing":
        lines.line()

    assert 25.0 < lines.at - began < 90.0


def test_slow_and_healthy_stretches_of_ten_seconds_are_one_incident() -> None:
    lines = Lines(steps=10)
    lines.play(200)
    for _ in range(30):
        lines.change(factor(1.4))
        lines.play_seconds(10.0)
        lines.change(None)
        lines.play_seconds(10.0)

    assert lines.phases.count("firing") == 1
    assert lines.phases.count("resolved") == 0


def test_a_restart_resolves_with_that_reason() -> None:
    lines = Lines()
    lines.change(factor(1.3))
    assert lines.until_firing() is not None
    lines.detector.restart(lines.at + 1.0)

    told = lines.detector.state(lines.at + 1.0)
    assert told is not None and (told.phase, told.because) == ("resolved", "restart")
    assert lines.detector.state(lines.at + 2.0 + SHOWN_SECONDS) is None


def test_without_traffic_it_is_resolved_in_the_end_and_fires_again_when_still_slow() -> None:
    lines = Lines()
    lines.change(factor(1.3))
    assert lines.until_firing() is not None
    last = lines.at

    still = lines.detector.state(last + STALE_SECONDS - 1.0)
    over = lines.detector.state(last + STALE_SECONDS + 1.0)
    assert still is not None and still.phase == "firing"
    assert over is not None and (over.phase, over.because) == ("resolved", "no traffic")
    assert over.reached == last + STALE_SECONDS

    lines.at += 5 * STALE_SECONDS
    lines.lines = 0
    assert lines.until_firing() is not None


def test_idle_stretches_between_lines_keep_the_evidence() -> None:
    lines = Lines()
    lines.play(100)
    lines.change(factor(1.15))
    found = 0
    while not found:
        lines.line()
        lines.at += 300.0
        if lines.phases[-1] == "firing":
            found = lines.lines

    assert found <= 15


def test_the_onset_is_estimated_near_the_change() -> None:
    errors = []
    for seed in range(12):
        lines = Lines(seed=seed)
        lines.play(100 + seed)
        lines.change(factor(1.2))
        assert lines.until_firing() is not None
        told = lines.detector.state(lines.at)
        assert told is not None
        errors.append(abs(told.since - lines.changed_at))

    assert sorted(errors)[len(errors) // 2] <= 4.0


def test_a_clock_that_jumps_back_neither_fires_nor_hides() -> None:
    lines = Lines()
    lines.play(100)
    lines.at -= 3600.0
    lines.play(100)
    assert lines.phases == [None]

    lines.change(factor(1.2))
    assert lines.until_firing() is not None


def test_a_profile_from_quiet_windows_does_not_cry_over_noisy_steps() -> None:
    lines = Lines(steps=1, spread=0.06, lag=0.5, noise=Noise(0.01, 0.0))
    lines.play(8000)

    assert "firing" not in lines.phases
    assert lines.detector.stated().spread > 0.04


def test_what_it_states_of_itself() -> None:
    lines = Lines(spread=0.03, lag=0.6)
    lines.play(300)
    stated = lines.detector.stated()

    assert 0.0 < stated.false_alarms_per_day < 0.02
    assert stated.fit_error == SMALLEST_FIT_ERROR
    assert stated.allowance == pytest.approx((SMALLEST_FIT_ERROR + log(1.15)) / 2.0)
    assert stated.lines_to_find is not None and stated.lines_to_find <= 12.0
    told = lines.detector.state(lines.at)
    assert told is None


def test_noise_that_cannot_be_told_from_a_change_raises_the_threshold() -> None:
    quiet, loud = Lines(spread=0.02), Lines(spread=0.10, lag=0.6)
    quiet.play(300)
    loud.play(300)

    assert loud.detector.stated().threshold > 2.0 * quiet.detector.stated().threshold
    assert loud.detector.stated().false_alarms_per_day < 0.02


def test_a_model_that_has_learned_more_is_taken_over() -> None:
    lines = Lines()
    lines.play(50)
    lines.detector.use(MODEL, Noise(0.05, 0.7))

    assert (lines.detector.stated().spread, lines.detector.stated().lag) == (0.05, 0.7)


def test_two_hiccups_and_a_chance_line_in_one_block_do_not_fire() -> None:
    for seed in range(10):
        lines = Lines(seed=seed)
        lines.play(90 + seed)
        lines.line(extra=2.0)
        lines.line(extra=2.0)
        lines.line(extra=0.2)
        lines.play(60)

        assert "firing" not in lines.phases


def test_a_slowdown_that_scatters_wildly_is_found_all_the_same() -> None:
    lines = Lines()
    lines.play(100)
    lines.change(lambda healthy, total, seconds: healthy * lines.random.choice((1.2, 1.6, 2.2, 3.0)))
    found = lines.until_firing()

    assert found is not None and found <= 15


@pytest.mark.parametrize("seed", range(4))
def test_in_loud_traffic_twice_as_slow_is_still_found_soon(seed: int) -> None:
    lines = Lines(seed=seed, spread=0.13, lag=0.3)
    lines.play(300)
    assert "firing" not in lines.phases
    lines.change(factor(2.0))
    found = lines.until_firing()

    assert found is not None and found <= 20
