"""What every export is handed: the newest state, the past, the counts, and a sign that something changed."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ddwatch.core.snapshot import History, Snapshot
from ddwatch.core.tallies import Tallies


class ProcessFigures(Protocol):
    """What the sidecar knows of its own process; None where the platform does not tell."""

    @property
    def cpu_seconds(self) -> float | None:
        """User and system CPU time since the start."""

    @property
    def resident_bytes(self) -> int | None:
        """Resident memory."""

    @property
    def virtual_bytes(self) -> int | None:
        """Virtual memory."""

    @property
    def started_at(self) -> float | None:
        """Start of the process, seconds since the epoch."""

    @property
    def open_files(self) -> int | None:
        """Open file descriptors."""

    @property
    def max_files(self) -> int | None:
        """Limit of open file descriptors."""


class Changes(Protocol):
    """Tells that a newer snapshot has been published."""

    @property
    def version(self) -> int:
        """Rises by one with every published snapshot."""

    async def after(self, version: int) -> int:
        """Waits until the version is higher than this one and returns it."""


class Supply(NamedTuple):
    """The exports know nothing else of the sidecar."""

    latest: Callable[[], Snapshot]
    history: Callable[[int], History]
    """Points and events after a sequence number."""
    tallies: Callable[[], Tallies]
    process: Callable[[], ProcessFigures]
    changes: Changes
