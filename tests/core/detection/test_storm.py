"""One restart or retraction is normal; many within a short time are one incident."""

from ddwatch.core.detection.storm import RESTARTS, RETRACTIONS, Storm
from tests.core.detection.traffic import START


def phase(storm: Storm, at: float) -> str | None:
    """Its phase at this many seconds."""
    state = storm.state(START + at)
    return None if state is None else state.phase


def test_three_restarts_in_half_an_hour_are_a_storm() -> None:
    storm = Storm(*RESTARTS)
    courses = []
    for minute in (0.0, 10.0, 20.0):
        storm.see(START + 60.0 * minute)
        courses.append(phase(storm, 60.0 * minute))

    assert courses == [None, "pending", "firing"]
    state = storm.state(START + 1300.0)
    assert state is not None and state.what == "3 restarts" and state.since == START


def test_restarts_far_apart_are_none() -> None:
    storm = Storm(*RESTARTS)
    for hour in range(6):
        storm.see(START + 3600.0 * hour)
        assert phase(storm, 3600.0 * hour + 1.0) is None


def test_two_near_and_one_late_are_none() -> None:
    storm = Storm(*RESTARTS)
    for minute in (0.0, 25.0, 50.0):
        storm.see(START + 60.0 * minute)

    assert phase(storm, 3001.0) != "firing"


def test_it_is_one_incident_that_ends_once() -> None:
    storm = Storm(*RETRACTIONS)
    for second in range(0, 300, 10):
        storm.see(START + second)
    assert phase(storm, 300.0) == "firing"

    assert phase(storm, 409.0) == "firing"
    assert phase(storm, 411.0) == "resolved"
    assert phase(storm, 900.0) is None
    storm.see(START + 1000.0)
    assert phase(storm, 1000.0) is None


def test_ranks_that_retract_at_once_are_one() -> None:
    storm = Storm(*RETRACTIONS)
    for rank in range(16):
        storm.see(START + 0.01 * rank)

    assert phase(storm, 1.0) is None
