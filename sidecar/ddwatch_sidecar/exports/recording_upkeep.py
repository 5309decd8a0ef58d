"""Keeps a recording within its bounds: means of ten seconds, ages, size; a little at a time."""

from typing import Any

from ddwatch.core.recording import MEAN_SECONDS, MICRO, Row, micros
from ddwatch_sidecar.exports.recording_file import RecordingFile

SETTLING_SECONDS = 15.0
"""Samples may come this late and still be part of their mean."""
ROWS_AT_ONCE = 20_000
"""Rows that one step removes, so that no step takes long."""
VACUUM_PAGES = 2000
"""Pages that one step gives back to the file system."""
SPARE_PAGES = 256
"""Free pages that are always kept for the next rows."""
FREE_SHARE = 0.25
"""Share of free pages above which most of them go back to the file system."""
FULL_SHARE = 0.9
"""Share of the size limit at which the oldest rows go."""
SHED_SHARE = 0.02
"""Share of the time span of a table that goes at once when the size limit is reached."""
SHEDDABLE = ("stored_samples", "stored_gpu", "stored_requests", "stored_snapshots", "stored_points")
"""What is shed when the size limit is reached, the first of them first: their means stay."""
LEAST_SECONDS = 3600
"""The newest stretch of each of these tables that is kept while another one has more."""
AGED = (
    "stored_points",
    "stored_snapshots",
    "stored_verdicts",
    "stored_server",
    "stored_requests",
    "stored_gpu",
    "stored_sources",
    "stored_events",
)
BUCKET = MEAN_SECONDS * MICRO
SPARSE_SECONDS = 600
"""Distance between the snapshots that are kept of days gone by; changes of verdict have rows of their own."""

MEANS = f"""
INSERT OR REPLACE INTO stored_steps
SELECT at_us / {BUCKET} * {MEAN_SECONDS}, witness, count(*), sum(flags = 0),
    round(avg(CASE WHEN flags = 0 THEN coalesce(mean_batch_e3, batch * 1000) END)),
    round(avg(CASE WHEN flags = 0 THEN total_context_tokens END)),
    round(avg(CASE WHEN flags = 0 THEN context_e1 END)), round(avg(CASE WHEN flags = 0 THEN accept_e4 END)),
    round(avg(CASE WHEN flags = 0 THEN throughput_e3 END)), round(avg(CASE WHEN flags = 0 THEN step_us END))
FROM stored_samples WHERE at_us >= ? AND at_us < ? GROUP BY at_us / {BUCKET}, witness
"""
_POINT_MEANS = ", ".join(
    f"CAST(round(coalesce(avg(CASE WHEN contaminated = 0 THEN {column} END), avg({column}))) AS INTEGER)"
    for column in (
        "throughput_e3",
        "accept_e4",
        "step_us",
        "batch",
        "queued",
        "context_e1",
        "total_context_tokens",
        "expected_e3",
        "expected_low_e3",
        "expected_high_e3",
        "expected_step_us",
    )
)
POINT_MEANS = f"""
SELECT at_us / {BUCKET} * {BUCKET}, {MEAN_SECONDS}, 0, min(contaminated), {_POINT_MEANS}
FROM stored_points WHERE at_us < ? AND seconds = 1 AND state = 0 AND at_us >= ? GROUP BY at_us / {BUCKET}
"""


def _one(file: RecordingFile, sql: str, *values: Any) -> Any:
    row = file.database.execute(sql, values).fetchone()
    return None if row is None else row[0]


