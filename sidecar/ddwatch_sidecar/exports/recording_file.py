"""One recording on disk: opened, locked, migrated, written in batches, bounded in size; used by one thread only."""

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ddwatch.core.alert_view import AlertView
from ddwatch.core.history import REQUESTS_KEPT
from ddwatch.core.recording import (
    MICRO,
    Row,
    Witness,
    micros,
    point_of,
    request_of,
    sample_row,
    witness_of,
)
from ddwatch.core.snapshot import Event, History, Point, Sample
from ddwatch.core.wire import WireError, decode_snapshot
from ddwatch_sidecar.exports.recording_opening import (
    BUSY_SECONDS,
    FOLDER_MODE,
    LARGEST_WAL,
    MIGRATIONS,
    Lock,
    Unrecordable,
    companions,
    connected,
)

PLACES = 9
"""How many sidecars may record the same service side by side."""
RESTORED_EVENTS = 500
LONGEST_DOCUMENT = 16 * 1024 * 1024


class Limits(NamedTuple):
    """How much is kept."""

    bytes: int = 512 * 1024 * 1024
    raw_seconds: float = 24 * 3600.0
    """Age up to which single samples and one-second points are kept."""
    kept_seconds: float = 30 * 86400.0
    """Age up to which anything is kept."""
    wal_bytes: int = LARGEST_WAL

    @classmethod
    def of(cls, size: int, kept_seconds: float) -> "Limits":
        """Limits with this size in bytes and age in seconds; single samples are kept for a day at most."""
        return cls(bytes=size, raw_seconds=min(cls().raw_seconds, kept_seconds), kept_seconds=kept_seconds)


class Past(NamedTuple):
    """What an earlier run left."""

    history: History
    """Its newest points and events; the last point marks the gap until now."""
    ended_at: float | None
    """When its last word was written; None for a recording that has just begun."""
    closed: bool = True
    """Whether it ended in order, rather than being killed."""
    mark: Point | None = None
    """The mark of the gap where it is new."""
    alerts: tuple[AlertView, ...] = ()
    """The alert log as it stood at the end."""


