"""What reading GPUs costs: CPU and memory of the NVML child, of the endpoint and of the judging, at 1 to 16 cards.

The budget is that of DESIGN.md section 8: under 30 MB for the child. The cards are those of the stub, so the time that
a real driver spends inside its calls comes on top; beside it stands the same Python that only sleeps.

    python -m tests.bench.bench_nvml [--seconds 20] [--cards 1,8,16]
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil
from ddwatch_sidecar.sources.nvml import NvmlEndpoint

from ddwatch.core.gpus.book import GpuBook
from ddwatch.core.hardware import GpuReading
from ddwatch.core.history import EventLog, Ring
from tests.fakes.nvml_stub.library import Machine, build

MEMORY_BUDGET = 30.0
SLEEPER = "import sys, time\nwhile True:\n    time.sleep(1)\n"


class Cost(NamedTuple):
    """CPU in per cent of a core, memory in MB, at one number of cards."""

    cards: int
    child_cpu: float
    child_resident: float
    own_cpu: float
    """Taking the lines, judging and making views, in the sidecar's own process."""
    readings: int


def measure(cards: int, seconds: float, folder: Path, library: Path) -> Cost:
    """Runs the endpoint and the book for a while, as the sidecar does: two polls a second, one reading a second."""
    machine = Machine(folder / f"scenario-{cards}", cards)
    machine.set("gpu * power wave 300000 500000 7", "gpu * sm_clock wave 2200 2400 5")
    endpoint = NvmlEndpoint(environment={**os.environ, **machine.environment(library)})
    book = GpuBook(EventLog(Ring()))

    async def run() -> Cost:
        readings = 0
        child: psutil.Process | None = None
        child_began = own_began = began = 0.0
        while child is None or time.monotonic() - began < seconds:
            for record in await endpoint.poll(time.time()):
                if isinstance(record, GpuReading):
                    book.see(record)
                    book.views(record.at)
                    readings += 1
            if child is None and readings >= 2 and endpoint.pid is not None:
                # The start is paid once: it is not part of the pace.
                child, began, readings = psutil.Process(endpoint.pid), time.monotonic(), 0
                child_began, own_began = sum(child.cpu_times()[:2]), time.process_time()
            await asyncio.sleep(endpoint.pause_seconds)
        passed = time.monotonic() - began
        cost = Cost(
            cards,
            (sum(child.cpu_times()[:2]) - child_began) / passed * 100,
            child.memory_info().rss / 1e6,
            (time.process_time() - own_began) / passed * 100,
            readings,
        )
        await endpoint.close()
        return cost

    return asyncio.run(run())


def idle_memory() -> float:
    """Resident memory of a Python that does nothing, MB."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPER])
    try:
        time.sleep(1.0)
        return psutil.Process(process.pid).memory_info().rss / 1e6
    finally:
        process.kill()
        process.wait()


def main() -> int:
    """Prints one row per number of cards; 1 when a budget is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cards", default="1,8,16")
    arguments = parser.parse_args()
    over = False
    sys.stdout.write(f"a Python that sleeps: {idle_memory():.1f} MB\n")
    sys.stdout.write("cards  child CPU %  child MB  own CPU %  readings\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build(folder / "library")
        for cards in (int(word) for word in arguments.cards.split(",")):
            cost = measure(cards, arguments.seconds, folder, library)
            over = over or cost.child_resident > MEMORY_BUDGET
            sys.stdout.write(
                f"{cost.cards:5d}  {cost.child_cpu:11.2f}  {cost.child_resident:8.1f}  {cost.own_cpu:9.2f}  "
                f"{cost.readings:8d}\n"
            )
    sys.stdout.write(f"child under 30 MB: {'BROKEN' if over else 'kept'}\n")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
