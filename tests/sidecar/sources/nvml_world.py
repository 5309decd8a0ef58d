"""A sidecar's NVML endpoint over the real pynvml: with the stub of the driver's library, or with the machine's own."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ddwatch_sidecar.sources.nvml import NvmlEndpoint, Reading

from ddwatch.core.hardware import GpuCard, GpuReading
from ddwatch.core.records import GpuNames, SourceFault, SourceUp, Xid
from tests.fakes.clock import START
from tests.fakes.nvml_stub.library import Machine

PATIENCE_SECONDS = 30.0


class World:
    """An endpoint that is polled until something holds; all that it delivered is kept."""

    def __init__(self, environment: Mapping[str, str], machine: Machine | None = None, **options: Any) -> None:
        self.machine = machine
        self.endpoint = NvmlEndpoint(
            seconds=0.5, environment={**os.environ, **environment}, **{"first_retry_seconds": 0.05, **options}
        )
        self.records: list[Reading] = []
        self._polls = 0

    def until(self, holds: Callable[[], object]) -> None:
        """Polls until a condition holds; fails with what was said when it takes too long."""
        asyncio.run(self._until(holds))

    async def _until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"it never came; faults were {self.faults}, cards {self.cards}")
            self._polls += 1
            self.records += await self.endpoint.poll(START + self._polls)
            await asyncio.sleep(0.02)

    def fresh(self) -> None:
        """Waits for a reading that was begun after now."""
        seen = len(self.readings)
        self.until(lambda: len(self.readings) >= seen + 2)

    def until_xids(self, count: int) -> None:
        """Waits for this many faults."""
        self.until(lambda: len(self.xids) >= count)

    def close(self) -> None:
        """Ends the child."""
        asyncio.run(self.endpoint.close())

    @property
    def readings(self) -> list[GpuReading]:
        return [record for record in self.records if isinstance(record, GpuReading)]

    @property
    def cards(self) -> tuple[GpuCard, ...]:
        """The newest reading."""
        return self.readings[-1].cards if self.readings else ()

    @property
    def faults(self) -> list[str]:
        return [record.reason for record in self.records if isinstance(record, SourceFault)]

    @property
    def ups(self) -> list[SourceUp]:
        return [record for record in self.records if isinstance(record, SourceUp)]

    @property
    def names(self) -> list[tuple[str, ...]]:
        return [record.names for record in self.records if isinstance(record, GpuNames)]

    @property
    def xids(self) -> list[Xid]:
        return [record for record in self.records if isinstance(record, Xid)]


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) / 1024
    raise LookupError(f"process {pid} tells no memory")


Stub = Callable[..., World]
"""Makes a world: rules of its scenario, `cards`, `without` (functions the driver lacks), options of the endpoint."""
