"""Opens the database of a recording: private, locked, in this version's schema; what cannot be one is put aside."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from ddwatch.core.recording import APPLICATION_ID, SCHEMA, SCHEMA_NAME, SCHEMA_VERSION

MIGRATIONS: Mapping[int, str] = {}
"""The SQL that leads from a schema version to the next; a version without a way is renamed aside."""
FOLDER_MODE = 0o700
FILE_MODE = 0o600
ASIDE_KEPT = 2
"""Files that were put aside (damaged, foreign, too old) and are kept; the oldest goes first."""
BUSY_SECONDS = 2.0
"""How long a writer waits for a lock that somebody else holds."""
WAL_PAGES = 1000
"""Pages in the write-ahead log after which SQLite moves them into the file, as far as readers let it."""
LARGEST_WAL = 64 * 1024 * 1024
"""Bytes of the write-ahead log at which writing pauses: a reader that never ends keeps it from being emptied."""


class Unrecordable(Exception):
    """The recording cannot be written for now; the message is one sentence for the operator."""


def damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether an error says that the file itself is broken, rather than the world around it."""
    text = str(error)
    return "malformed" in text or "not a database" in text or "unsupported file format" in text


def reason_of(error: sqlite3.Error | OSError) -> str:
    """What the system says, in lower case."""
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    if text == "database or disk is full":
        text = "the disk is full"
    return text[:1].lower() + text[1:]


class Lock:
    """A lock file that the operating system lets go of when its process ends in any way."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def taken(cls, path: Path) -> "Lock | None":
        """The lock, or None when somebody holds it; raises OSError when the folder would not have it."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError:
            os.close(handle)
            raise
        return cls(handle)

    def release(self) -> None:
        """Lets go."""
        os.close(self._handle)


def companions(path: Path) -> tuple[Path, ...]:
    """The database and the files that SQLite keeps beside it."""
    return (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))


def put_aside(path: Path, why: str, now: float) -> Path:
    """Renames a recording and its companions out of the way; keeps a few of those that were put aside before."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    aside = path.with_name(f"{path.name}.{why}-{stamp}")
    for old, new in zip(companions(path), companions(aside), strict=True):
        with suppress(FileNotFoundError):
            old.replace(new)
    earlier = sorted(file for file in path.parent.glob(f"{path.name}.*-*T*") if file.name[-7] == "T")
    for file in earlier[:-ASIDE_KEPT]:
        for part in companions(file):
            with suppress(OSError):
                part.unlink()
    return aside


def connected(path: Path, now: float, tell: Callable[[str], None], migrations: Mapping[int, str]) -> sqlite3.Connection:
    """The database of a recording in this version's schema; what cannot be one is put aside."""
    try:
        database, aside = _migrated(path, migrations)
    except sqlite3.DatabaseError as error:
        if not damaged(error):
            raise
        database, aside = None, "damaged"
    if database is not None:
        return database
    kept = put_aside(path, aside, now)
    tell(f"the recording {path.name} is {aside}; it is kept as {kept.name} and a new one begins")
    database, aside = _migrated(path, migrations)
    if database is None:
        raise Unrecordable(f"the new recording is {aside}")
    return database


def _migrated(path: Path, migrations: Mapping[int, str]) -> tuple[sqlite3.Connection | None, str]:
    """The database brought to this version, or None with why it cannot be."""
    # SQLite would make the file with the umask's mode; what it makes later takes over the mode of the file.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False)
    try:
        ours = database.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        version = database.execute("PRAGMA user_version").fetchone()[0]
        empty = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not empty and not ours:
            database.close()
            return None, "foreign"
        if not empty and version > SCHEMA_VERSION:
            raise Unrecordable(
                f"{path.name} has recording schema {version} and this ddwatch writes {SCHEMA_VERSION}: "
                "update ddwatch, or move the file away"
            )
        if not empty and any(step not in migrations for step in range(version, SCHEMA_VERSION)):
            database.close()
            return None, f"schema-{version}"
        if empty:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        database.execute(f"PRAGMA journal_size_limit = {LARGEST_WAL // 4}")
        database.execute("PRAGMA cache_size = -2048")
        steps = [SCHEMA] if empty else [migrations[step] for step in range(version, SCHEMA_VERSION)]
        if steps:
            _apply(database, steps)
    except BaseException:
        with suppress(sqlite3.ProgrammingError):
            database.close()
        raise
    return database, ""


def _apply(database: sqlite3.Connection, steps: Sequence[str]) -> None:
    """Runs the statements and states the version, all in one transaction."""
    with closing(database.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            for step in steps:
                for statement in step.split(";\n"):
                    if statement.strip():
                        cursor.execute(statement)
            cursor.execute(f"INSERT OR REPLACE INTO meta VALUES ('schema', '{SCHEMA_NAME}/{SCHEMA_VERSION}')")
            cursor.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            cursor.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            cursor.execute("COMMIT")
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
