"""What the sidecar costs beside a busy server: CPU and memory at 30 and 80 decode lines/s with one screen attached.

The budgets are those of DESIGN.md section 8: under 1 % of a core at 30 lines/s, under 2 % at 80, under 80 MB. Beside it
stands the same Python process that only polls the file, so that the cost of the machine itself can be read off.

    python -m tests.bench.bench_sidecar_cost [--seconds 20] [--rates 30,80] [--readers 1]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx
import psutil

START = (
    "[2026-05-01 12:00:00] server_args=ServerArgs(model_path='a/model', dp_size={ranks}, decode_log_interval=1)\n"
    "[2026-05-01 12:00:00] The server is fired up and ready to roll!\n"
)
LINE = (
    "[2026-05-01 12:{minute:02d}:{second:02d} DP{rank} TP{rank}] Decode batch, #running-req: {batch}, "
    "#token: {tokens}, token usage: 0.01, accept len: {accept:.2f}, accept rate: 0.06, cuda graph: True, "
    "gen throughput (token/s): {speed:.2f}, #queue-req: 0\n"
)
POLLER = "import sys, time\nf = open(sys.argv[1], 'rb')\nwhile True:\n    f.read()\n    time.sleep(0.125)\n"
WARM_SECONDS = 3.0
BUDGETS = {30: 1.0, 80: 2.0}
MEMORY_BUDGET = 80.0


class Cost(NamedTuple):
    """Per cent of a core and MB."""

    cpu: float
    resident: float
    frames: float
    """Events per second that the reader got."""
    kilobytes: float
    """kB per second that the reader got."""
    delay: float
    """Median milliseconds from a written line to the event that shows it."""
    worst: float


def write(log: Path, rate: int, ranks: int, stop: threading.Event, written: dict[int, float]) -> None:
    """Writes genuine lines at a steady rate, one write per line as a server does."""
    number, began = 0, time.monotonic()
    with log.open("a", buffering=1) as out:
        while not stop.is_set():
            number += 1
            rank = number % ranks
            batch = 1 + number // 400 % 8
            out.write(
                LINE.format(
                    minute=number // 60 % 60,
                    second=number % 60,
                    rank=rank,
                    batch=batch,
                    tokens=batch * (1000 + number % 5000),
                    accept=2.5 + number % 10 / 10,
                    speed=30.0 * batch + number % 7,
                )
            )
            written[number] = time.monotonic()
            stop.wait(max(0.0, began + number / rate - time.monotonic()))


class Screen:
    """Reads the stream as a screen does, without drawing."""

    def __init__(self, url: str, head: int, written: dict[int, float], stop: threading.Event) -> None:
        self.frames = 0
        self.bytes = 0
        self.delays: list[float] = []
        self._arguments = (url, head, written, stop)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        url, head, written, stop = self._arguments
        shown = 0
        with httpx.stream("GET", url + "/v1/stream", timeout=30, trust_env=False) as response:
            for line in response.iter_lines():
                self.bytes += len(line) + 1
                if stop.is_set():
                    return
                if not line.startswith("data: "):
                    continue
                self.frames += 1
                now = time.monotonic()
                lines = sum(source["lines"] for source in json.loads(line[6:])["snapshot"]["sources"]) - head
                self.delays += [1000 * (now - written[n]) for n in range(shown + 1, lines + 1) if n in written]
                shown = max(shown, lines)


def measured(process: psutil.Process, seconds: float) -> tuple[float, float]:
    """Per cent of a core over some seconds, and MB at their end."""
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after, took = process.cpu_times(), time.monotonic() - began
    used = after.user + after.system - before.user - before.system
    return 100 * used / took, process.memory_info().rss / 1e6


def sidecar(rate: int, ranks: int, readers: int, seconds: float) -> Cost:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        log.write_text(START.format(ranks=ranks))
        command = [sys.executable, "-m", "ddwatch_sidecar.cli", "--log", str(log), "--port", "0", "--announce"]
        # A home of its own: nothing that was learned elsewhere comes in, and nothing is left behind.
        home = {
            **os.environ,
            "HOME": folder,
            "XDG_STATE_HOME": folder,
            "XDG_CONFIG_HOME": folder,
            "XDG_DATA_HOME": folder,
        }
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=home) as child:
            stop, written = threading.Event(), dict[int, float]()
            try:
                assert child.stdout is not None
                url = json.loads(child.stdout.readline())["url"]
                time.sleep(1)
                screens = [Screen(url, 2, written, stop) for _ in range(readers)]
                writer = threading.Thread(target=write, args=(log, rate, ranks, stop, written), daemon=True)
                writer.start()
                time.sleep(WARM_SECONDS)
                frames, size = (sum(s.frames for s in screens), sum(s.bytes for s in screens))
                cpu, resident = measured(psutil.Process(child.pid), seconds)
                frames, size = (sum(s.frames for s in screens) - frames, sum(s.bytes for s in screens) - size)
                delays = sorted(delay for screen in screens for delay in screen.delays)
            finally:
                stop.set()
                child.terminate()
            each = max(1, readers)
            return Cost(
                cpu,
                resident,
                frames / seconds / each,
                size / seconds / each / 1000,
                median(delays) if delays else float("nan"),
                delays[int(0.99 * (len(delays) - 1))] if delays else float("nan"),
            )


def poller(seconds: float) -> tuple[float, float]:
    """The cost of polling a file from Python and doing nothing."""
    with (
        tempfile.NamedTemporaryFile() as file,
        subprocess.Popen([sys.executable, "-c", POLLER, file.name]) as child,
    ):
        try:
            time.sleep(1)
            return measured(psutil.Process(child.pid), seconds)
        finally:
            child.terminate()


COLUMNS = ("CPU %", "budget", "RSS MB", "budget", "frames/s", "kB/s", "delay ms", "p99 ms")


def row(name: str, *cells: str) -> None:
    """Prints one row."""
    sys.stdout.write(f"{name:<24}" + "".join(f"{cell:>10}" for cell in cells) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Measures and prints one table; 1 when a budget is overrun."""
    arguments = argparse.ArgumentParser(description="What the sidecar costs beside a busy server.")
    arguments.add_argument("--seconds", type=float, default=20.0)
    arguments.add_argument("--rates", default="30,80")
    arguments.add_argument("--readers", type=int, default=1)
    chosen = arguments.parse_args()
    row("sidecar cost", *COLUMNS)
    overrun = False
    for rate in (int(text) for text in chosen.rates.split(",")):
        ranks = 8 if rate > 30 else 1
        cost = sidecar(rate, ranks, chosen.readers, chosen.seconds)
        budget = BUDGETS.get(rate, float("inf"))
        overrun |= cost.cpu >= budget or cost.resident >= MEMORY_BUDGET
        row(
            f"{rate} lines/s, DP{ranks}",
            f"{cost.cpu:.2f}",
            f"< {budget:g}",
            f"{cost.resident:.1f}",
            f"< {MEMORY_BUDGET:g}",
            f"{cost.frames:.2f}",
            f"{cost.kilobytes:.1f}",
            f"{cost.delay:.0f}",
            f"{cost.worst:.0f}",
        )
    cpu, resident = poller(chosen.seconds)
    row("bare polling loop", f"{cpu:.2f}", "", f"{resident:.1f}")
    return int(overrun)


if __name__ == "__main__":
    sys.exit(main())
