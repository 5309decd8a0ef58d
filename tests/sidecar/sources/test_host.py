"""The host source over a small tree of the kernel's files: roles by title, CPU of main threads, settings, absences."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from ddwatch_sidecar.sources.host import SCAN_SECONDS, HostEndpoint, role_of

from ddwatch.core.hardware import HostProcess, HostReading
from ddwatch.core.records import SourceUp
from tests.fakes.clock import START, Clock

TICKS = 100


class Kernel:
    """A tree of files as the kernel shows them."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.system = folder / "proc", folder / "sys"
        self.proc.mkdir()
        self.system.mkdir()

    def write(self, path: str, text: str) -> None:
        target = self.proc.parent / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def process(self, pid: int, command: str, cpu_seconds: float = 0.0) -> None:
        """A process with its command line (words divided by |) and the CPU time of its main thread."""
        self.write(f"proc/{pid}/cmdline", command.replace("|", "\0") + "\0\0\0")
        ticks = int(cpu_seconds * TICKS)
        fields = " ".join(["R", "1", "1", "1", "0", "-1", "4194304", "9", "9", "9", "9", str(ticks), "0", "0", "0"])
        self.write(f"proc/{pid}/task/{pid}/stat", f"{pid} (a name) with) {fields} 20 0 99\n")
        self.write(f"proc/{pid}/statm", "100000 2000 300 4 0 5 0\n")

    def end(self, pid: int) -> None:
        for path in sorted((self.proc / str(pid)).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.proc / str(pid)).rmdir()


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def endpoint(kernel: Kernel, clock: Clock) -> HostEndpoint:
    return HostEndpoint(proc=kernel.proc, system=kernel.system, monotonic=clock.monotonic)


def read(host: HostEndpoint, clock: Clock, seconds: float = 5.0) -> HostReading:
    clock.advance(seconds)
    readings = [record for record in host.read(clock.now) if isinstance(record, HostReading)]
    assert len(readings) == 1
    return readings[0]


def by_pid(reading: HostReading) -> dict[int, HostProcess]:
    return {process.pid: process for process in reading.processes}


@pytest.mark.parametrize(
    ("command", "role", "rank"),
    [
        ("sglang::scheduler_TP0", "scheduler", "TP0"),
        ("sglang::scheduler_DP0_TP3", "scheduler", "DP0 TP3"),
        ("sglang::scheduler_DP1_TP3_EP3", "scheduler", "DP1 TP3 EP3"),
        ("sglang::scheduler", "scheduler", None),
        ("sglang::detokenizer", "detokenizer", None),
        ("sglang::data_parallel_controller", "controller", None),
        ("sglang::tokenizer_worker_3", "tokenizer", None),
        ("python3|-m|sglang.launch_server|--port|30000", "tokenizer", None),
        ("/venv/bin/python|-u|-m|sglang.launch_server", "tokenizer", None),
        ("/venv/bin/python|/venv/bin/sglang|serve|--model-path|m", "tokenizer", None),
        ("sglang|serve", "tokenizer", None),
    ],
)
def test_the_engine_is_known_by_its_titles(command: str, role: str, rank: str | None) -> None:
    found = role_of(command.split("|"))

    assert found is not None and (found.role, found.rank) == (role, rank)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "bash|-c|python -m sglang.launch_server --port 30000",
        "vim|sglang.launch_server.log",
        "python|train.py|--name|sglang::scheduler_TP0",
        "grep|sglang::scheduler",
        "sglang|--help",
        "sglang::unknown_thing",
        "nginx: worker process",
    ],
)
def test_what_only_speaks_of_the_engine_is_not_it(command: str) -> None:
    assert role_of([word for word in command.split("|") if word]) is None


def test_the_cpu_of_each_process_is_that_of_its_main_thread(kernel: Kernel) -> None:
    clock = Clock()
    kernel.process(10, "sglang::scheduler_TP0", 100.0)
    kernel.process(11, "sglang::detokenizer", 50.0)
    kernel.process(12, "nginx")
    host = endpoint(kernel, clock)
    first = by_pid(read(host, clock))
    kernel.process(10, "sglang::scheduler_TP0", 104.9)
    kernel.process(11, "sglang::detokenizer", 50.5)
    second = by_pid(read(host, clock))

    assert {process.cpu_ratio for process in first.values()} == {None}
    assert set(second) == {10, 11}
    assert second[10].cpu_ratio == pytest.approx(0.98) and second[11].cpu_ratio == pytest.approx(0.1)
    assert second[10].rank == "TP0" and second[10].resident_bytes == 2000 * os.sysconf("SC_PAGE_SIZE")


