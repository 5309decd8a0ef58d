"""Whether the watched engine's own processes live, by the host's word: only those that were there while it worked.

A host may run several engines, and a log may come from elsewhere: nothing is concluded before one set of schedulers,
each rank once, was there while batch lines came.
"""

from ddwatch.core.hardware import HostReading

WORKED_SECONDS = 15.0
"""A batch line this long before a reading says that the engine worked then."""


class EngineProcesses:
    """Told of every reading of the host; asked whether the engine lives."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new process: which one will be seen when it works."""
        self._ours: frozenset[int] = frozenset()
        self.pid: int | None = None
        """A living scheduler of the engine, the one that ended once all are gone."""
        self.alive_at: float | None = None
        """When it was last seen alive."""
        self.gone_at: float | None = None
        """When all of them were first missing; None while one lives, or where that cannot be told."""

    def read(self, reading: HostReading, worked_at: float | None) -> None:
        """Takes a reading.

        Args:
            reading: of the host that the engine may run on.
            worked_at: when the engine last decoded or prefilled.
        """
        schedulers = {process.pid: process.rank for process in reading.processes if process.role == "scheduler"}
        worked = worked_at is not None and 0.0 <= reading.at - worked_at <= WORKED_SECONDS
        if worked and schedulers and len(set(schedulers.values())) == len(schedulers):
            self._ours = frozenset(schedulers)
        living = self._ours & schedulers.keys()
        if living:
            self.pid = min(living)
            self.alive_at, self.gone_at = reading.at, None
        elif self._ours:
            self.alive_at = None
            self.gone_at = reading.at if self.gone_at is None else self.gone_at
