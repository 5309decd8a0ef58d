"""The machine around the cards: cores, memory, swap, and the CPU of the engine's own processes, read every 5 s.

Of a process only its main thread is read: there run SGLang's loops (scheduler, detokenizer, HTTP), and it costs one
small file instead of hundreds.
"""

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ddwatch.core.hardware import HostProcess, HostReading, HostRole
from ddwatch.core.records import SourceFault, SourceUp

Reading = HostReading | SourceFault | SourceUp

PAUSE_SECONDS = 5.0
SCAN_SECONDS = 30.0
"""How often new processes are looked for, and how often settings of the kernel are read."""
PROCESSES_AT_MOST = 128
TITLE = re.compile(r"sglang::(scheduler|detokenizer|tokenizer|http|data_parallel_controller)\w*?((?:_[A-Z]{2}\d+)*)$")
ROLES: dict[str, HostRole] = {
    "scheduler": "scheduler",
    "detokenizer": "detokenizer",
    "tokenizer": "tokenizer",
    "http": "tokenizer",
    "data_parallel_controller": "controller",
}
COMMAND_BYTES = 64 * 1024


class Role(NamedTuple):
    """What a process of the engine does."""

    role: HostRole
    rank: str | None


def role_of(words: Sequence[str]) -> Role | None:
    """The role of a process by its command line; None for one that is not the engine's.

    The engine's children name themselves (`sglang::scheduler_DP0_TP3`); the process that was started by hand keeps its
    command line, and serves HTTP and tokenizes.
    """
    if not words:
        return None
    title = TITLE.match(words[0].strip())
    if title is not None:
        ranks = title[2].replace("_", " ").strip()
        return Role(ROLES[title[1]], ranks or None)
    if any(word == "sglang.launch_server" or word.endswith("sglang/launch_server.py") for word in words[1:4]):
        return Role("tokenizer", None)
    names = [word.rsplit("/", 1)[-1] for word in words[:3]]
    if any(name == "sglang" and "serve" in words[index + 1 : index + 2] for index, name in enumerate(names)):
        return Role("tokenizer", None)
    return None


def may_become(words: Sequence[str]) -> bool:
    """Whether a process that has no role yet may still name itself: python before its title is set."""
    return bool(words) and ("python" in words[0] or "sglang" in words[0])


class _Known(Struct):
    """One process of the engine between two readings."""

    role: Role
    cpu_seconds: float | UnsetType = UNSET
    at: float = 0.0


