"""What the screen costs at 120x40: terminal output and CPU with live data, and what a quiet second writes.

Budget (DESIGN.md section 8): under 20 kB/s and under 3 % of one core at 30 decode lines per second; a tick in
which nothing changed writes less than 200 bytes. The peer in the same run is the idle screen itself. Eight cards whose
figures move every second are on the screen where a C compiler is (`python -m tests.bench.bench_tui_cost 0`: none).
"""

import fcntl
import os
import pty
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import psutil

from ddwatch.commands.sidecar_child import sidecar_for
from ddwatch.demo.gpus.library import NoLibrary, library
from tests.fakes.log_writer import LogWriter
from tests.fakes.nvml_stub.library import Machine

COLUMNS, ROWS = 120, 40
LINES_PER_SECOND = 30
WARM_SECONDS = 8.0
MEASURED_SECONDS = 20.0
QUIET_SECONDS = 30.0
CARDS = 8
BYTES_PER_SECOND, CPU_RATIO, QUIET_BYTES = 20_000, 0.03, 200


class Terminal:
    """A pseudo terminal that counts what a program writes to it."""

    def __init__(self, words: list[str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        environment.pop("TMUX", None)
        self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.octets = 0
        self.writes: list[tuple[float, int]] = []
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 65536)
            except OSError:
                return
            if not part:
                return
            self.octets += len(part)
            self.writes.append((time.monotonic(), len(part)))

    def press(self, key: bytes) -> None:
        """Sends a key."""
        os.write(self._ours, key)


def decode_line(rng: random.Random, context: int) -> str:
    """A genuine decode line of the founding service."""
    accept = max(1.0, rng.gauss(3.0, 0.8))
    rate = accept / (0.029 + 0.067 * (context / 5900) ** 1.4) * rng.gauss(1, 0.03)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"[{stamp} TP0] Decode batch, #running-req: 1, #token: {context}, token usage: 0.01, accept len: {accept:.2f}, "
        f"accept rate: 0.06, cuda graph: True, gen throughput (token/s): {rate:.2f}, #queue-req: 0"
    )


def write_log(log: LogWriter, until: float) -> None:
    """LINES_PER_SECOND decode lines a second."""
    rng = random.Random(7)
    context = 300
    while time.monotonic() < until:
        context = 300 if context > 6000 else context + 3
        log.line(decode_line(rng, context))
        time.sleep(1 / LINES_PER_SECOND)


def move_cards(machine: Machine, cards: int, until: float) -> None:
    """New figures of every card each second, as a real machine under load has them."""
    rng = random.Random(8)
    while time.monotonic() < until:
        rules = []
        for index in range(cards):
            values = {
                "utilization": rng.choice((96, 97, 98)),
                "sm_clock": 2370 + 15 * rng.randint(0, 3),
                "power": 410_000 + rng.randint(-9000, 9000),
                "temperature": 61 + rng.randint(0, 1),
            }
            rules += [f"gpu {index} {key} {value}" for key, value in values.items()]
        machine.set(*rules)
        time.sleep(1.0)


def watched_cards(folder: Path, cards: int) -> tuple[Machine, list[str], dict[str, str]] | None:
    """Simulated cards, with what a sidecar is told of them; None where they cannot be had."""
    if not cards:
        return None
    try:
        found = library([folder / "library"])
    except NoLibrary as missing:
        sys.stdout.write(f"{missing}\n")
        return None
    machine = Machine(folder / "cards", cards)
    return machine, ["--nvml-library", str(found)], {"DDWATCH_NVML_SCENARIO": str(machine.path)}


def measured(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Bytes per second and share of one core over so many seconds."""
    process = psutil.Process(terminal.process.pid)
    before, octets, begun = process.cpu_times(), terminal.octets, time.monotonic()
    time.sleep(seconds)
    after, passed = process.cpu_times(), time.monotonic() - begun
    used = after.user + after.system - before.user - before.system
    return (terminal.octets - octets) / passed, used / passed


def main() -> int:
    """Prints a table; returns 1 when a budget is not kept."""
    cards = int(sys.argv[1]) if len(sys.argv) > 1 else CARDS
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "sglang.log"
        with LogWriter(path) as log:
            log.line(decode_line(random.Random(1), 300))
            busy = WARM_SECONDS + MEASURED_SECONDS + 2
            gpus = watched_cards(Path(name), cards)
            machine, words, variables = gpus or (None, ["--no-nvml"], {})
            with sidecar_for(str(path), more=words, variables=variables) as child:
                terminal = Terminal([sys.executable, "-m", "ddwatch.cli", "--url", child.url])
                writer = threading.Thread(target=write_log, args=(log, time.monotonic() + busy))
                writer.start()
                if machine is not None:
                    mover = threading.Thread(target=move_cards, args=(machine, cards, time.monotonic() + busy))
                    mover.start()
                time.sleep(WARM_SECONDS)
                rate, ratio = measured(terminal, MEASURED_SECONDS)
                writer.join()
                time.sleep(20)
                _, quiet = measured(terminal, QUIET_SECONDS)
                asked = time.monotonic()
                terminal.press(b"q")
                terminal.process.wait(10)
                leaving = time.monotonic() - asked
    seconds = quiet_ticks(terminal.writes, asked - QUIET_SECONDS, asked)
    usual, most = statistics.median(seconds), max(seconds)
    sys.stdout.write(
        f"screen at {COLUMNS}x{ROWS}, {LINES_PER_SECOND} decode lines/s, {cards if gpus else 0} GPUs "
        "(budgets in brackets)\n"
        f"  live    {rate:7.0f} bytes/s [{BYTES_PER_SECOND}]   {ratio * 100:5.2f} % of a core [{CPU_RATIO:.0%}]\n"
        f"  quiet   {usual:7.0f} bytes in a usual second [{QUIET_BYTES}], {most} at most   {quiet:.2%} of a core\n"
        f"  leaving {leaving:7.2f} s\n"
    )
    return int(rate > BYTES_PER_SECOND or ratio > CPU_RATIO or usual > QUIET_BYTES)


def quiet_ticks(writes: list[tuple[float, int]], begin: float, end: float) -> list[int]:
    """Bytes written in each whole second."""
    seconds = [0] * int(end - begin)
    for at, octets in writes:
        if begin <= at < begin + len(seconds):
            seconds[int(at - begin)] += octets
    return seconds


if __name__ == "__main__":
    sys.exit(main())
