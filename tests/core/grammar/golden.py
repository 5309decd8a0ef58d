"""Reads the golden logs and writes records as the lines that stand beside them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ddwatch.core.grammar import LogReader
from ddwatch.core.records import Record

LOGS = Path(__file__).parents[2] / "golden" / "logs"
BASE = 1_700_000_000.0
KEY = b"golden"


def lines_of(path: Path) -> list[bytes]:
    """The physical lines of a file, without their newlines."""
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def read_all(lines: Iterable[bytes], arrived: float | None = None) -> list[Record]:
    """All records of a stream, replayed in UTC unless a time of arrival is given."""
    reader = LogReader(None, BASE, KEY)
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        records.extend(reader.read(line, arrived, number))
    records.extend(reader.close())
    return records


def plain(record: Record) -> dict[str, Any]:
    """A record as one golden line: its type, and the fields that say something."""
    fields = json.loads(msgspec.json.encode(record))
    fields["rank"] = {name: value for name, value in fields["rank"].items() if value is not None}
    said = {name: value for name, value in fields.items() if value not in (None, {}, [])}
    return {"record": type(record).__name__, **said}


def rendered(records: Iterable[Record]) -> str:
    """The text of an expected file."""
    return "".join(json.dumps(plain(record), ensure_ascii=False) + "\n" for record in records)


class NeverStandard:
    """Stands in for the short way: takes no line, so that the general way reads all."""

    def read(
        self, line: bytes, arrived: float | None, outer: float | None, engine: str | None, number: int | None
    ) -> tuple[Record, ...] | None:
        """No line is standard."""
        return None


def general_reader(base: float = BASE) -> LogReader:
    """A reader without the short way."""
    reader = LogReader(None, base, KEY)
    reader._short = NeverStandard().read
    return reader


def drain(reader: LogReader, lines: Iterable[bytes], arrived: float | None = None) -> list[Record]:
    """All records of a stream through this reader."""
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        records.extend(reader.read(line, None if arrived is None else arrived + number, number))
    records.extend(reader.close())
    return records


def strings_of(value: object) -> Iterable[str]:
    """Every string in a record, whatever its depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings_of(key)
            yield from strings_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings_of(item)
