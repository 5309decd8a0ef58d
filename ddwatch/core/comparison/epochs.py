"""Cuts a watch into the stretches between restarts, each with the arguments that it ran under."""

from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from ddwatch.core.arguments import changes
from ddwatch.core.comparison.sides import Side
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.lifecycle import Lifecycle
from ddwatch.core.positions import Positions
from ddwatch.core.records import DecodeBatch, LogRecord, PrefillBatch, Record, ServerInfo, ServerStart
from ddwatch.core.snapshot import Sample

MOST_EPOCHS = 64
"""Stretches whose samples are kept; of a longer watch the oldest are only counted."""


class Epoch(Struct):
    """What lies between two cuts; filled as records come in."""

    begins_at: float | None
    """Time of the cut before it; None for the first."""
    cut: str
    """`start`, `restart` or `moment`: what it begins with."""
    side: Side
    start: ServerStart | None = None
    """The arguments in force, where they were seen."""


def coupled(arguments: Mapping[str, object]) -> bool | None:
    """Whether DP ranks step together: by DP attention or expert parallelism; None without arguments."""
    if not arguments:
        return None
    experts = arguments.get("ep_size")
    return arguments.get("enable_dp_attention") is True or (isinstance(experts, int) and experts > 1)


def changed_words(before: ServerStart | None, after: ServerStart | None) -> tuple[str, ...] | None:
    """What differs between the arguments of two stretches; None where either was not seen."""
    return None if before is None or after is None else changes(before, after)


class Epochs:
    """Takes the records of a log in order; a restart begins a new stretch, and so does a stated moment."""

    def __init__(self, moment: float | None = None) -> None:
        self._moment = moment
        self._lifecycle = Lifecycle(EventLog(Ring()))
        self._positions = Positions()
        self.restarts = 0
        """Restarts seen, of which the last ones are kept."""
        self.kept: deque[Epoch] = deque([Epoch(None, "start", Side())], maxlen=MOST_EPOCHS)

    def see(self, record: Record) -> None:
        """Takes the next record of a log."""
        sample = self._positions.see(record)
        self._cut_at_moment(record.at)
        if isinstance(record, ServerInfo):
            self._lifecycle.info(record)
        elif isinstance(record, (DecodeBatch, PrefillBatch)):
            self._lifecycle.traffic()
        elif isinstance(record, LogRecord):
            self._server(record)
        if sample is not None:
            self.take(sample)

    def take(self, sample: Sample) -> None:
        """Takes a sample; one of a recording comes without the record that it was made from."""
        self._cut_at_moment(sample.at)
        self.kept[-1].side.see(sample)

    def told(self, start: ServerStart, *, by_log: bool) -> None:
        """Takes what a recording holds of a start.

        Args:
            start: the arguments.
            by_log: whether the server announced them; its port tells them at any time, so that only other
                arguments than before are a restart.
        """
        self._cut_at_moment(start.at)
        known = self.kept[-1].start
        if known is None and not (by_log and self.kept[-1].side.seen):
            self.arguments(start)
        elif by_log or (known is not None and changes(known, start)):
            self.restart(start.at, start)

    def _cut_at_moment(self, at: float) -> None:
        if self._moment is not None and at >= self._moment:
            now = self.kept[-1]
            self.kept.append(Epoch(self._moment, "moment", Side(self._coupled(now.start)), now.start))
            self._moment = None

    def _server(self, record: LogRecord) -> None:
        restarts = self._lifecycle.view.restarts
        self._lifecycle.see(record)
        start = record if isinstance(record, ServerStart) else None
        if self._lifecycle.view.restarts != restarts:
            self.restart(record.at, start)
        elif start is not None:
            self.arguments(start)

    def restart(self, at: float, start: ServerStart | None) -> None:
        """The server began anew, with these arguments where they are known."""
        self.restarts += 1
        self.kept.append(Epoch(at, "restart", Side(self._coupled(start)), start))

    def arguments(self, start: ServerStart) -> None:
        """The arguments of the present stretch became known."""
        now = self.kept[-1]
        now.start = start
        if not now.side.seen:
            now.side = Side(self._coupled(start))

    @staticmethod
    def _coupled(start: ServerStart | None) -> bool | None:
        return None if start is None else coupled(start.arguments)
