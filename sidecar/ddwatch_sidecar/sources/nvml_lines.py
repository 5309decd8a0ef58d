"""What the NVML child tells the sidecar: one JSON line per card, so that it shows where a child stopped."""

import msgspec
from msgspec import Struct

from ddwatch.core.hardware import GpuCard


class Opened(Struct, frozen=True, kw_only=True, tag="opened"):
    """NVML answered; a round of readings follows."""

    driver: str | None = None
    cards: int
    watches_xids: bool
    """Whether the driver tells this process about Xid faults."""


class CardLine(Struct, frozen=True, kw_only=True, tag="card"):
    """One card was read; cards come in the order of their number."""

    card: GpuCard


class Round(Struct, frozen=True, kw_only=True, tag="round"):
    """All cards have been read once."""


class XidLine(Struct, frozen=True, kw_only=True, tag="xid"):
    """The driver reported a fault."""

    code: int
    pci_bus: str | None = None


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """NVML cannot be used at all; the child leaves after this."""

    code: int
    """NVML's return code; NO_MODULE and NOT_LOADED are of our own."""
    words: str


ChildLine = Opened | CardLine | Round | XidLine | Refused

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(ChildLine).decode

NO_MODULE = -1
"""There is no such Python module."""
NOT_LOADED = -2
"""The library that was given cannot be loaded."""


def short_bus(bus: str) -> str:
    """A PCI address as lspci and the kernel write it: `0000:41:00.0`, from NVML's `00000000:41:00.0`."""
    domain, _, rest = bus.lower().partition(":")
    if not rest:
        return bus.lower()
    return f"{domain[-4:].rjust(4, '0')}:{rest}"
