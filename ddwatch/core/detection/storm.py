"""Counts things that are normal once and a sign when they come in swarms: restarts, retractions."""

from collections import deque

from ddwatch.core.detection.suspicion import Phases, Suspicion

RESTARTS = ("restarts", 3, 1800.0)
"""Three restarts within half an hour."""
RETRACTIONS = ("retractions", 5, 120.0)
"""Five moments of a full KV pool within two minutes."""
SAME_SECONDS = 2.0
"""Ranks that say the same at once are one."""


class Storm:
    """So many incidents within so many seconds; over when none came for just as long."""

    def __init__(self, name: str, count: int, seconds: float) -> None:
        self._name = name
        self._needed = count
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=count)
        self._phases = Phases()
        self._last: float | None = None
        self._total = 0

    def see(self, at: float) -> None:
        """One more."""
        if self._last is not None and 0.0 <= at - self._last < SAME_SECONDS:
            self._last = at
            return
        if self._last is None or at < self._last or at - self._last > self._seconds:
            self._phases.end(at if self._last is None else self._last + self._seconds, "none since")
            self._times.clear()
            self._total = 0
        self._last = at
        self._times.append(at)
        self._total += 1
        enough = len(self._times) == self._needed and at - self._times[0] <= self._seconds
        if len(self._times) == self._needed - 1:
            self._phases.pend(at, self._times[0])
        if enough:
            self._phases.pend(at, self._times[0])
            self._phases.fire(at)

    def state(self, now: float) -> Suspicion | None:
        """What is suspected at this instant; asking changes nothing."""
        if self._last is None:
            return None
        phase, reached, because = self._phases.phase, self._phases.reached, self._phases.because
        over = self._last + self._seconds
        if now > over and self._phases.open:
            if phase == "pending":
                return None
            phase, reached, because = "resolved", over, "none since"
        if phase is None or (phase == "resolved" and now - reached > self._seconds):
            return None
        return Suspicion(
            name=self._name,
            phase=phase,
            since=self._phases.since,
            reached=reached,
            strength=self._total / self._needed,
            what=f"{self._total} {self._name}",
            because=because,
            evidence={"count": self._total, "within_seconds": self._seconds},
        )
