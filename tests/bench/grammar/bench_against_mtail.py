"""Measures log bytes to records against mtail, line shape by line shape, on one core, alternating, medians.

Run `python -m tests.bench.grammar.bench_against_mtail [LINES]`. The budget stands in DESIGN.md section 8: at least
three times mtail's lines per second on standard lines, never below once on any shape. mtail runs in its one-shot mode
on the same file; its start-up, measured on an empty file, is taken off. Both are measured in CPU time of one core, so
that other work on the machine does not count.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from ddwatch.core.grammar import LogReader
from ddwatch.feeds.log_lines import open_log
from tests.bench.grammar.shapes import SHAPES, Shape

ROUNDS = 7


def mtail_seconds(program: Path, log: Path) -> float:
    """CPU time of one pass of mtail."""
    command = ["mtail", "--one_shot", "--one_shot_format=json", "--progs", str(program), "--logs", str(log)]
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def mtail_matched(program: Path, log: Path) -> int:
    """How many lines the program counted."""
    command = ["mtail", "--one_shot", "--one_shot_format=prometheus", "--progs", str(program), "--logs", str(log)]
    page = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counts = [row.split() for row in page.splitlines() if row.startswith("lines{")]
    return sum(int(float(row[1])) for row in counts)


def grammar_pass(log: Path) -> tuple[float, int]:
    """CPU time of one pass of the grammar, and how many records it found."""
    records = 0
    begin = time.process_time()
    with open_log(str(log)) as lines:
        read = LogReader(None, 0.0).read
        for number, line in lines:
            records += len(read(line, None, number))
    return time.process_time() - begin, records


def measure(shape: Shape, count: int, folder: Path) -> tuple[float, float]:
    """Lines per second of mtail and of the grammar; both must have found every record."""
    log, empty, program = folder / "lines.log", folder / "empty.log", folder / "shape.mtail"
    log.write_text("".join(f"{line}\n" for line in shape.lines(count)))
    empty.write_text("")
    program.write_text(shape.program)
    expected = count if shape.records else 0
    if mtail_matched(program, log) != expected:
        raise SystemExit(f"{shape.name}: the mtail program counts {mtail_matched(program, log)} of {expected} lines")
    theirs, ours = [], []
    start_up = median(mtail_seconds(program, empty) for _ in range(ROUNDS))
    for _ in range(ROUNDS):
        theirs.append(mtail_seconds(program, log) - start_up)
        seconds, records = grammar_pass(log)
        if records != expected:
            raise SystemExit(f"{shape.name}: {records} records of {expected} lines")
        ours.append(seconds)
    return count / median(theirs), count / median(ours)


def main() -> int:
    """Prints the table; returns 1 when a shape misses its budget."""
    if shutil.which("mtail") is None:
        sys.stderr.write("mtail is not installed (Debian package mtail)\n")
        return 2
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    # One core for both: mtail would otherwise read and match on two.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    missed = 0
    sys.stdout.write(f"{'shape':<32} {'mtail lines/s':>14} {'ddwatch lines/s':>16} {'ratio':>6} {'budget':>7}\n")
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            theirs, ours = measure(shape, count, Path(folder))
            ratio = ours / theirs
            verdict = "ok" if ratio >= shape.factor else "MISSED"
            missed += ratio < shape.factor
            sys.stdout.write(
                f"{shape.name:<32} {theirs:>14,.0f} {ours:>16,.0f} {ratio:>6.2f} {shape.factor:>6.0f}x {verdict}\n"
            )
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
