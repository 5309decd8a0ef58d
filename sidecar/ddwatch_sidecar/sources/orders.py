"""Reads what the operator asked of alerts, from the file that commands on this host write; looked at once a second."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from ddwatch.alert_desk import Desk, Unusable
from ddwatch.core.alert_orders import Order, Orders
from ddwatch.core.alert_view import KeepingView
from ddwatch.core.records import OrdersSeen, Record, SourceFault, SourceUp

PAUSE_SECONDS = 1.0


class OrdersFile:
    """The file as an endpoint: it tells all orders whenever they change, and beside them what lies on this host."""

    name = "acknowledgements"
    pause_seconds = PAUSE_SECONDS

    def __init__(
        self,
        desk: Desk | None,
        *,
        passing: bool = False,
        recording: Callable[[], Path | None] = lambda: None,
        quiet: Callable[[float], bool] | None = None,
    ) -> None:
        """Prepares to read.

        Args:
            desk: the file; None where nothing can be asked.
            passing: whether the file ends with this sidecar.
            recording: the file that is recorded to now.
            quiet: whether quiet hours hold at a time; None where there are none.
        """
        self._desk = desk
        self._passing = passing
        self._recording = recording
        self._quiet = quiet
        self._seen: object = None
        self._orders: Orders | None = None
        self._trouble: str | None = None
        self._told: tuple[KeepingView, tuple[Order, ...]] | None = None

    async def poll(self, now: float) -> Sequence[Record]:
        """What has changed; nothing most of the time."""
        found: list[Record] = []
        trouble = await asyncio.to_thread(self._look)
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is not None:
                found.append(SourceFault(at=now, source=self.name, reason=trouble))
            else:
                found.append(SourceUp(at=now, source=self.name, detail="can be read again"))
        orders = self._orders
        recording = self._recording()
        keeping = KeepingView(
            channel=None if orders is None or trouble is not None else orders.channel,
            recording=None if recording is None else homely(recording),
            quiet_hours=None if self._quiet is None else self._quiet(now),
        )
        asked = () if orders is None else orders.orders
        if (keeping, asked) != self._told:
            self._told = (keeping, asked)
            found.append(OrdersSeen(at=now, keeping=keeping, orders=asked))
        return found

    async def close(self) -> None:
        """Leaves no file behind that nobody would find again."""
        if self._desk is not None and self._passing:
            self._desk.remove()

    def _look(self) -> str | None:
        """Reads the file if it has changed; says what is wrong with it. What was read last stands meanwhile."""
        if self._desk is None:
            return None
        try:
            try:
                stat = self._desk.path.stat()
                seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            except OSError:
                seen = None
            if seen is not None and seen == self._seen:
                return self._trouble
            self._orders = self._desk.read() if seen is not None else self._desk.prepare()
            self._seen = seen
        except Unusable as error:
            self._seen = None
            return f"acknowledgements and mutes cannot be read: {error}"
        return None


def homely(path: Path) -> str:
    """A path as the user of this process would write it: the home folder is `~`."""
    try:
        home = Path.home()
    except RuntimeError:
        return str(path)
    absolute = path.absolute()
    return f"~/{absolute.relative_to(home)}" if absolute.is_relative_to(home) else str(absolute)