def compute_means(file: RecordingFile, now: float, *, last: bool = False) -> None:
    """Brings `steps` up to date; a stretch that got further samples is computed again from all of them.

    Args:
        file: the recording.
        now: seconds since the epoch.
        last: whether the newest stretch is computed too, though it may not be over.
    """
    done = int(_one(file, "SELECT value FROM meta WHERE key = 'means_until_us'") or 0)
    since = done if file.dirty_from is None else min(done, file.dirty_from // BUCKET * BUCKET)
    until = (micros(now if last else now - SETTLING_SECONDS) // BUCKET + (1 if last else 0)) * BUCKET
    if until <= since:
        return
    with file.database as database:
        database.execute(MEANS, (since, until))
        # The newest stretch of a run that ends may go on in the next run.
        reached = max(done, until - BUCKET if last else until)
        database.execute("INSERT OR REPLACE INTO meta VALUES ('means_until_us', ?)", (str(reached),))
    file.dirty_from = None


def age(file: RecordingFile, now: float) -> None:
    """Removes what is too old, and turns points of days gone by into means; a bounded number of rows."""
    raw, kept = micros(now - file.limits.raw_seconds), micros(now - file.limits.kept_seconds)
    with file.database as database:
        _remove(file, "stored_samples", raw)
        thin_points(file, raw // BUCKET * BUCKET)
        database.execute(
            "DELETE FROM stored_snapshots WHERE at_us < ?1 AND at_us >= ?1 - 86400000000 AND EXISTS ("
            f"SELECT 1 FROM stored_snapshots AS s WHERE s.at_us < stored_snapshots.at_us "
            f"AND s.at_us >= stored_snapshots.at_us / {SPARSE_SECONDS * MICRO} * {SPARSE_SECONDS * MICRO})",
            (raw,),
        )
        for table in AGED:
            _remove(file, table, kept)
        database.execute("DELETE FROM stored_steps WHERE at_s < ?", (kept // MICRO,))
        database.execute("DELETE FROM stored_runs WHERE ended_us < ? AND run <> ?", (kept, file.run))


def _remove(file: RecordingFile, table: str, before: int) -> int:
    """Removes the oldest rows before a time, at most ROWS_AT_ONCE; returns how many."""
    if table == "stored_events":
        return file.database.execute("DELETE FROM stored_events WHERE at_us < ?", (before,)).rowcount
    bound = _one(file, f"SELECT at_us FROM {table} ORDER BY at_us LIMIT 1 OFFSET {ROWS_AT_ONCE}")
    until = before if bound is None else min(before, bound)
    return file.database.execute(f"DELETE FROM {table} WHERE at_us < ?", (until,)).rowcount


def thin_points(file: RecordingFile, before: int) -> None:
    """Turns one-second points before a time into means of ten seconds, inside a transaction."""
    thinned = int(_one(file, "SELECT value FROM meta WHERE key = 'points_thinned_us'") or 0)
    oldest = _one(
        file,
        "SELECT at_us FROM stored_points WHERE seconds = 1 AND state = 0 AND at_us >= ? AND at_us < ? "
        "ORDER BY at_us LIMIT 1",
        thinned,
        before,
    )
    if oldest is None:
        return
    start = oldest // BUCKET * BUCKET
    end = min(before, start + ROWS_AT_ONCE * MICRO // BUCKET * BUCKET)
    means: list[Row] = file.database.execute(POINT_MEANS, (end, start)).fetchall()
    file.database.execute(
        "DELETE FROM stored_points WHERE at_us < ? AND at_us >= ? AND seconds = 1 AND state = 0", (end, start)
    )
    marks = {
        row[0]
        for row in file.database.execute("SELECT at_us FROM stored_points WHERE at_us >= ? AND at_us < ?", (start, end))
    }
    free: list[Row] = []
    for key, *mean in means:
        while key in marks:
            key += 1
        free.append((key, *mean))
    file.insert("stored_points", free)
    file.database.execute("INSERT OR REPLACE INTO meta VALUES ('points_thinned_us', ?)", (str(end),))


def used_bytes(file: RecordingFile) -> int:
    """Bytes that hold rows."""
    pages = _one(file, "PRAGMA page_count") - _one(file, "PRAGMA freelist_count")
    return int(pages * _one(file, "PRAGMA page_size"))


def shed(file: RecordingFile) -> bool:
    """Removes the oldest rows once the size limit comes near; True when it did, so that there may be more to do."""
    if used_bytes(file) <= FULL_SHARE * file.limits.bytes:
        return False
    with file.database:
        for table in SHEDDABLE:
            if _shed_oldest(file, table, LEAST_SECONDS):
                return True
        return _shed_rest(file) > 0


def _shed_oldest(file: RecordingFile, table: str, least: int) -> int:
    first, last = (_one(file, f"SELECT {edge}(at_us) FROM {table}") for edge in ("min", "max"))
    if first is None or last - first < least * MICRO:
        return 0
    before = first + max(MICRO, int((last - first) * SHED_SHARE))
    return _remove(file, table, before)


def _shed_rest(file: RecordingFile) -> int:
    removed = sum(_shed_oldest(file, table, 0) for table in SHEDDABLE)
    for table, at, unit in (("stored_steps", "at_s", 1), ("stored_events", "at_us", MICRO)):
        first, last = (_one(file, f"SELECT {edge}({at}) FROM {table}") for edge in ("min", "max"))
        if first is not None and last > first:
            before = first + max(unit, int((last - first) * SHED_SHARE))
            removed += file.database.execute(f"DELETE FROM {table} WHERE {at} < ?", (before,)).rowcount
    return removed


def give_back(file: RecordingFile) -> None:
    """Returns free pages to the file system where the file is too large or much of it is free; else rows reuse them."""
    pages, free, size = (_one(file, f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size"))
    excess = pages - file.limits.bytes // size
    if free > FREE_SHARE * pages + SPARE_PAGES:
        excess = max(excess, free - SPARE_PAGES)
    wanted = min(excess, free, VACUUM_PAGES)
    if wanted > 0:
        # Only a script is stepped to its end; `execute` would stop after the first page.
        file.database.executescript(f"PRAGMA incremental_vacuum({wanted})")
