"""A lasting change of text is one event; chance is none."""

from random import Random

import pytest

from ddwatch.core.detection.text import TextChanged, TextWatch
from tests.core.detection.traffic import START, accept_samples


def changes(*texts: tuple[float, int], seed: int = 1, steps: int = 40) -> list[TextChanged]:
    """Plays (mean accept length, lines) one after another."""
    random, watch, start = Random(seed), TextWatch(), START
    found = []
    for mean, lines in texts:
        for sample in accept_samples(random, mean, lines, start=start, steps=steps):
            change = watch.see(sample)
            if change is not None:
                found.append(change)
        start += 0.05 * steps * lines
    return found


@pytest.mark.parametrize("seed", range(5))
def test_from_code_to_reasoning_is_one_event_near_its_time(seed: int) -> None:
    (change,) = changes((5.2, 100), (2.9, 100), seed=seed)

    assert change.before == pytest.approx(5.2, abs=0.5)
    assert change.after == pytest.approx(2.9, abs=0.5)
    assert abs(change.since - (START + 200.0)) <= 15.0
    assert change.sentence() == f"text changed: accept length {change.before:.1f} -> {change.after:.1f}"


def test_there_and_back_are_two_events() -> None:
    assert len(changes((5.2, 100), (2.9, 100), (5.2, 100))) == 2


@pytest.mark.parametrize("steps", [1, 5, 40])
@pytest.mark.parametrize("mean", [1.5, 2.9, 7.4])
def test_the_same_text_for_hours_is_none(steps: int, mean: float) -> None:
    assert changes((mean, 144000 // steps), seed=2, steps=steps) == []


def test_after_a_restart_it_compares_with_nothing_before() -> None:
    watch = TextWatch()
    for sample in accept_samples(Random(1), 5.2, 100):
        watch.see(sample)
    watch.restart()

    assert [watch.see(sample) for sample in accept_samples(Random(1), 2.9, 100, start=START + 300.0)] == [None] * 100
