"""What the service asks of the parts that it is put together from."""

from collections.abc import Sequence
from typing import Protocol

from ddwatch.core.records import Record, SelfReading
from ddwatch.core.snapshot import History, Snapshot
from ddwatch.core.tallies import Tallies


class Reader(Protocol):
    """Text of one stream to records (core/grammar)."""

    @property
    def stamped(self) -> bool:
        """Whether its lines carry times."""

    def read(self, line: bytes, arrived: float | None, number: int | None) -> Sequence[Record]:
        """The records that a line completes; `arrived` None places them by the line's own time."""

    def close(self) -> Sequence[Record]:
        """The records that are still pending; more lines may follow."""


class Folding(Protocol):
    """Records to snapshots (core/monitor)."""

    def accept(self, record: Record, source: str) -> None:
        """Takes the next record of a source."""

    def unstamped(self) -> None:
        """Is told that the times are estimates."""

    def at(self, now: float) -> Snapshot:
        """The snapshot at a time."""

    def history(self, since: int) -> History:
        """Points and events after a sequence number."""

    def tallies(self) -> Tallies:
        """All counts so far."""


class Endpoint(Protocol):
    """Something that is asked at a pace of its own, over the network."""

    name: str
    pause_seconds: float

    async def poll(self, now: float) -> Sequence[Record]:
        """What it answers; what the world does is a SourceFault."""

    async def close(self) -> None:
        """Lets go of connections."""


class Tap(Protocol):
    """Is shown all that comes by, in order to keep it; never waits."""

    def accepted(self, records: Sequence[Record], now: float, *, estimated: bool = False) -> None:
        """Takes what the monitor has just accepted; `estimated` times are guesses about the past."""

    def published(self, snapshot: Snapshot) -> None:
        """Takes a snapshot that readers were just given."""

    def faults(self) -> Sequence[Record]:
        """What is to be told of the keeping itself since this was last asked."""


class Metering(Protocol):
    """Reads what this process costs."""

    def read(self, now: float) -> SelfReading | None:
        """The newest reading, None where there is none yet."""
