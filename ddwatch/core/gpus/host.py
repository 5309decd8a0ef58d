"""What is wrong with the machine around the cards: one full core, too many threads, swapping, a stealing hypervisor.

SGLang's scheduler spins: one full core is normal for it, so it is only named while the cards wait.
"""

from collections import deque
from collections.abc import Callable, Iterator

from ddwatch.core.hardware import HostProcess, HostReading
from ddwatch.core.hardware_view import Finding, FindingKind, Grade

WINDOW = 6
"""Readings that a condition is reached from: half a minute at one in 5 s."""
FEWEST = 4
FULL_CORE = 0.95
WAITING_GPUS = (0.05, 0.70)
"""Utilisation between which cards are at work and yet wait."""
QUEUE_FACTOR = 1.5
"""Runnable threads per core from which they stand in each other's way."""
STEAL = 0.05
SWAP_BYTES_PER_SECOND = 1024 * 1024.0
HOST = "host"
"""The owner of these findings beside the cards."""


class HostPast:
    """The last readings of the host, with the utilisation of the cards at that time."""

    def __init__(self) -> None:
        self._seen: deque[tuple[HostReading, float | None]] = deque(maxlen=WINDOW)

    @property
    def reading(self) -> HostReading | None:
        """The newest one."""
        return self._seen[-1][0] if self._seen else None

    def see(self, reading: HostReading, utilization: float | None) -> None:
        """Takes the next reading; `utilization` is the median over the engine's cards, None where not reported."""
        self._seen.append((reading, utilization))

    def judge(self) -> dict[FindingKind, Finding]:
        """What holds now."""
        return {finding.kind: finding for finding in self._all()} if len(self._seen) >= 1 else {}

    def _often(self, holds: Callable[[HostReading, float | None], bool]) -> float | None:
        """When a condition began that holds in most of the window, None when it does not."""
        times = [reading.at for reading, utilization in self._seen if holds(reading, utilization)]
        return times[0] if len(times) >= FEWEST else None

    def _all(self) -> Iterator[Finding]:
        reading, utilization = self._seen[-1]
        yield from self._processes(reading, utilization)
        cores = reading.cores
        if cores:
            since = self._often(lambda seen, _: (seen.run_queue or 0) > QUEUE_FACTOR * cores)
            if since is not None:
                yield _finding(
                    "cpu-queue",
                    "warning",
                    since,
                    f"{reading.run_queue} threads want to run on {cores} cores",
                    "see what else runs here (top -H); keep other work off the cores of the engine",
                )
        since = self._often(lambda seen, _: (seen.steal_ratio or 0.0) >= STEAL)
        if since is not None:
            yield _finding(
                "cpu-steal",
                "warning",
                since,
                f"the hypervisor takes {(reading.steal_ratio or 0.0) * 100:.0f} % of this machine's CPU time away",
                "ask for dedicated cores, or move other guests",
            )
        since = self._often(lambda seen, _: (seen.swap_bytes_per_second or 0.0) >= SWAP_BYTES_PER_SECOND)
        if since is not None:
            yield _finding(
                "swap",
                "warning",
                since,
                f"the host swaps {(reading.swap_bytes_per_second or 0.0) / 1024**2:.0f} MiB/s",
                "memory is short: see what uses it (free -h, top), and turn swapping off for the engine",
            )
        if reading.numa_balancing and (reading.numa_nodes or 1) > 1:
            yield _finding(
                "numa-balancing",
                "information",
                reading.at,
                f"automatic NUMA balancing is on ({reading.numa_nodes} nodes)",
                "it moves memory under a running engine: sysctl kernel.numa_balancing=0",
            )
        slow = [name for name in reading.governors if name != "performance"]
        if slow:
            yield _finding(
                "governor",
                "information",
                reading.at,
                f"CPU frequency governor {slow[0]}",
                "CPU work between steps may be slower than needed: cpupower frequency-set -g performance",
            )

    def _processes(self, reading: HostReading, utilization: float | None) -> Iterator[Finding]:
        low, high = WAITING_GPUS
        for process in sorted(reading.processes, key=lambda item: -(item.cpu_ratio or 0.0)):
            pid, spins = process.pid, process.role == "scheduler"

            def full(seen: HostReading, busy: float | None, pid: int = pid, spins: bool = spins) -> bool:
                waits = not spins or (busy is not None and low < busy < high)
                return waits and any(p.pid == pid and (p.cpu_ratio or 0.0) >= FULL_CORE for p in seen.processes)

            since = self._often(full)
            if since is not None:
                yield self._full_core(process, since, utilization if spins else None)
                return

    @staticmethod
    def _full_core(process: HostProcess, since: float, utilization: float | None) -> Finding:
        who = f"the {process.role}{f' of {process.rank}' if process.rank else ''}"
        waiting = f" while the GPUs are busy {utilization * 100:.0f} %" if utilization is not None else ""
        return _finding(
            "cpu-bound",
            "warning",
            since,
            f"{who} keeps one core full ({(process.cpu_ratio or 0.0) * 100:.0f} %){waiting}: tokens wait for it",
            "give it a core of its own (taskset, no hyper-thread sibling), check the governor, look at what it does "
            "with py-spy",
        )


def _finding(kind: FindingKind, grade: Grade, since: float, sentence: str, next_step: str) -> Finding:
    return Finding(
        kind=kind,
        grade=grade,
        severity="ok" if grade == "information" else "notice",
        since=since,
        slows=grade != "information",
        sentence=sentence,
        next_step=next_step,
    )