class RecordingFile:
    """An open recording; every method may raise sqlite3.Error or OSError."""

    def __init__(self, path: Path, lock: Lock, database: sqlite3.Connection, limits: Limits, version: str) -> None:
        self.path = path
        self.limits = limits
        self.database = database
        self._lock = lock
        self._version = version
        self._place = _place(path)
        self._run: int | None = None
        self._witnesses: dict[Witness, int] = {
            Witness(*row[1:]): row[0] for row in database.execute("SELECT * FROM witnesses")
        }
        self._newest: dict[str, int] = {}
        self.dirty_from: int | None = None
        """Time of the oldest sample, in microseconds, that came since the means were last computed."""

    @classmethod
    def opened(
        cls,
        folder: Path,
        name: str,
        *,
        limits: Limits,
        version: str,
        now: float,
        tell: Callable[[str], None],
        migrations: Mapping[int, str] = MIGRATIONS,
    ) -> "RecordingFile":
        """Opens the first recording of this name that nobody writes, making folder and file.

        Args:
            folder: where recordings live.
            name: what is recorded, as the stem of the file.
            limits: how much is kept.
            version: version of ddwatch.
            now: seconds since the epoch.
            tell: narrates one sentence to the operator.
            migrations: the SQL from each older version to the next.

        Raises:
            Unrecordable: with one sentence when there is no way to record here.
            sqlite3.Error: when the database would not open.
            OSError: when the folder would not.
        """
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for place in range(1, PLACES + 1):
            path = folder / (f"{name}.sqlite" if place == 1 else f"{name}.{place}.sqlite")
            lock = Lock.taken(path.with_name(f"{path.name}.lock"))
            if lock is None:
                continue
            try:
                if place > 1:
                    tell(f"another sidecar records this service, so this one records to {path.name}")
                return cls(path, lock, connected(path, now, tell, migrations), limits, version)
            except BaseException:
                lock.release()
                raise
        raise Unrecordable(f"{PLACES} sidecars record this service already")

    def close(self) -> None:
        """Ends the run in order and lets go of the file."""
        try:
            if self._run is not None:
                with self.database:
                    self.database.execute("UPDATE stored_runs SET closed = 1 WHERE run = ?", (self._run,))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Lets go of the file as it is."""
        with suppress(sqlite3.Error):
            self.database.close()
        self._lock.release()

    def past(self, now: float, seconds: float) -> Past:
        """What earlier runs left of the last stretch of time before now."""
        found = self.database.execute("SELECT ended_us, closed FROM stored_runs ORDER BY run DESC LIMIT 1").fetchone()
        if found is None:
            return Past(History(), None)
        ended, since, until = found[0] / MICRO, micros(now - seconds), micros(now)
        points = [
            point_of(row, 0)
            for row in self.database.execute(
                "SELECT * FROM stored_points WHERE at_us BETWEEN ? AND ? ORDER BY at_us", (since, until)
            )
        ]
        events = [
            Event(seq=0, at=at / MICRO, kind=kind, severity=severity, text=text, count=count)
            for at, kind, severity, text, count in self.database.execute(
                "SELECT at_us, kind, severity, text, count FROM stored_events WHERE at_us BETWEEN ? AND ? "
                "ORDER BY at_us DESC, run DESC, seq DESC LIMIT ?",
                (since, until, RESTORED_EVENTS),
            )
        ]
        requests = [
            request_of(row, 0)
            for row in self.database.execute(
                "SELECT * FROM stored_requests WHERE at_us BETWEEN ? AND ? ORDER BY at_us DESC LIMIT ?",
                (since, until, REQUESTS_KEPT),
            )
        ]
        mark: Point | None = None
        if points and points[-1].state != "gap":
            mark = Point(seq=0, at=min(now, max(ended, points[-1].at)), state="gap")
            points.append(mark)
        history = History(points=tuple(points), events=tuple(reversed(events)), requests=tuple(reversed(requests)))
        return Past(history, ended, bool(found[1]), mark, self._alerts(until))

    def _alerts(self, until: int) -> tuple[AlertView, ...]:
        row = self.database.execute(
            "SELECT document FROM stored_snapshots WHERE at_us <= ? ORDER BY at_us DESC LIMIT 1", (until,)
        ).fetchone()
        if row is None:
            return ()
        try:
            return decode_snapshot(zlib.decompressobj().decompress(row[0], LONGEST_DOCUMENT)).alerts
        except (zlib.error, WireError):
            # A snapshot of another version: its log is not worth giving up the recording.
            return ()

    def begin(self, now: float, watches: str) -> None:
        """Begins a run."""
        with self.database as database:
            row = (micros(now), micros(now), self._version)
            cursor = database.execute(
                "INSERT INTO stored_runs (began_us, ended_us, closed, version) VALUES (?, ?, 0, ?)", row
            )
            self._run = cursor.lastrowid
            database.execute("INSERT OR REPLACE INTO meta VALUES ('watches', ?)", (watches,))

    @property
    def run(self) -> int:
        """The number of this run."""
        assert self._run is not None, "begin comes first"
        return self._run

    def reached(self, at: float) -> None:
        """Notes, inside a transaction, up to when this run has recorded."""
        self.database.execute(
            "UPDATE stored_runs SET ended_us = max(ended_us, ?) WHERE run = ?", (micros(at), self._run)
        )

    def keys(self, table: str, times: Iterable[float]) -> list[int]:
        """A free key for each time, in microseconds; the times rise. A taken one is moved on by a microsecond."""
        newest = self._newest.get(table)
        if newest is None:
            newest = self.database.execute(f"SELECT max(at_us) FROM {table}").fetchone()[0] or -1
        found: list[int] = []
        last = -1
        for at in times:
            key = max(micros(at), last + 1)
            while key <= newest and self._taken(table, key):
                key += 1
            found.append(key)
            last = key
        self._newest[table] = max(newest, last)
        return found

    def _taken(self, table: str, key: int) -> bool:
        return self.database.execute(f"SELECT 1 FROM {table} WHERE at_us = ?", (key,)).fetchone() is not None

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Adds rows to a table."""
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self.database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def add_samples(self, samples: Sequence[Sample]) -> None:
        """Adds samples in the order of their time."""
        ordered = sorted(samples, key=lambda sample: sample.at)
        keys = self.keys("stored_samples", (sample.at for sample in ordered))
        self.insert(
            "stored_samples",
            [sample_row(sample, key, self._witness(sample)) for sample, key in zip(ordered, keys, strict=True)],
        )
        if keys:
            self.dirty_from = keys[0] if self.dirty_from is None else min(self.dirty_from, keys[0])

    def _witness(self, sample: Sample) -> int:
        witness = witness_of(sample)
        number = self._witnesses.get(witness)
        if number is None:
            number = len(self._witnesses) + 1
            self.database.execute("INSERT INTO witnesses VALUES (?, ?, ?, ?, ?)", (number, *witness))
            self._witnesses[witness] = number
        return number

    def forget_pending(self) -> None:
        """After a transaction that was rolled back: what was remembered of it is read anew."""
        self._newest.clear()
        self._witnesses = {Witness(*row[1:]): row[0] for row in self.database.execute("SELECT * FROM witnesses")}

    def displaced(self) -> bool:
        """Whether somebody has removed or replaced the file, so that what is written would be lost."""
        return _place(self.path) != self._place

    def size(self) -> int:
        """Bytes that the database takes on disk, its write-ahead log included."""
        return sum(file.stat().st_size for file in companions(self.path)[:2] if file.exists())

    def check_wal(self) -> None:
        """Empties a write-ahead log that has grown; raises Unrecordable when a reader keeps it from being emptied."""
        if self._wal() <= self.limits.wal_bytes:
            return
        self.database.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.OperationalError):
            self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.database.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        if self._wal() > self.limits.wal_bytes:
            raise Unrecordable("another program has kept the recording open for long; it must end its reading first")

    def _wal(self) -> int:
        try:
            return companions(self.path)[1].stat().st_size
        except FileNotFoundError:
            return 0


def _place(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
