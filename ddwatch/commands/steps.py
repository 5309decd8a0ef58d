"""`ddwatch steps LOG`: one row per decode line of a log, with the flags of its position; streams in flat memory."""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timezone, tzinfo
from pathlib import Path
from secrets import token_bytes
from typing import Any, TextIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.grammar import LogReader
from ddwatch.core.positions import Positions
from ddwatch.core.records import Record, Unread
from ddwatch.core.snapshot import Sample
from ddwatch.core.wire import step_row
from ddwatch.feeds.log_lines import LogLines, open_log

HEADER_EVERY = 40
"""Rows of a table between two headers, so that one is near."""

Writer = Callable[[dict[str, Any]], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("log", metavar="LOG", help="an SGLang log: a file (also .gz, .zst) or - for stdin")
    parser.add_argument("--format", choices=("jsonl", "csv", "table"), help="how to print rows (default: jsonl)")
    parser.add_argument("--json", action="store_true", help="the same as --format jsonl")
    parser.add_argument("--tz", metavar="ZONE", help="zone of the log's stamps, e.g. UTC (default: this machine's)")


def run(arguments: argparse.Namespace) -> int:
    """Prints the rows; raises CommandFailed when the log cannot be read or holds no decode line."""
    if arguments.json and arguments.format not in (None, "jsonl"):
        raise CommandFailed(f"ddwatch steps: --json and --format {arguments.format} exclude each other", Exit.USAGE)
    zone = zone_named(arguments.tz)
    write = WRITERS[arguments.format or "jsonl"](sys.stdout)
    with open_log(arguments.log) as lines:
        if arguments.log == "-":
            # Whoever reads the rows of a live stream sees them before this waits for more of it.
            lines.before_read = sys.stdout.flush
        Steps(lines, zone, written_at(arguments.log)).print(write, sys.stderr)
    return Exit.OK


def zone_named(name: str | None, command: str = "steps") -> tzinfo | None:
    """The zone of this name, None (this machine's) for no name; raises CommandFailed for an unknown one."""
    if name is None:
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        sentence = f"ddwatch {command}: no time zone {name!r}; use a name like Europe/Berlin or UTC"
        raise CommandFailed(sentence, Exit.USAGE) from error


def written_at(path: str) -> float:
    """When the log was last written: the day of stamps that name none."""
    if path == "-":
        return time.time()
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return time.time()


class Steps:
    """One pass over a log."""

    def __init__(self, lines: LogLines, zone: tzinfo | None, base: float) -> None:
        self._lines = lines
        self._reader = LogReader(zone, base, token_bytes(32))
        self._positions = Positions()
        self.unread = 0
        """Lines with a known head whose fields could not be read."""
        self.example = ""
        """The shape of the first of them, values masked."""
        self.rows = 0

    def samples(self) -> Iterator[tuple[Sample, bool]]:
        """Each sample in order, and whether its time is the log's own."""
        read = self._reader.read
        for number, line in self._lines:
            records = read(line, None, number)
            if records:
                yield from self._seen(records)
        yield from self._seen(self._reader.close())

    def _seen(self, records: Sequence[Record]) -> Iterator[tuple[Sample, bool]]:
        for record in records:
            if isinstance(record, Unread):
                self.unread += 1
                self.example = self.example or record.example
            sample = self._positions.see(record)
            if sample is not None:
                self.rows += 1
                yield sample, self._reader.stamped

    def print(self, write: Writer, narration: TextIO) -> None:
        """Writes every row; tells on the narration what was left out. Raises CommandFailed without any row."""
        try:
            for sample, stamped in self.samples():
                write(step_row(sample, stamped=stamped))
        finally:
            self._tell(narration)
        if not self.rows:
            raise CommandFailed(
                f"ddwatch steps: no decode line in {self._lines.count} lines; is this the scheduler's log?"
            )

    def _tell(self, narration: TextIO) -> None:
        if self.unread:
            lines = "line" if self.unread == 1 else "lines"
            narration.write(f"ddwatch steps: {self.unread} {lines} could not be read, first: {self.example}\n")
        if self._lines.cut:
            lines = "line was" if self._lines.cut == 1 else "lines were"
            narration.write(f"ddwatch steps: {self._lines.cut} {lines} longer than 64 KiB and cut\n")


def json_lines(out: TextIO) -> Writer:
    """One JSON object per line."""
    encode = msgspec.json.Encoder().encode

    def write(row: dict[str, Any]) -> None:
        out.write(encode(row).decode() + "\n")

    return write


def comma_separated(out: TextIO) -> Writer:
    """RFC 4180: a header, CRLF, an absent value is an empty field, flags are joined by spaces."""
    writer = csv.writer(out, lineterminator="\r\n")
    headed = False

    def write(row: dict[str, Any]) -> None:
        nonlocal headed
        if not headed:
            writer.writerow(row)
            headed = True
        writer.writerow(" ".join(value) if isinstance(value, list) else value for value in row.values())

    return write


COLUMNS: tuple[tuple[str, str, int, str], ...] = (
    ("at", "time", 24, ""),
    ("engine", "engine", 16, ""),
    ("dp_rank", "dp", 3, "d"),
    ("batch", "batch", 6, "d"),
    ("total_context_tokens", "tokens", 10, "d"),
    ("context_tokens", "context", 9, ".0f"),
    ("accept_length", "accept", 6, ".2f"),
    ("throughput", "tok/s", 10, ".2f"),
    ("step_seconds", "step ms", 9, ".2f"),
    ("source_line", "line", 9, "d"),
)
"""Key, title, width and number format of a table's columns; the flags come last and as long as they are."""


def table(out: TextIO) -> Writer:
    """Aligned columns, the header again every 40 rows; an absent value is a dash."""
    written = 0
    head = "  ".join(f"{title:>{width}}" if form else f"{title:<{width}}" for _, title, width, form in COLUMNS)

    def cell(value: Any, width: int, form: str) -> str:
        if value is None:
            return f"{'-':>{width}}" if form else f"{'-':<{width}}"
        if not form:
            return f"{value:<{width}}"[:width]
        return f"{value:>{width}{form}}"

    def write(row: dict[str, Any]) -> None:
        nonlocal written
        if written % HEADER_EVERY == 0:
            out.write(f"{head}  flags\n")
        written += 1
        shown = dict(row)
        shown["at"] = row["at"] and row["at"][:19].replace("T", " ") + "Z"
        seconds = row["step_seconds"]
        shown["step_seconds"] = None if seconds is None else seconds * 1000
        cells = "  ".join(cell(shown[key], width, form) for key, _, width, form in COLUMNS)
        out.write(f"{cells}  {' '.join(row['flags'])}".rstrip() + "\n")

    return write


WRITERS: dict[str, Callable[[TextIO], Writer]] = {"jsonl": json_lines, "csv": comma_separated, "table": table}
