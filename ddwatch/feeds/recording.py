"""A recording as others may read it: opened without disturbing who writes it, read in short pieces, never changed."""

import json
import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from ddwatch.core.exits import CommandFailed
from ddwatch.core.history import REQUESTS_KEPT
from ddwatch.core.recording import (
    APPLICATION_ID,
    MICRO,
    SCHEMA_VERSION,
    Row,
    VerdictChange,
    Witness,
    micros,
    point_of,
    request_of,
    sample_of,
)
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.snapshot import Event, Point, Sample, Snapshot, Verdict
from ddwatch.core.wire import WireError, decode_snapshot
from ddwatch.feeds.log_lines import shown

MAGIC = b"SQLite format 3\x00"
ROWS_AT_ONCE = 5000
"""Rows of one query: a reader that holds on for long would keep the writer from tidying up."""
BUSY_SECONDS = 5.0
LONGEST_DOCUMENT = 16 * 1024 * 1024
FAR = float(2**40)


class Run(NamedTuple):
    """One sidecar's stay with the recording, seconds since the epoch."""

    began_at: float
    ended_at: float
    """Up to when it recorded."""
    closed: bool
    """Whether it ended in order."""
    version: str


class ServerStarted(NamedTuple):
    """What a server told of its setup."""

    at: float
    kind: str
    """`start` from the log, `info` from the server's port."""
    engine: str | None
    version: str | None
    arguments: dict[str, str | int | float | bool | None]
    """Allow-listed arguments."""
    withheld: tuple[str, ...]
    """Names of the others that are set."""


def is_recording(path: str) -> bool:
    """Whether a path is a folder with recordings, or a file that begins like an SQLite database."""
    file = Path(path)
    try:
        if file.is_dir():
            return next(file.glob("*.sqlite"), None) is not None
        if not file.is_file():
            return False
        with file.open("rb") as opened:
            return opened.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def recording_in(path: str) -> Path:
    """The file itself, or the newest recording of a folder; raises CommandFailed with one sentence."""
    place = Path(path)
    try:
        if not place.is_dir():
            return place
        found = sorted(place.glob("*.sqlite"), key=lambda file: file.stat().st_mtime)
    except OSError as error:
        raise CommandFailed(f"cannot read {shown(path)}: {(error.strerror or 'an error').lower()}") from error
    if not found:
        raise CommandFailed(f"there is no recording (*.sqlite) in {shown(path)}")
    return found[-1]


