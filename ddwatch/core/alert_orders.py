"""What the operator asked of alerts, as one small document: what is known to somebody, and what is to tell nobody."""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.verdict import NoteName, VerdictName

SCHEMA = "ddwatch.alert-orders/1"
KEPT = 100
"""Orders of one file; the oldest give way."""
LONGEST_NOTE = 200
FORGOTTEN_SECONDS = 90 * 86400.0
"""An acknowledgement without an end is kept for this long."""

QUIET: tuple[VerdictName, ...] = ("warming", "idle", "learning", "as-expected")
ALARMS: tuple[NoteName, ...] = (
    *(name for name in get_args(VerdictName) if name not in QUIET),
    "retractions",
    "restarts",
)
"""What can become an incident."""


class Order(Struct, frozen=True, kw_only=True):
    """One acknowledgement or mute; times are seconds since the epoch."""

    kind: Literal["acknowledge", "mute"]
    alert: NoteName
    incident: str | None = None
    """Which one is acknowledged; a mute is about all of its name."""
    given_at: float
    until: float | None = None
    """None, for an acknowledgement only: until the incident is over."""
    note: str = ""

    def holds(self, now: float) -> bool:
        """Whether it has not ended."""
        return now - self.given_at < FORGOTTEN_SECONDS if self.until is None else now < self.until


class Orders(Struct, frozen=True, kw_only=True):
    """The document."""

    schema: str = SCHEMA
    channel: str
    """A mark by which a sidecar and a command know that they mean the same file."""
    orders: tuple[Order, ...] = ()

    def acknowledged(
        self, incidents: Sequence[tuple[NoteName, str]], now: float, until: float | None = None, note: str = ""
    ) -> "Orders":
        """With these incidents acknowledged, an earlier acknowledgement of them replaced."""
        kept = self.reopened([incident for _, incident in incidents]).orders
        given = [
            Order(kind="acknowledge", alert=name, incident=incident, given_at=now, until=until, note=plain(note))
            for name, incident in incidents
        ]
        return self._with((*kept, *given), now)

    def reopened(self, incidents: Sequence[str]) -> "Orders":
        """Without the acknowledgements of these incidents."""
        return replace(self, orders=tuple(order for order in self.orders if order.incident not in incidents))

    def muted(self, name: NoteName, now: float, until: float, note: str = "") -> "Orders":
        """With a verdict muted, an earlier mute of it replaced."""
        given = Order(kind="mute", alert=name, given_at=now, until=until, note=plain(note))
        return self._with((*self.unmuted(name).orders, given), now)

    def unmuted(self, name: NoteName) -> "Orders":
        """Without a mute of this verdict."""
        return replace(
            self, orders=tuple(order for order in self.orders if (order.kind, order.alert) != ("mute", name))
        )

    def _with(self, orders: Sequence[Order], now: float) -> "Orders":
        return replace(self, orders=tuple(order for order in orders if order.holds(now))[-KEPT:])


def plain(note: str) -> str:
    """A note as one short line without control characters."""
    return "".join(sign for sign in " ".join(note.split()) if sign.isprintable())[:LONGEST_NOTE]


def encoded(orders: Orders) -> bytes:
    """The text of the file."""
    return msgspec.json.format(msgspec.json.encode(orders)) + b"\n"


def decoded(data: bytes) -> Orders | str:
    """What the file says; a phrase when it cannot be read."""
    try:
        schema = msgspec.json.decode(data, type=_Headed).schema
        if schema != SCHEMA:
            return f"is of schema {schema[:60]!r} and this ddwatch reads {SCHEMA}"
        orders = msgspec.json.decode(data, type=Orders)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"cannot be read ({str(error).splitlines()[0]})"
    if len(orders.orders) > KEPT or any(order.kind == "mute" and order.until is None for order in orders.orders):
        return "holds more than ddwatch writes into it"
    return replace(orders, orders=tuple(replace(order, note=plain(order.note)) for order in orders.orders))


class _Headed(Struct):
    schema: str
