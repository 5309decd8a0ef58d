"""A recorder on a real file with a monitor of its own, and ways to look into what it wrote."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ddwatch_sidecar.exports.recorder import Recorder
from ddwatch_sidecar.exports.recording_file import Limits, Past, RecordingFile

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, Record
from ddwatch.core.snapshot import Sample

START = 1_780_000_000.0
"""A round time to record at; the tests' clock."""
PATIENCE = 20.0


def until(condition: Callable[[], object], what: str) -> None:
    """Waits for a condition; fails with what was waited for."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s for {what}"
        time.sleep(0.01)


def sample(at: float, *, flags: tuple[Any, ...] = (), dp: int | None = None, step: float = 0.05) -> Sample:
    """A plausible sample."""
    return Sample(
        at=at,
        dp_rank=dp,
        batch=2,
        total_context_tokens=4000,
        context_tokens=2000.0,
        accept_length=2.5,
        throughput=100.0,
        step_seconds=step,
        flags=flags,
        source_line=17,
    )


def decode(at: float, tokens: int = 4000) -> DecodeBatch:
    """A decode line."""
    return DecodeBatch(
        at=at, running=2, total_context_tokens=tokens, accept_length=2.5, throughput_tokens_per_second=100.0, queued=0
    )


def opened(folder: Path, told: list[str], limits: Limits | None = None, name: str = "service") -> RecordingFile:
    """A recording as a sidecar opens it."""
    return RecordingFile.opened(
        folder, name, limits=limits or Limits(), version="test", now=time.time(), tell=told.append
    )


@contextmanager
def begun(folder: Path, limits: Limits | None = None) -> Iterator[RecordingFile]:
    """A recording that is being written."""
    file = opened(folder, [], limits)
    try:
        file.begin(START, "a test")
        yield file
    finally:
        file.abandon()


class Watch:
    """A monitor with a recorder beside it; time is the test's."""

    def __init__(self, folder: Path, *, limits: Limits | None = None, now: float = START, **more: Any) -> None:
        self.now = now
        self.told: list[str] = []
        self.monitor = Monitor(started_at=now)
        self.recorder = Recorder(
            more.pop("open_file", lambda _: opened(folder, self.told, limits)),
            drain=self.monitor.drain,
            history=self.monitor.history,
            tell=self.told.append,
            clock=lambda: self.now,
            **{"commit_seconds": 0.02, "retry_seconds": 0.02, **more},
        )

    def start(self) -> Past | None:
        """Starts it and takes back what was recorded before."""
        self.recorder.start()
        past = self.recorder.past.result(PATIENCE)
        if past is not None:
            self.recorder.resume(past, self.monitor.restore(past.history, past.alerts, past.ended_at))
        return past

    def see(self, records: Sequence[Record], *, estimated: bool = False) -> None:
        """Feeds records, the time moving with them, and publishes once."""
        for record in records:
            self.monitor.accept(record)
            self.now = max(self.now, record.at)
        self.recorder.accepted(records, self.now, estimated=estimated)
        self.recorder.published(self.monitor.at(self.now))

    def run(self, seconds: int, per_second: int = 2) -> None:
        """A stretch of steady decoding from now on."""
        start = self.now
        for second in range(seconds):
            self.see([decode(start + second + number / per_second) for number in range(per_second)])
        self.now = start + seconds

    def end(self) -> None:
        """Ends in order."""
        assert self.recorder.close(PATIENCE)


def rows(path: Path, sql: str, *values: Any) -> list[Any]:
    """What another program reads."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return database.execute(sql, values).fetchall()


def count(path: Path, view: str) -> int:
    """How many rows a view has; 0 where there is no file yet."""
    if not path.exists():
        return 0
    try:
        return int(rows(path, f"SELECT count(*) FROM {view}")[0][0])
    except sqlite3.OperationalError:
        return 0