def open_recording(path: str) -> "Recording":
    """Opens a recording, or the newest one of a folder; raises CommandFailed with one sentence."""
    file = recording_in(path)
    name = shown(str(file))
    try:
        size = file.stat().st_size
    except FileNotFoundError as error:
        raise CommandFailed(f"there is no file {name}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CommandFailed(f"cannot read {name}: {(reason or 'not a valid path').lower()}") from error
    if not size:
        raise CommandFailed(f"{name} is empty")
    with told(name):
        database = _connected(file)
    try:
        with told(name):
            _check(database, name)
            return Recording(file, database)
    except BaseException:
        database.close()
        raise


def _connected(file: Path) -> sqlite3.Connection:
    where = f"file:{quote(str(file.absolute()))}?mode=ro"
    database = sqlite3.connect(where, uri=True, timeout=BUSY_SECONDS)
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        log = file.with_name(f"{file.name}-wal")
        if log.exists() and log.stat().st_size:
            raise
        # Where nothing may be written, SQLite cannot keep its shared index; a file that nobody writes needs none.
        database = sqlite3.connect(f"{where}&immutable=1", uri=True, timeout=BUSY_SECONDS)
    return database


def _check(database: sqlite3.Connection, name: str) -> None:
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise CommandFailed(f"{name} is a database, but no recording of ddwatch")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise CommandFailed(
            f"{name} has recording schema {version} and this ddwatch reads {SCHEMA_VERSION}: update ddwatch"
        )
    if version < SCHEMA_VERSION:
        raise CommandFailed(
            f"{name} has recording schema {version} and this ddwatch reads {SCHEMA_VERSION}: "
            "let a sidecar of this version record to it once, which migrates it"
        )


@contextmanager
def told(name: str) -> Iterator[None]:
    """Turns what a database may do to its reader into one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "malformed" in text or "not a database" in text:
            raise CommandFailed(f"{name} is damaged: {text}") from error
        raise CommandFailed(f"cannot read {name}: {text}") from error
    except (zlib.error, WireError, msgspec.MsgspecError, ValueError) as error:
        raise CommandFailed(f"{name} is damaged: a row of it cannot be read") from error


class Recording:
    """An open recording. Every method raises CommandFailed with one sentence when the file is damaged."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self.name = shown(str(path))
        self._database = database
        self._witnesses: dict[int, Witness] = {}

    def __enter__(self) -> "Recording":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file."""
        with suppress(sqlite3.Error):
            self._database.close()

    def _all(self, sql: str, *values: Any) -> list[Row]:
        with told(self.name):
            return self._database.execute(sql, values).fetchall()

    def _one(self, sql: str, *values: Any) -> Row | None:
        found = self._all(sql, *values)
        return found[0] if found else None

    def _paged(self, table: str, since: float, until: float, columns: str = "*") -> Iterator[Row]:
        """Rows with since < at <= until in order, a page at a time, so that memory stays flat and nobody waits."""
        after, last = _key(since), _key(until)
        while True:
            rows = self._all(
                f"SELECT {columns} FROM {table} WHERE at_us > ? AND at_us <= ? ORDER BY at_us LIMIT {ROWS_AT_ONCE}",
                after,
                last,
            )
            yield from rows
            if len(rows) < ROWS_AT_ONCE:
                return
            after = rows[-1][0]

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        rows = self._all("SELECT began_us, ended_us, closed, version FROM stored_runs ORDER BY run")
        return [Run(began / MICRO, ended / MICRO, bool(closed), version) for began, ended, closed, version in rows]

    def bounds(self) -> tuple[float, float] | None:
        """The first and last moment that it tells of; None for a recording that holds nothing yet."""
        found: list[float] = []
        for table in ("stored_points", "stored_samples", "stored_verdicts", "stored_snapshots"):
            row = self._one(f"SELECT min(at_us), max(at_us) FROM {table}")
            found += [at / MICRO for at in row or () if at is not None]
        row = self._one("SELECT max(ended_us) FROM stored_runs") if found else None
        found += [at / MICRO for at in row or () if at is not None]
        return (min(found), max(found)) if found else None

    def samples(self, since: float = -FAR, until: float = FAR, *, spans: bool = False) -> Iterator[Sample]:
        """Samples of steps with since < at <= until, in order of time.

        Args:
            since: begin, left out.
            until: end.
            spans: whether other spans (forward passes) come too: they are shown and never judged, fitted or compared.
        """
        for row in self._paged("stored_samples", since, until):
            witness = self._witness(row[1])
            if spans or witness.span == "step":
                yield sample_of(row, witness)

    def _witness(self, number: int) -> Witness:
        if number not in self._witnesses:
            self._witnesses = {row[0]: Witness(*row[1:]) for row in self._all("SELECT * FROM witnesses")}
        witness = self._witnesses.get(number)
        if witness is None:
            raise CommandFailed(f"{self.name} is damaged: a sample names an unknown witness")
        return witness

    def points(self, since: float = -FAR, until: float = FAR) -> Iterator[Point]:
        """Points of the timeline with since < at <= until; those older than a day are means of ten seconds."""
        for row in self._paged("stored_points", since, until):
            yield point_of(row, 0)

    def points_around(self, at: float) -> tuple[float | None, float | None]:
        """Times of the last point up to a moment and of the first one after it."""
        before = self._one("SELECT at_us FROM stored_points WHERE at_us <= ? ORDER BY at_us DESC LIMIT 1", _key(at))
        after = self._one("SELECT at_us FROM stored_points WHERE at_us > ? ORDER BY at_us LIMIT 1", _key(at))
        return (None if before is None else before[0] / MICRO, None if after is None else after[0] / MICRO)

    def events(self, since: float = -FAR, until: float = FAR, newest: int | None = None) -> Iterator[Event]:
        """Events with since < at <= until, in order of time; with `newest` only so many of the last ones."""
        sql = "SELECT at_us, kind, severity, text, count, run, seq FROM stored_events WHERE at_us > ? AND at_us <= ? "
        bounds = (_key(since), _key(until))
        if newest is not None:
            rows = self._all(f"{sql} ORDER BY at_us DESC, run DESC, seq DESC LIMIT {newest}", *bounds)[::-1]
        else:
            rows = self._all(f"{sql} ORDER BY at_us, run, seq", *bounds)
        for at, kind, severity, text, count, _, _ in rows:
            with told(self.name):
                event = msgspec.convert(
                    {"seq": 0, "at": at / MICRO, "kind": kind, "severity": severity, "text": text, "count": count},
                    Event,
                )
            yield event

    def requests(self, since: float = -FAR, until: float = FAR, newest: int = REQUESTS_KEPT) -> list[FinishedRequest]:
        """The last finished requests with since < at <= until, in order of time."""
        sql = f"SELECT * FROM stored_requests WHERE at_us > ? AND at_us <= ? ORDER BY at_us DESC LIMIT {newest}"
        return [request_of(row, 0) for row in reversed(self._all(sql, _key(since), _key(until)))]

    def verdicts(self, since: float = -FAR, until: float = FAR) -> Iterator[VerdictChange]:
        """Changes of verdict with since < at <= until."""
        for row in self._paged("stored_verdicts", since, until):
            with told(self.name):
                change = _change(row)
            yield change

    def last_verdict(self, at: float) -> VerdictChange | None:
        """The newest change of verdict up to a moment."""
        row = self._one("SELECT * FROM stored_verdicts WHERE at_us <= ? ORDER BY at_us DESC LIMIT 1", _key(at))
        with told(self.name):
            return None if row is None else _change(row)

    def servers(self, since: float = -FAR, until: float = FAR) -> Iterator[ServerStarted]:
        """What servers told of their setup with since < at <= until."""
        for at, kind, engine, version, arguments, withheld in self._paged("stored_server", since, until):
            with told(self.name):
                said = ServerStarted(
                    at / MICRO, kind, engine, version, json.loads(arguments), tuple(json.loads(withheld))
                )
            yield said

    def snapshot(self, at: float, after: float = -FAR) -> Snapshot | None:
        """The newest kept snapshot with after < its time <= at."""
        row = self._one(
            "SELECT document FROM stored_snapshots WHERE at_us <= ? AND at_us > ? ORDER BY at_us DESC LIMIT 1",
            _key(at),
            _key(after),
        )
        if row is None:
            return None
        with told(self.name):
            unpack = zlib.decompressobj()
            return decode_snapshot(unpack.decompress(row[0], LONGEST_DOCUMENT))

    def rows(self, view: str, since: float, until: float) -> Iterator[dict[str, Any]]:
        """Rows of one of the smaller views as they are documented, with since < at <= until; `at` in ISO 8601."""
        with told(self.name):
            cursor = self._database.execute(
                f"SELECT * FROM {view} WHERE at > ? AND at <= ? ORDER BY at", (since, until)
            )
            names = [column[0] for column in cursor.description]
            while found := cursor.fetchmany(ROWS_AT_ONCE):
                for row in found:
                    named = dict(zip(names, row, strict=True))
                    named["at"] = named.pop("at_iso")
                    yield named

    def flag_counts(self, since: float) -> list[tuple[int, int]]:
        """Samples of steps since a moment by the bits of their flags."""
        steps = "SELECT id FROM witnesses WHERE span = 'step'"
        sql = f"SELECT flags, count(*) FROM stored_samples WHERE at_us > ? AND witness IN ({steps}) GROUP BY flags"
        rows = self._all(sql, _key(since))
        return [(flags, count) for flags, count in rows]


def _key(at: float) -> int:
    return micros(max(-FAR, min(FAR, at)))


def _change(row: Row) -> VerdictChange:
    at, _, name, severity, since, sentence, cause, evidence, next_steps, *figures = row
    verdict = msgspec.convert(
        {
            "name": name,
            "severity": severity,
            "since": since / MICRO,
            "sentence": sentence,
            "cause": cause,
            "evidence": json.loads(evidence),
            "next_steps": json.loads(next_steps),
        },
        Verdict,
    )
    names = ("ratio", "measured", "expected", "accept_length", "step_seconds", "context_tokens", "batch")
    return VerdictChange(at=at / MICRO, verdict=verdict, **dict(zip(names, figures, strict=True)))


def gap_at(runs: list[Run], at: float) -> tuple[float, float] | None:
    """The stretch without any sidecar that a moment lies in: from the end of one run to the begin of the next."""
    place = bisect_right([run.began_at for run in runs], at)
    if place == 0 or at <= runs[place - 1].ended_at or place == len(runs):
        return None
    return (runs[place - 1].ended_at, runs[place].began_at)


Opener = Callable[[], Recording]