class HostEndpoint:
    """Delivers one HostReading per poll; see `ddwatch_sidecar.service.Endpoint`."""

    name = "host"

    def __init__(
        self,
        *,
        proc: Path = Path("/proc"),
        system: Path = Path("/sys"),
        monotonic: Callable[[], float] = time.monotonic,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        """Prepares to read.

        Args:
            proc: where the kernel tells of processes.
            system: where the kernel tells of devices.
            monotonic: a clock for shares of time, in real seconds even when the watch runs faster.
            pause_seconds: time between two readings.
        """
        self._proc = proc
        self._system = system
        self._monotonic = monotonic
        self._ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        self._scanned_at: float | None = None
        self._others: dict[int, bool] = {}
        self._known: dict[int, _Known] = {}
        self._settings = HostReading(at=0.0)
        self._cpu: tuple[float, float, float] | None = None
        self._swap: tuple[float, float] | None = None
        self._up = False
        self._told: str | None = None
        """The fault that holds and has been told."""
        self.pause_seconds = pause_seconds

    async def poll(self, now: float) -> list[Reading]:
        """One reading, made in a thread: the kernel may take its time over a process that is dying."""
        return await asyncio.to_thread(self.read, now)

    async def close(self) -> None:
        """Nothing is held."""

    def read(self, now: float) -> list[Reading]:
        """One reading; what the kernel does not tell here is absent."""
        at = self._monotonic()
        if self._scanned_at is None or at - self._scanned_at >= SCAN_SECONDS:
            self._scanned_at = at
            self._scan()
            self._settings = self._read_settings()
        try:
            cpu, steal = self._cpu_shares()
            memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        except (OSError, psutil.Error) as error:
            return self._fault(now, error)
        found: list[Reading] = []
        if not self._up:
            self._up = True
            self._told = None
            found.append(SourceUp(at=now, source=self.name))
        found.append(
            replace(
                self._settings,
                at=now,
                source=self.name,
                cores=psutil.cpu_count(),
                cpu_ratio=cpu,
                steal_ratio=steal,
                run_queue=self._run_queue(),
                memory_total_bytes=memory.total,
                memory_available_bytes=memory.available,
                swap_total_bytes=swap.total,
                swap_used_bytes=swap.used,
                swap_bytes_per_second=self._swapped(at, float(swap.sin + swap.sout)),
                processes=self._processes(at),
            )
        )
        return found

    def _fault(self, now: float, error: Exception) -> list[Reading]:
        """The kernel does not answer at all (no free descriptor, /proc not mounted): told once, not guessed."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        told, self._told = self._told, reason
        self._up = False
        if told == reason:
            return []
        return [SourceFault(at=now, source=self.name, reason=f"the host cannot be read: {reason.lower()}")]

    def _cpu_shares(self) -> tuple[float | None, float | None]:
        """Shares of all cores that were busy and stolen since the last reading."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        steal = getattr(times, "steal", 0.0)
        # Guests are part of user time already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        before, self._cpu = self._cpu, (total, idle, steal)
        if before is None or total <= before[0]:
            return None, None
        passed = total - before[0]
        share = [min(1.0, max(0.0, (new - old) / passed)) for new, old in ((idle, before[1]), (steal, before[2]))]
        return 1.0 - share[0], share[1] if hasattr(times, "steal") else None

    def _swapped(self, at: float, moved: float) -> float | None:
        before, self._swap = self._swap, (at, moved)
        if before is None or at <= before[0] or moved < before[1]:
            return None
        return (moved - before[1]) / (at - before[0])

    def _run_queue(self) -> int | None:
        """Threads that run or could run, without the one that asks."""
        words = _text(self._proc / "loadavg").split()
        running, _, _ = (words[3] if len(words) > 3 else "").partition("/")
        return max(0, int(running) - 1) if running.isdigit() else None

    def _scan(self) -> None:
        """Looks at processes that were not there before, and again at those that may have named themselves since."""
        try:
            pids = {int(entry.name) for entry in self._proc.iterdir() if entry.name.isdigit()}
        except OSError:
            pids = set()
        self._others = {pid: final for pid, final in self._others.items() if pid in pids}
        known, self._known = self._known, {}
        for pid in sorted(pids):
            if self._others.get(pid):
                continue
            words = self._command(pid)
            role = role_of(words)
            if role is None:
                self._others[pid] = not may_become(words)
            elif len(self._known) < PROCESSES_AT_MOST:
                before = known.get(pid)
                self._known[pid] = before if before is not None and before.role == role else _Known(role)

    def _command(self, pid: int) -> list[str]:
        try:
            with (self._proc / str(pid) / "cmdline").open("rb") as file:
                data = file.read(COMMAND_BYTES)
        except OSError:
            return []
        return [word for word in data.decode("utf-8", "replace").split("\0") if word]

    def _processes(self, at: float) -> tuple[HostProcess, ...]:
        found = []
        for pid, known in list(self._known.items()):
            seconds = self._main_thread_seconds(pid)
            if seconds is None:
                del self._known[pid]
                continue
            ratio: float | None = None
            if known.cpu_seconds is not UNSET and at > known.at:
                ratio = max(0.0, (seconds - known.cpu_seconds) / (at - known.at))
            known.cpu_seconds, known.at = seconds, at
            found.append(
                HostProcess(
                    pid=pid,
                    role=known.role.role,
                    rank=known.role.rank,
                    cpu_ratio=ratio,
                    resident_bytes=self._resident(pid),
                )
            )
        return tuple(found)

    def _main_thread_seconds(self, pid: int) -> float | None:
        """CPU time of a process's main thread, None once it is gone."""
        _, _, rest = _text(self._proc / str(pid) / "task" / str(pid) / "stat").rpartition(")")
        words = rest.split()
        if len(words) < 13:
            return None
        return (int(words[11]) + int(words[12])) / self._ticks

    def _resident(self, pid: int) -> int | None:
        words = _text(self._proc / str(pid) / "statm").split()
        return int(words[1]) * self._page if len(words) > 1 else None

    def _read_settings(self) -> HostReading:
        """What changes only when somebody changes it."""
        balancing = _text(self._proc / "sys" / "kernel" / "numa_balancing").strip()
        nodes = len(list((self._system / "devices" / "system" / "node").glob("node[0-9]*")))
        policies = (self._system / "devices" / "system" / "cpu" / "cpufreq").glob("policy*/scaling_governor")
        governors = Counter(name for policy in policies if (name := _text(policy).strip()))
        return HostReading(
            at=0.0,
            numa_nodes=nodes or None,
            numa_balancing=balancing != "0" if balancing else None,
            governors=tuple(name for name, _ in governors.most_common()),
        )


def _text(path: Path) -> str:
    """A small file of the kernel; empty when there is none, or its process has left."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
