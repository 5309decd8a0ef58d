"""The bell rings once for what begins to fire, and keeps quiet where that was asked for."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ddwatch.bell import KEPT, Bell
from ddwatch.core.alert_view import AlertState, AlertView, KeepingView
from ddwatch.core.snapshot import Snapshot
from tests.tui.alert_frames import RETRACTIONS, SLOW, frame_with

QUIET = KeepingView(quiet_hours=True)


def told(*alerts: AlertView) -> Snapshot:
    return frame_with(*alerts).snapshot


def rings(bell: Bell, *snapshots: Snapshot) -> list[bool]:
    return [bell.see(snapshot) for snapshot in snapshots]


def test_it_rings_once_for_each_incident_that_begins_to_fire() -> None:
    again = replace(SLOW, incident="slow-step-2")
    story = [told(), told(SLOW), told(SLOW), told(replace(SLOW, state="resolved")), told(again), told(again)]

    assert rings(Bell(), *story) == [False, True, False, False, True, False]


def test_what_is_on_the_screen_when_it_opens_does_not_ring() -> None:
    assert rings(Bell(), told(SLOW), told(SLOW)) == [False, False]


def test_a_notice_rings_where_it_was_asked_for() -> None:
    assert rings(Bell("page"), told(), told(RETRACTIONS)) == [False, False]
    assert rings(Bell("notice"), told(), told(RETRACTIONS)) == [False, True]


def test_what_is_suspected_acknowledged_or_muted_does_not_ring_until_that_ends() -> None:
    states: tuple[AlertState, ...] = ("pending", "acknowledged", "muted", "firing", "firing")
    story = [told(replace(SLOW, state=state)) for state in states]

    assert rings(Bell(), told(), *story) == [False, False, False, False, True, False]


def test_one_that_rang_does_not_ring_again_when_its_acknowledgement_ends() -> None:
    story = [told(SLOW), told(replace(SLOW, state="acknowledged")), told(SLOW)]

    assert rings(Bell(), told(), *story) == [False, True, False, False]


def test_in_quiet_hours_it_waits() -> None:
    night = [replace(told(SLOW), keeping=QUIET)] * 3

    assert rings(Bell(), told(), *night, told(SLOW)) == [False, False, False, False, True]
    assert rings(Bell(), replace(told(SLOW), keeping=QUIET), told(SLOW)) == [False, False]


@given(st.lists(st.sampled_from(range(3 * KEPT)), max_size=600))
def test_it_remembers_no_more_than_it_must(numbers: list[int]) -> None:
    bell = Bell()
    bell.see(told())
    for number in numbers:
        bell.see(told(replace(SLOW, incident=f"slow-step-{number}")))
        assert not bell.see(told(replace(SLOW, incident=f"slow-step-{number}")))
