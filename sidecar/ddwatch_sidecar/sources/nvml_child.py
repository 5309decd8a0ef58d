"""Reads NVML in a process of its own, because NVML can block, crash, and outlive its driver: lines on stdout, no more.

It leaves when its stdin ends, so it never outlives the sidecar.
"""

import argparse
import os
import select
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ddwatch.core.hardware import CARDS_AT_MOST, GpuCard
from ddwatch_sidecar.sources.nvml_lines import (
    NO_MODULE,
    NOT_LOADED,
    CardLine,
    ChildLine,
    Opened,
    Refused,
    Round,
    XidLine,
    encode,
    short_bus,
)

try:
    import pynvml as nvml  # type: ignore[import-untyped]

    from ddwatch_sidecar.sources import nvml_fields
except ImportError as error:
    os.write(1, encode(Refused(code=NO_MODULE, words=str(error))) + b"\n")
    sys.exit(0)

SLOW_SECONDS = 30.0
XIDS_AT_ONCE = 64
FAILED_ROUNDS = 3
"""A card of which nothing could be read this often in a row is lost, whatever the driver calls it."""
PCI_DEVICES = Path("/sys/bus/pci/devices")

GPU_NOT_FOUND = 28
"""Older releases of pynvml do not name it."""
GONE = frozenset({nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED, GPU_NOT_FOUND})
"""The card cannot be reached: its handle is not touched again."""
FATAL = frozenset(
    {nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED, nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}
)
"""The whole driver is gone or another one: this process is of no use any more."""
ABSENT = frozenset({nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND})
"""This card or driver does not have it; asked again with the slow fields only."""
ANOTHER_WAY = ABSENT | {nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvml.NVML_ERROR_INVALID_ARGUMENT}
"""The same value may be had by a newer or an older call."""


