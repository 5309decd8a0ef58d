"""One door to all detectors: each hears what it needs, and a restart reaches all of them."""

import pytest

from ddwatch.core.detection.together import Detectors
from ddwatch.core.records import DecodeBatch, Retraction, ServerReady, ServerStart, ServerStop, SpeculationSetup
from ddwatch.core.snapshot import Sample
from tests.core.detection.profiled import PROFILE, ratios, sample
from tests.core.detection.traffic import START


def names(detectors: Detectors, at: float) -> dict[str, str]:
    """Name -> phase of what is suspected."""
    return {one.name: one.phase for one in detectors.suspicions(START + at)}


def play(detectors: Detectors, ratio: float, lines: int, start: float = 0.0) -> float:
    """Samples two seconds apart; when they end."""
    at = start
    for one in ratios(ratio, lines):
        at += 2.0
        detectors.sample(sample(START + at, one))
    return at


def test_without_a_profile_it_judges_no_step_and_forbids_no_learning() -> None:
    detectors = Detectors()
    at = play(detectors, 3.0, 100)

    assert names(detectors, at) == {}
    assert not detectors.suspicious and detectors.standing == "not judged" and detectors.stated() == ()


def test_a_profile_that_comes_later_judges_from_then_on() -> None:
    detectors = Detectors()
    detectors.use(PROFILE)
    at = play(detectors, 1.3, 20)

    assert names(detectors, at) == {"slow-step": "firing"}
    assert detectors.suspicious and detectors.standing == "judged"
    assert detectors.stated()[0].false_alarms_per_day < 0.05


def test_a_restart_resolves_and_the_third_within_half_an_hour_is_a_storm() -> None:
    detectors = Detectors(PROFILE)
    detectors.record(ServerStart(at=START))
    at = play(detectors, 1.3, 20)
    phases = []
    for _ in range(3):
        at += 300.0
        detectors.record(ServerStart(at=START + at))
        phases.append(names(detectors, at).get("restarts"))

    assert phases == [None, "pending", "firing"]
    assert not detectors.suspicious


def test_restarts_that_somebody_wished_are_none_of_them() -> None:
    wished, killed = Detectors(), Detectors()
    for number in range(6):
        at = START + 60.0 * number
        for detectors in (wished, killed):
            detectors.restarted(at)
        # A supervisor that ends it before it is ready stops it in order too.
        wished.record(ServerReady(at=at + 20.0))
        wished.record(ServerStop(at=at + 50.0))
        killed.record(ServerStop(at=at + 50.0))

    assert names(wished, 310.0) == {}
    assert names(killed, 310.0) == {"restarts": "firing"}


def test_retractions_come_in_storms() -> None:
    detectors = Detectors(PROFILE)
    for second in range(0, 50, 10):
        detectors.record(Retraction(at=START + second, requests=2))

    assert names(detectors, 41.0) == {"retractions": "firing"}


def test_silence_is_heard_here_too() -> None:
    detectors = Detectors(PROFILE)
    detectors.record(DecodeBatch(at=START, running=2))

    assert names(detectors, 60.0) == {"silent": "firing"}


def test_the_block_size_comes_from_the_drafters_own_line() -> None:
    detectors = Detectors(PROFILE)
    detectors.record(SpeculationSetup(at=START, block_size=16))
    for second in range(100):
        detectors.sample(Sample(at=START + second, batch=1, accept_length=15.9, context_tokens=4000.0))

    assert names(detectors, 100.0) == {"high-accept": "firing"}


def test_a_change_of_text_is_handed_out_once() -> None:
    detectors = Detectors(PROFILE)
    changes = [
        detectors.sample(Sample(at=START + second, batch=1, accept_length=5.2 if second < 100 else 2.9))
        for second in range(200)
    ]

    (change,) = [one for one in changes if one is not None]
    assert change.before == pytest.approx(5.2, abs=0.2)
    assert change.after == pytest.approx(2.9, abs=0.1)
