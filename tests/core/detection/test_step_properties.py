"""What holds of the step detector for any traffic."""

from math import exp

from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.detection.noise import Noise
from ddwatch.core.detection.step import StepDetector
from ddwatch.core.detection.suspicion import Phase
from tests.core.detection.traffic import MODEL, START

Item = tuple[float, float, float]
"""Seconds since the line before (or less than none), ln(step / expected), total context."""

ANY = st.tuples(
    st.one_of(st.floats(0.01, 10.0), st.floats(-4000.0, 8000.0)), st.floats(-1.5, 2.5), st.floats(1.0, 40000.0)
)
STRETCHES = st.lists(st.tuples(st.integers(1, 60), ANY), min_size=1, max_size=12)


def played(stretches: list[tuple[int, Item]]) -> list[Item]:
    """Stretches of equal lines."""
    return [item for count, item in stretches for _ in range(count)]


def course(items: list[Item], asked: list[float] | None = None) -> list[Phase | None]:
    """The phase after every line; `asked` are extra questions between lines, as shares of the way to the next."""
    detector = StepDetector(MODEL, Noise(0.02, 0.3))
    at = START
    phases: list[Phase | None] = []
    for gap, residual, total in items:
        for share in asked or []:
            detector.state(at + share * gap)
        at += gap
        expected = MODEL.seconds(1.0, total)
        detector.see(at, expected * exp(residual), expected, batch=1.0, total_context=total, fit_error=0.01)
        phases.append(detector.phase(at))
    return phases


@settings(derandomize=True, deadline=None, max_examples=60)
@given(STRETCHES)
def test_it_never_fires_without_having_been_pending(stretches: list[tuple[int, Item]]) -> None:
    before: Phase | None = None
    for phase in course(played(stretches)):
        if phase == "firing":
            assert before in ("pending", "firing")
        if phase == "resolved":
            assert before in ("firing", "resolved")
        before = phase


@settings(derandomize=True, deadline=None, max_examples=60)
@given(STRETCHES)
def test_faster_than_expected_suspects_nothing(stretches: list[tuple[int, Item]]) -> None:
    faster = [(gap, -abs(residual), total) for gap, residual, total in played(stretches)]

    assert set(course(faster)) == {None}


@settings(derandomize=True, deadline=None, max_examples=40)
@given(STRETCHES, st.lists(st.floats(0.0, 1.0), max_size=4))
def test_asking_at_any_time_changes_nothing(stretches: list[tuple[int, Item]], asked: list[float]) -> None:
    items = played(stretches)

    assert course(items, asked) == course(items)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(STRETCHES, st.integers(-(10**6), 10**6))
def test_only_differences_of_time_count(stretches: list[tuple[int, Item]], moved: int) -> None:
    items = [(round(gap), residual, total) for gap, residual, total in played(stretches)]
    shifted = [(items[0][0] + moved, *items[0][1:]), *items[1:]]

    assert course([(float(gap), residual, total) for gap, residual, total in items]) == course(
        [(float(gap), residual, total) for gap, residual, total in shifted]
    )


@settings(derandomize=True, deadline=None, max_examples=40)
@given(STRETCHES)
def test_one_incident_is_resolved_at_most_once(stretches: list[tuple[int, Item]]) -> None:
    phases = course(played(stretches))
    changes = [phase for i, phase in enumerate(phases) if i == 0 or phase != phases[i - 1]]

    assert changes.count("resolved") <= changes.count("firing")