class Card:
    """One card; a field that fails is absent, a card that is lost is left alone."""

    def __init__(
        self, index: int, handle: Any, lost: str | None, slow: Sequence[nvml_fields.Field] = nvml_fields.SLOW
    ) -> None:
        self._handle = handle
        self._slow = slow
        self._unsupported: set[str] = set()
        self._ways: dict[str, int] = {}
        self._held: dict[str, Any] = {}
        self._failures = 0
        self._failed: str | None = None
        self._answered = False
        self._card = GpuCard(index=index, lost=lost)
        if lost is None:
            self._card = msgspec.structs.replace(self._card, **self._identity())

    @property
    def lost(self) -> str | None:
        """Why nothing is read from it any more."""
        return self._card.lost

    @property
    def pci_bus(self) -> str | None:
        """Its PCI address."""
        return self._card.pci_bus

    @property
    def handle(self) -> Any:
        """What NVML knows it by."""
        return self._handle

    def read(self, *, slow: bool) -> GpuCard:
        """One reading."""
        if self._card.lost is not None:
            return self._card
        values = self._values(slow=slow)
        if values.get("mig"):
            # Some drivers say 0 for the whole of a card that is split.
            values.pop("utilization_ratio", None)
            values.pop("memory_utilization_ratio", None)
        self._failures = 0 if self._answered or self._failed is None else self._failures + 1
        if self._failures >= FAILED_ROUNDS and self._failed is not None:
            self._lose(self._failed)
        return self._card if self.lost is not None else msgspec.structs.replace(self._card, **values)

    def _values(self, *, slow: bool) -> dict[str, Any]:
        self._answered, self._failed = False, None
        if slow:
            self._unsupported.clear()
            self._held = self._all(self._slow)
        return {**self._held, **self._all(nvml_fields.FAST)}

    def _identity(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for attribute, call in (("uuid", nvml.nvmlDeviceGetUUID), ("name", nvml.nvmlDeviceGetName)):
            text = self._ask(call)
            if text:
                found[attribute] = str(text)
        place = self._ask(nvml.nvmlDeviceGetPciInfo)
        if place is not None:
            bus = place.busId
            found["pci_bus"] = short_bus(bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus))
            found["numa_node"] = nvml_fields.numa_node(found["pci_bus"], PCI_DEVICES)
        return found

    def _all(self, fields: Sequence[nvml_fields.Field]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in fields:
            if self.lost is None and field.name not in self._unsupported:
                values.update(self._field(field))
        return values

    def _field(self, field: nvml_fields.Field) -> Mapping[str, Any]:
        first = self._ways.get(field.name, 0)
        for way in range(first, len(field.ways)):
            try:
                found = field.ways[way](self._handle)
            except nvml.NVMLError as error:
                if error.value in ANOTHER_WAY and way + 1 < len(field.ways):
                    self._ways[field.name] = way + 1
                    continue
                self._failure(error)
                if error.value in ABSENT:
                    self._unsupported.add(field.name)
                return {}
            except (nvml.NVMLLibraryMismatchError, UnicodeDecodeError):
                self._unsupported.add(field.name)
                return {}
            self._answered = True
            return {name: value for name, value in found.items() if value is not None}
        return {}

    def _ask(self, call: Any) -> Any:
        try:
            return call(self._handle)
        except nvml.NVMLError as error:
            self._failure(error)
        except UnicodeDecodeError:
            pass
        return None

    def _failure(self, error: Any) -> None:
        if error.value in FATAL:
            raise error
        if error.value in GONE:
            self._lose(str(error))
        elif error.value not in ABSENT:
            self._failed = str(error)

    def _lose(self, words: str) -> None:
        card = self._card
        self._card = GpuCard(
            index=card.index, uuid=card.uuid, pci_bus=card.pci_bus, name=card.name, numa_node=card.numa_node, lost=words
        )


class Reader:
    """All cards of one opened NVML."""

    def __init__(self, skipped: frozenset[int], *, throughput: bool) -> None:
        self._driver = self._version()
        more = (nvml_fields.THROUGHPUT,) if throughput else ()
        self._slow = (*nvml_fields.SLOW, nvml_fields.values_of(self._driver), *more)
        self._skipped = skipped
        count = min(nvml.nvmlDeviceGetCount(), CARDS_AT_MOST)
        self._count = count
        self._cards = [self._card(index) for index in range(count)]
        self._events = self._watch()

    def opened(self) -> Opened:
        """The first line."""
        return Opened(driver=self._driver, cards=len(self._cards), watches_xids=self._events is not None)

    @staticmethod
    def _version() -> str | None:
        try:
            return str(nvml.nvmlSystemGetDriverVersion())
        except (nvml.NVMLError, UnicodeDecodeError):
            return None

    def changed(self) -> bool:
        """Whether cards have come or gone, so that all have to be counted anew."""
        try:
            return bool(nvml.nvmlDeviceGetCount() != self._count)
        except nvml.NVMLError as error:
            if error.value in FATAL:
                raise
            return False

    def cards(self, *, slow: bool) -> Any:
        """The cards one by one, each read when it is asked for."""
        return (card.read(slow=slow) for card in self._cards)

    def xids(self) -> list[XidLine]:
        """The faults since the last call."""
        found: list[XidLine] = []
        for _ in range(XIDS_AT_ONCE):
            if self._events is None:
                break
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if error.value in FATAL:
                    raise
                if error.value != nvml.NVML_ERROR_TIMEOUT:
                    self._events = None
                break
            if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                found.append(XidLine(code=int(event.eventData), pci_bus=self._bus_of(event.device)))
        return found

    def _card(self, index: int) -> Card:
        if index in self._skipped:
            return Card(index, None, "left alone, because reading it stopped the driver's library")
        try:
            return Card(index, nvml.nvmlDeviceGetHandleByIndex(index), None, self._slow)
        except nvml.NVMLError as error:
            if error.value in FATAL:
                raise
            return Card(index, None, str(error))

    def _watch(self) -> Any:
        """An event set for Xid faults, None where no card has one."""
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        watched = 0
        for card in self._cards:
            if card.lost is None:
                try:
                    nvml.nvmlDeviceRegisterEvents(card.handle, nvml.nvmlEventTypeXidCriticalError, events)
                    watched += 1
                except nvml.NVMLError:
                    continue
        return events if watched else None

    def _bus_of(self, device: Any) -> str | None:
        try:
            bus = nvml.nvmlDeviceGetPciInfo(device).busId
        except nvml.NVMLError:
            known = {_address(card.handle): card.pci_bus for card in self._cards}
            return known.get(_address(device))
        return short_bus(bus.decode("ascii", "replace") if isinstance(bus, bytes) else str(bus))


def _address(handle: Any) -> int | None:
    """The value of an opaque handle, for comparison."""
    return None if handle is None else nvml.cast(handle, nvml.c_void_p).value


def say(*lines: ChildLine) -> None:
    """Writes whole lines; a reader that has left ends this process."""
    data = b"".join(encode(line) + b"\n" for line in lines)
    while data:
        data = data[os.write(1, data) :]


def watch(reader: Reader, seconds: float) -> None:
    """Reads at a steady pace until stdin ends or cards come or go."""
    say(reader.opened())
    slow_at = next_at = time.monotonic()
    while True:
        began = time.monotonic()
        slow = began >= slow_at
        if slow:
            if began > slow_at and reader.changed():
                return
            slow_at = began + SLOW_SECONDS
        for card in reader.cards(slow=slow):
            say(CardLine(card=card))
        say(*reader.xids(), Round())
        next_at = max(next_at + seconds, time.monotonic())
        ready, _, _ = select.select([0], [], [], next_at - time.monotonic() if next_at > time.monotonic() else 0.0)
        if ready and not os.read(0, 4096):
            return


def main(words: Sequence[str]) -> int:
    """Reads until it is told to leave; what the driver refuses is a line, not an error."""
    parser = argparse.ArgumentParser(prog="nvml_child", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--skip", type=int, action="append", default=[])
    parser.add_argument("--library")
    arguments = parser.parse_args(words)
    if arguments.library is not None:
        # Loaded by its path and handed to pynvml, which then looks for no other: never the driver of this machine.
        try:
            nvml.nvmlLib = nvml.CDLL(arguments.library)
        except OSError as error:
            say(Refused(code=NOT_LOADED, words=str(error)))
            return 0
    try:
        nvml.nvmlInit()
        watch(Reader(frozenset(arguments.skip), throughput=arguments.throughput), arguments.seconds)
    except nvml.NVMLError as error:
        say(Refused(code=error.value, words=str(error)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BrokenPipeError, KeyboardInterrupt):
        # The sidecar has left: there is nobody to tell.
        os._exit(0)
