"""A machine of cards in plain records: each second all of them report, and a story changes what they report."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ddwatch.core.gpus.book import GpuBook
from ddwatch.core.hardware import GpuCard, GpuReading
from ddwatch.core.hardware_view import Finding, FindingKind, GpuView
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.snapshot import Event

BEGIN = 1_000_000.0
Change = Callable[[int, int], dict[str, Any]]
"""Number of the card and second of this stretch, to what differs from a healthy card."""


def card(index: int, **changes: Any) -> GpuCard:
    """A healthy card at work."""
    healthy = GpuCard(
        index=index,
        uuid=f"GPU-{index}",
        pci_bus=f"0000:{0x11 + index:02x}:00.0",
        name="NVIDIA Card",
        utilization_ratio=0.97,
        sm_clock_hertz=2.37e9,
        memory_clock_hertz=12.481e9,
        power_watts=410.0,
        temperature_celsius=61.0,
        memory_used_bytes=88 * 2**30,
        performance_state=0,
        reasons=0,
        pcie_generation=5,
        pcie_width=16,
        memory_total_bytes=96 * 2**30,
        power_limit_watts=600.0,
        pcie_generation_max=5,
        pcie_width_max=16,
        pcie_replays=0,
        ecc_errors={"corrected": 0, "uncorrected": 0},
        remap_pending=False,
        recovery_action="none",
        nvlinks=18,
        nvlinks_active=18,
        nvlink_errors={"crc": 0, "replay": 0, "recovery": 0},
    )
    return replace(healthy, **changes)


def healthy(index: int, second: int) -> dict[str, Any]:
    """No change."""
    return {}


class Machine:
    """Cards, and the book that reads them."""

    def __init__(self, cards: int = 8) -> None:
        self.ring = Ring()
        self.book = GpuBook(EventLog(self.ring))
        self.now = BEGIN
        self._cards = cards

    def run(self, seconds: int, change: Change = healthy) -> "Machine":
        """Lets this many seconds pass, one reading each."""
        for second in range(seconds):
            self.now += 1.0
            cards = tuple(card(index, **change(index, second)) for index in range(self._cards))
            self.book.see(GpuReading(at=self.now, cards=cards))
        return self

    def findings(self) -> tuple[Finding, ...]:
        """What holds now, without what is mere information."""
        return tuple(item for item in self.book.findings(self.now) if item.grade != "information")

    def kinds(self) -> list[tuple[int | None, FindingKind]]:
        """Card and kind of each finding."""
        return [(item.index, item.kind) for item in self.findings()]

    def view(self, index: int) -> GpuView:
        """One card."""
        return self.book.views(self.now)[index]

    def events(self) -> list[Event]:
        """What stands on the timeline."""
        return list(self.ring.since(0).events)


def only(index: int, **changes: Any) -> Change:
    """A change of one card."""
    return lambda number, second: changes if number == index else {}


def every(**changes: Any) -> Change:
    """The same change of all cards."""
    return lambda number, second: changes
