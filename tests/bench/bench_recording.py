"""What a recording costs: bytes for a day at 30 steps/s, CPU per recorded second, and the time to have the past back.

A day is not waited for: so many samples, points and snapshots as a day at that rate makes are written as fast as the
disk takes them, in batches of two seconds as the sidecar does, and the size is that of the file at its end. The CPU is
that of the whole recorder (taking, mapping, writing, tidying up), divided by the seconds that were recorded.

    python -m tests.bench.bench_recording [--hours 24] [--rate 30] [--ranks 1]
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from ddwatch_sidecar.exports.recorder import COMMIT_SECONDS, Recorder
from ddwatch_sidecar.exports.recording_file import Limits, RecordingFile

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, Rank, Record, ServerStart

START = 1_780_000_000.0
BYTES_BUDGET = 512 * 1024 * 1024
CPU_BUDGET = 0.5
"""Per cent of a core; the whole sidecar has one."""


class Cost(NamedTuple):
    """What so many recorded hours came to."""

    samples: int
    size: int
    cpu: float
    """Seconds of the process, with the monitor that makes what is recorded."""
    recording: float
    """Seconds of these that the recorder took."""
    restored: float
    """Seconds until the newest two hours are back."""


def traffic(rate: float, ranks: int, seconds: int) -> list[list[DecodeBatch]]:
    """Lines of one batch, drifting as real ones do; a flag now and then."""
    chance = random.Random(7)
    found: list[list[DecodeBatch]] = []
    count = int(rate * seconds)
    for number in range(count):
        if number % int(rate * COMMIT_SECONDS) == 0:
            found.append([])
        batch = 1 + number // 4000 % 8
        context = 1000 + number * 3 % 9000
        found[-1].append(
            DecodeBatch(
                at=START + number / rate + chance.random() / 1e4,
                rank=Rank(dp=number % ranks) if ranks > 1 else Rank(),
                line=number + 1,
                running=batch,
                total_context_tokens=batch * context,
                accept_length=round(chance.uniform(1.5, 8.0), 2),
                throughput_tokens_per_second=round(chance.uniform(30.0, 900.0), 2),
                queued=0,
            )
        )
    return found


def cost(folder: Path, hours: float, rate: float, ranks: int) -> Cost:
    """Records some hours and looks at the file."""
    monitor = Monitor(started_at=START)
    monitor.accept(ServerStart(at=START, arguments={"model_path": "a/model", "dp_size": ranks}))
    clock = [START]

    def opened(now: float) -> RecordingFile:
        return RecordingFile.opened(folder, "bench", limits=Limits(), version="bench", now=now, tell=lambda _: None)

    recorder = Recorder(
        opened,
        drain=monitor.drain,
        history=monitor.history,
        tell=lambda _: None,
        clock=lambda: clock[0],
        commit_seconds=0.0005,
    )
    recorder.start()
    recorder.past.result()
    samples, spent, began = 0, 0.0, time.process_time()
    stretch = 600
    lines = traffic(rate, ranks, stretch)
    for offset in range(0, int(hours * 3600), stretch):
        for batch in lines:
            records: list[Record] = [move(line, offset) for line in batch]
            for record in records:
                monitor.accept(record)
            clock[0] = records[-1].at
            snapshot = monitor.at(clock[0])
            before = time.thread_time()
            recorder.accepted(records, clock[0])
            recorder.published(snapshot)
            spent += time.thread_time() - before
            samples += len(records)
            while recorder.waiting > 2000:
                time.sleep(0.0002)
    if not recorder.close(600):
        raise SystemExit("the disk did not take it in ten minutes")
    cpu = time.process_time() - began
    file = opened(clock[0])
    file.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = file.size()
    before = time.perf_counter()
    file.past(clock[0], 7200.0)
    restored = time.perf_counter() - before
    file.abandon()
    return Cost(samples, size, cpu, spent + recorder.busy_seconds, restored)


def move(line: DecodeBatch, seconds: int) -> DecodeBatch:
    """The same line some time later."""
    return DecodeBatch(
        at=line.at + seconds,
        rank=line.rank,
        line=(line.line or 0) + seconds * 30,
        running=line.running,
        total_context_tokens=line.total_context_tokens,
        accept_length=line.accept_length,
        throughput_tokens_per_second=line.throughput_tokens_per_second,
        queued=0,
    )


def main() -> int:
    """Measures and prints one table; 1 when a budget is overrun."""
    arguments = argparse.ArgumentParser(description="What a recording costs.")
    arguments.add_argument("--hours", type=float, default=24.0)
    arguments.add_argument("--rate", type=float, default=30.0)
    arguments.add_argument("--ranks", type=int, default=1)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = cost(Path(folder), chosen.hours, chosen.rate, chosen.ranks)
    seconds = chosen.hours * 3600
    day = found.size * 24 / chosen.hours
    share = 100 * found.recording / seconds
    out = sys.stdout.write
    out(f"recorded                 {chosen.hours:g} h at {chosen.rate:g} samples/s, {found.samples} samples\n")
    out(f"size                     {found.size / 2**20:.1f} MiB, {found.size / found.samples:.1f} bytes per sample\n")
    out(f"a day at this rate       {day / 2**20:.1f} MiB (budget {BYTES_BUDGET / 2**20:.0f})\n")
    out(f"CPU of the recording     {share:.3f} % of a core (budget {CPU_BUDGET})\n")
    out(f"CPU with the monitor     {100 * found.cpu / seconds:.3f} % of a core\n")
    out(f"two hours of past back   {1000 * found.restored:.0f} ms\n")
    return int(day >= BYTES_BUDGET or share >= CPU_BUDGET)


if __name__ == "__main__":
    sys.exit(main())
