"""The play head of a replay: where the operator wants it, told by the screen's thread and asked by the feed's."""

import math
import threading

SPEEDS: tuple[float, ...] = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, math.inf)
"""Steps of `faster` and `slower`; infinite is as fast as this machine can."""


class Head:
    """The play head: what the operator wants of the replay, shared by the screen's thread and the feed's."""

    def __init__(self, speed: float, can_rewind: bool, duration: float | None) -> None:
        self._lock = threading.Condition()
        self._speed = speed
        self._can_rewind = can_rewind
        self._duration = duration
        self._paused = False
        self._position = 0.0
        self._furthest = 0.0
        self._target: float | None = None
        self.closed = False

    @property
    def position(self) -> float:
        """Seconds of the log that have been played."""
        return self._position

    @property
    def duration(self) -> float:
        """Seconds that the log lasts; for a stream, or where its end shows no time, what is known of it so far."""
        return max(self._furthest, self._duration or 0.0)

    @property
    def speed(self) -> float:
        """Seconds of the log per second of the clock; infinite is as fast as possible."""
        return self._speed

    @property
    def paused(self) -> bool:
        """Whether time stands still."""
        return self._paused

    def toggle_pause(self) -> None:
        """Halts or goes on."""
        with self._lock:
            self._paused = not self._paused
            self._lock.notify_all()

    def seek(self, seconds: float) -> None:
        """Moves by that many seconds of the log; a stream cannot be moved back."""
        with self._lock:
            goal = max((self._position if self._target is None else self._target) + seconds, 0.0)
            if self._duration is not None:
                goal = min(goal, max(self._duration, self._furthest))
            if goal < self._position and not self._can_rewind:
                return
            self._target = goal
            self._lock.notify_all()

    def faster(self) -> None:
        """Raises the speed by one step."""
        with self._lock:
            self._speed = next((step for step in SPEEDS if step > self._speed), SPEEDS[-1])
            self._lock.notify_all()

    def slower(self) -> None:
        """Lowers the speed by one step."""
        with self._lock:
            self._speed = next((step for step in reversed(SPEEDS) if step < self._speed), SPEEDS[0])
            self._lock.notify_all()

    def close(self) -> None:
        """Ends the replay."""
        with self._lock:
            self.closed = True
            self._lock.notify_all()

    def wanted(self) -> float | None:
        """Takes the place that was asked for last, if any."""
        with self._lock:
            target, self._target = self._target, None
            return target

    def disturbed(self) -> bool:
        """Whether somebody waits for another place or for the end."""
        return self.closed or self._target is not None

    def reached(self, position: float) -> None:
        """Notes where the replay is."""
        self._position = position
        self._furthest = max(self._furthest, position)

    def rest(self, seconds: float) -> None:
        """Waits, unless something is asked for."""
        with self._lock:
            if not self.disturbed():
                self._lock.wait(seconds)
