"""What every export is handed: the newest state, the past, the counts, and a sign that something changed."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ddwatch.core.snapshot import History, Snapshot
from ddwatch.core.tallies import Tallies
from ddwatch_sidecar.exports.metrics import ProcessFigures


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
