"""A card rests when it has not been at work for some readings; a short pause changes nothing that is shown."""

from ddwatch.core.gpus.past import BUSY_READINGS
from tests.core.gpus.machine import Machine, every


def test_a_short_pause_between_two_requests_is_no_rest() -> None:
    machine = Machine().run(20)
    machine.run(BUSY_READINGS - 1, every(utilization_ratio=0.0))
    assert {view.state for view in machine.book.views(machine.now)} == {"ok"}
    machine.run(1)
    assert {view.state for view in machine.book.views(machine.now)} == {"ok"}
    machine.run(BUSY_READINGS, every(utilization_ratio=0.0))
    assert {view.state for view in machine.book.views(machine.now)} == {"idle"}
    machine.run(1)
    assert {view.state for view in machine.book.views(machine.now)} == {"ok"}


def test_a_card_that_was_never_seen_at_work_rests() -> None:
    machine = Machine().run(1, every(utilization_ratio=0.0))
    assert machine.view(0).state == "idle"
