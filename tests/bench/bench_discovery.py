"""What looking for servers costs among many processes: wall time and CPU, beside `ps`, which only lists them.

The budget is half a second of wall time among 500 processes.

    python -m tests.bench.bench_discovery [--processes 500] [--rounds 15]
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from ddwatch.discovery.find import find
from tests.fakes.standing_in import standing_in

BUDGET_SECONDS = 0.5
PS = ["ps", "-eo", "pid,ppid,args"]


class Cost(NamedTuple):
    """Medians over the rounds, seconds."""

    wall: float
    cpu: float


def spent() -> float:
    """CPU of this process and of the children that it waited for."""
    whole = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        whole += used.ru_utime + used.ru_stime
    return whole


def measured(work: Callable[[], object], rounds: int) -> Cost:
    """Runs the work so often."""
    walls, cpus = [], []
    for _ in range(rounds):
        began, before = time.perf_counter(), spent()
        work()
        walls.append(time.perf_counter() - began)
        cpus.append(spent() - before)
    return Cost(statistics.median(walls), statistics.median(cpus))


def main() -> int:
    """Prints the table; 1 when the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    crowd = [subprocess.Popen(["sleep", "1000"]) for _ in range(arguments.processes)]
    try:
        with standing_in("--tp-size", "8") as one, standing_in("--tp-size", "2") as two:
            found = find()
            assert {one.pid, two.pid} <= {server.pid for server in found.servers}
            ours = measured(find, arguments.rounds)
            theirs = measured(lambda: subprocess.run(PS, capture_output=True, check=True), arguments.rounds)
    finally:
        for process in crowd:
            process.kill()
        for process in crowd:
            process.wait()
    sys.stdout.write(f"discovery among {found.looked_at} processes, {len(found.servers)} servers (medians)\n\n")
    for name, cost in (("ddwatch", ours), ("ps", theirs)):
        sys.stdout.write(f"  {name:<8} {cost.wall * 1000:7.0f} ms   {cost.cpu * 1000:7.0f} ms of CPU\n")
    kept = ours.wall < BUDGET_SECONDS
    sys.stdout.write(f"\n  budget {BUDGET_SECONDS * 1000:.0f} ms: {'kept' if kept else 'MISSED'}\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
