"""A clock that only moves when a test says so."""

START = 1_777_636_800.0
"""2026-05-01 12:00:00 UTC."""


class Clock:
    """Stands where a real clock would; `time()` and `monotonic()` move together."""

    def __init__(self, start: float = START) -> None:
        self.now = start
        self._start = start

    def __call__(self) -> float:
        return self.now

    def time(self) -> float:
        """Seconds since the epoch."""
        return self.now

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self.now - self._start

    def advance(self, seconds: float) -> float:
        """Moves on and returns the new time."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self.now += seconds
        return self.now
