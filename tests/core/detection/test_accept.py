"""Accept length: a broken drafter and a repetition loop are told, a change of text is not."""

from random import Random

import pytest

from ddwatch.core.detection.accept import AcceptDetector
from ddwatch.core.expectation.accept import AcceptCurve, curve
from ddwatch.core.records import PrefillBatch
from tests.core.detection.traffic import START, accept_samples


def learned(*means: tuple[str, float]) -> tuple[AcceptCurve, ...]:
    """Curves over what such text gave before."""
    found = []
    for name, mean in means:
        windows = [
            (sample.context_tokens or 0.0, sample.accept_length or 0.0)
            for sample in accept_samples(Random(5), mean, 200)
        ]
        made = curve(name, windows)
        assert made is not None
        found.append(made)
    return tuple(found)


def played(detector: AcceptDetector, *texts: tuple[float, int], seed: int = 1, steps: int = 40) -> list[str]:
    """Plays (mean accept length, lines) one after another; the changes of `name phase`."""
    random = Random(seed)
    told: list[str] = []
    start = START
    for mean, lines in texts:
        for sample in accept_samples(random, mean, lines, start=start, steps=steps):
            detector.see(sample)
            for one in detector.suspicions(sample.at):
                words = f"{one.name} {one.phase}"
                if not told or told[-1] != words:
                    told.append(words)
        start += 0.05 * steps * lines
    return told


@pytest.mark.parametrize("steps", [1, 40])
def test_a_broken_drafter_is_told_within_a_minute(steps: int) -> None:
    detector = AcceptDetector(block_size=16)
    told = played(detector, (5.2, 4000 // steps), (1.15, 1200 // steps), steps=steps)

    assert "low-accept firing" in told
    (low,) = detector.suspicions(START + 260.0)
    assert low.what.startswith("accept length 1.1")


def test_it_recovers_once() -> None:
    detector = AcceptDetector(block_size=16)

    assert played(detector, (5.2, 60), (1.1, 100), (5.2, 100)) == [
        "low-accept pending",
        "low-accept firing",
        "low-accept resolved",
    ]


@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("seed", range(5))
def test_code_then_reasoning_is_silent_when_reasoning_was_never_learned(seed: int, steps: int) -> None:
    detector = AcceptDetector(learned(("code", 5.2)), block_size=16)

    assert "firing" not in " ".join(
        played(detector, (5.2, 8000 // steps), (2.9, 16000 // steps), (1.8, 16000 // steps), seed=seed, steps=steps)
    )


def test_inside_the_learned_range_nothing_is_suspected() -> None:
    detector = AcceptDetector(learned(("code", 5.2), ("reasoning", 2.9)), block_size=16)

    assert played(detector, (5.2, 200), (2.9, 400), (7.4, 200)) == []


@pytest.mark.parametrize("seed", range(4))
def test_single_steps_of_a_learned_text_are_not_below_what_windows_of_it_were(seed: int) -> None:
    """A step commits a whole number of tokens, most often fewer than the mean; p1 is one of means."""
    detector = AcceptDetector(learned(("code", 5.2), ("reasoning", 2.9)), block_size=16)

    assert "firing" not in " ".join(played(detector, (2.9, 12000), seed=seed, steps=1))


def test_below_all_that_was_learned_is_told_only_after_two_minutes() -> None:
    detector = AcceptDetector(learned(("predictable", 7.4), ("code", 5.2)), block_size=16)

    assert "low-accept firing" not in played(detector, (5.2, 100), (1.8, 55))
    assert "low-accept firing" in played(detector, (1.8, 60))


def test_text_of_a_kind_that_was_never_learned_is_no_worse_drafter() -> None:
    detector = AcceptDetector(learned(("predictable", 7.4), ("code", 5.2)), block_size=16)

    assert played(detector, (5.2, 100), (2.9, 600)) == [], "and nothing is kept from learning it"


def test_after_a_broken_drafter_any_text_of_a_working_one_ends_it() -> None:
    detector = AcceptDetector(learned(("predictable", 7.4), ("code", 5.2)), block_size=16)
    told = played(detector, (5.2, 100), (1.1, 100), (2.9, 200))

    assert told[-1] == "low-accept resolved"


def test_a_repetition_loop_is_told() -> None:
    detector = AcceptDetector(block_size=16)
    told = played(detector, (5.2, 60), (15.8, 40))

    assert told == ["high-accept pending", "high-accept firing"]


def test_predictable_text_is_no_loop() -> None:
    assert played(AcceptDetector(block_size=16), (7.4, 100), (11.0, 100)) == []


def test_without_a_block_size_nothing_is_high() -> None:
    assert played(AcceptDetector(), (15.8, 100)) == []


def test_a_restart_forgets() -> None:
    detector = AcceptDetector(block_size=16)
    played(detector, (1.1, 100))
    detector.restart(START + 200.0)

    assert not detector.suspicious


def test_contaminated_and_incomplete_samples_are_left_out() -> None:
    detector = AcceptDetector(block_size=16)
    for sample in accept_samples(Random(1), 1.1, 200):
        detector.see(type(sample)(at=sample.at, batch=1, accept_length=sample.accept_length, flags=("warming",)))
        detector.see(type(sample)(at=sample.at, batch=1))

    assert detector.suspicions(START + 400.0) == ()


def test_what_a_prefix_cache_restored_before_is_evidence_until_a_restart() -> None:
    detector = AcceptDetector(block_size=16)
    detector.prefilled(PrefillBatch(at=START - 9.0, new_tokens=4000, cached_tokens=3000))
    detector.prefilled(PrefillBatch(at=START - 5.0, new_tokens=120, cached_tokens=5200))
    detector.prefilled(PrefillBatch(at=START - 1.0, new_tokens=60, cached_tokens=64))
    played(detector, (1.1, 60))

    (low,) = detector.suspicions(START + 120.0)
    assert (low.evidence["restored_at"], low.evidence["restored_tokens"]) == (START - 5.0, 5200)
    detector.restart(START + 130.0)
    played(detector, (1.1, 60))
    (low,) = detector.suspicions(START + 120.0)
    assert low.evidence["restored_tokens"] is None
