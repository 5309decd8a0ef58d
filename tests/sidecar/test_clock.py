"""The sidecar's clocks: never backwards, never far from the host's, faster on request."""

from ddwatch_sidecar.clock import ScaledClock, WallClock

from tests.fakes.clock import START, Clock


class HandClock:
    """The fake clock in the shape that the service takes."""

    def __init__(self) -> None:
        self.clock = Clock()

    def now(self) -> float:
        return self.clock.now


def test_a_clock_that_is_set_back_goes_on_slower_until_it_is_met() -> None:
    wall, ticks = Clock(START), Clock(0.0)
    clock = WallClock(wall, ticks)
    first = clock.now()
    wall.now -= 10
    before = clock.now()
    seen = []
    for _ in range(200):
        wall.advance(1)
        ticks.advance(1)
        seen.append(clock.now())

    assert (first, before) == (START, START)
    assert all(later > earlier for earlier, later in zip([before, *seen], seen, strict=False))
    assert seen[-1] == wall.now


def test_a_clock_that_is_set_forward_is_followed() -> None:
    wall, ticks = Clock(START), Clock(0.0)
    clock = WallClock(wall, ticks)
    wall.advance(3600)

    assert clock.now() == START + 3600


def test_a_scaled_clock_runs_from_where_it_began() -> None:
    real = HandClock()
    clock = ScaledClock(real, 10)
    real.clock.advance(6)

    assert clock.now() == START + 60