def test_processes_come_and_go_and_name_themselves_late(kernel: Kernel) -> None:
    clock = Clock()
    kernel.process(10, "python|-c|from multiprocessing.spawn import spawn_main")
    host = endpoint(kernel, clock)
    assert read(host, clock).processes == ()

    kernel.process(10, "sglang::scheduler_TP0", 1.0)
    kernel.process(20, "sglang::detokenizer")
    assert set(by_pid(read(host, clock, SCAN_SECONDS))) == {10, 20}

    kernel.end(20)
    assert set(by_pid(read(host, clock))) == {10}


def test_another_process_with_the_same_number_starts_from_nothing(kernel: Kernel) -> None:
    clock = Clock()
    kernel.process(10, "sglang::scheduler_TP0", 900.0)
    host = endpoint(kernel, clock)
    read(host, clock)
    kernel.process(10, "sglang::scheduler_TP1", 1.0)
    (process,) = read(host, clock, SCAN_SECONDS).processes

    assert (process.rank, process.cpu_ratio) == ("TP1", None)


def test_settings_of_the_kernel_are_read(kernel: Kernel) -> None:
    kernel.write("proc/loadavg", "1.00 2.00 3.00 42/1234 5678\n")
    kernel.write("proc/sys/kernel/numa_balancing", "1\n")
    for number in range(4):
        kernel.write(f"sys/devices/system/node/node{number}/x", "")
        governor = "performance" if number else "powersave"
        kernel.write(f"sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor", governor + "\n")
    clock = Clock()
    reading = read(endpoint(kernel, clock), clock)

    assert (reading.run_queue, reading.numa_nodes, reading.numa_balancing) == (41, 4, True)
    assert reading.governors == ("performance", "powersave")


def test_what_the_kernel_does_not_tell_is_absent(kernel: Kernel) -> None:
    clock = Clock()
    reading = read(endpoint(kernel, clock), clock)

    absent: dict[str, Any] = {
        name: getattr(reading, name)
        for name in ("run_queue", "numa_nodes", "numa_balancing", "cpu_ratio", "steal_ratio", "swap_bytes_per_second")
    }
    assert set(absent.values()) == {None}
    assert reading.governors == () and reading.processes == ()


def test_shares_of_the_real_machine_are_shares() -> None:
    clock = Clock()
    host = HostEndpoint(monotonic=clock.monotonic)
    read(host, clock)
    reading = read(host, clock)
    while reading.cpu_ratio is None:
        reading = read(host, clock)

    assert 0.0 <= reading.cpu_ratio <= 1.0
    assert reading.cores == psutil.cpu_count() and reading.memory_total_bytes == psutil.virtual_memory().total
    assert reading.swap_bytes_per_second is not None and reading.swap_bytes_per_second >= 0.0


def test_a_real_process_is_found_and_forgotten() -> None:
    clock = Clock()
    host = HostEndpoint(monotonic=clock.monotonic)
    child = subprocess.Popen(
        ["sglang::scheduler_DP0_TP1", "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"1\n"
        read(host, clock)
        mine = by_pid(read(host, clock))[child.pid]
        assert (mine.role, mine.rank) == ("scheduler", "DP0 TP1")
        assert mine.cpu_ratio is not None and mine.cpu_ratio < 1.0 and (mine.resident_bytes or 0) > 2**20
    finally:
        child.communicate()
    assert child.pid not in by_pid(read(host, clock))


def test_it_says_that_it_is_up_once_and_polls_without_blocking_the_loop() -> None:
    async def polls() -> list[object]:
        host = HostEndpoint()
        found = [*(await host.poll(START)), *(await host.poll(START + 5))]
        await host.close()
        return list(found)

    records = asyncio.run(polls())
    assert [type(record) for record in records] == [SourceUp, HostReading, HostReading]
