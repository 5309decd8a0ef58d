"""Where the sidecar's time comes from: the host's, kept from running backwards, or stretched for a simulation."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Seconds since the epoch; never earlier than before."""


class WallClock:
    """The host's time, kept from running backwards when the host's clock is set back."""

    SLEW = 0.1
    """Share of the elapsed time by which a clock that is ahead falls back."""

    def __init__(self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._ticks = ticks
        self._last_ticks = ticks()
        self._last = wall()

    def now(self) -> float:
        """Seconds since the epoch."""
        ticks, wall = self._ticks(), self._wall()
        elapsed = max(0.0, ticks - self._last_ticks)
        self._last_ticks = ticks
        self._last = max(wall, self._last + elapsed * (1.0 - self.SLEW))
        return self._last


class ScaledClock:
    """Runs faster than the clock it is made from, from the moment it is made: one second is `scale` seconds."""

    def __init__(self, clock: Clock, scale: float) -> None:
        self._clock = clock
        self._scale = scale
        self._origin = clock.now()

    def now(self) -> float:
        """Seconds since the epoch, stretched."""
        return self._origin + (self._clock.now() - self._origin) * self._scale
