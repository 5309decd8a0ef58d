"""`ddwatch export RECORDING`: streams a recording's rows as CSV or JSON lines, in flat memory."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone, tzinfo
from typing import Any, TextIO

from ddwatch.commands.steps import Writer, comma_separated, json_lines, zone_named
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.snapshot import Event, Point
from ddwatch.core.wire import document, iso, step_row
from ddwatch.feeds.log_lines import shown
from ddwatch.feeds.recording import FAR, Recording, open_recording

TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?$")
Rows = Iterator[dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("recording", metavar="RECORDING", help="a recording, or the folder where they are (the newest)")
    parser.add_argument(
        "--table",
        choices=tuple(TABLES),
        default="samples",
        metavar="TABLE",
        help=f"what to export (samples): {', '.join(TABLES)}",
    )
    parser.add_argument("--format", choices=tuple(WRITERS), default="jsonl", help="how to print rows (jsonl)")
    parser.add_argument("--json", action="store_true", help="the same as --format jsonl")
    parser.add_argument("--since", metavar="TIME", help="from YYYY-MM-DD[THH:MM[:SS]][+HH:MM] on")
    parser.add_argument("--until", metavar="TIME", help="up to there")
    parser.add_argument(
        "--tz", metavar="ZONE", help="zone of --since and --until without one (default: this machine's)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the rows; raises CommandFailed when the recording cannot be read."""
    if arguments.json and arguments.format != "jsonl":
        raise CommandFailed(f"ddwatch export: --json and --format {arguments.format} exclude each other", Exit.USAGE)
    zone = zone_named(arguments.tz)
    since, until = (moment(getattr(arguments, name), zone, f"--{name}") for name in ("since", "until"))
    write = WRITERS[arguments.format](sys.stdout)
    with open_recording(arguments.recording) as recording:
        if recording.name != shown(arguments.recording):
            sys.stderr.write(f"ddwatch export: the newest recording there is {recording.name}\n")
        # A row belongs to a stretch from its first moment on; the recording's own bounds leave that one out.
        begin = -FAR if since is None else since - 1e-6
        for row in TABLES[arguments.table](recording, begin, FAR if until is None else until):
            write(row)
    return Exit.OK


def moment(text: str | None, zone: tzinfo | None, flag: str) -> float | None:
    """A moment in words, seconds since the epoch; raises CommandFailed with one sentence."""
    if text is None:
        return None
    if TIME.match(text):
        try:
            meant = datetime.fromisoformat(text.replace("Z", "+00:00"))
            return (
                (meant if meant.tzinfo is not None else meant.replace(tzinfo=zone)).astimezone(timezone.utc).timestamp()
            )
        except (ValueError, OverflowError):
            pass
    raise CommandFailed(f"ddwatch export: cannot read {flag} {text!r}; write 2026-05-01T12:00:00+00:00", Exit.USAGE)


def samples(recording: Recording, since: float, until: float) -> Rows:
    """Single samples and forward passes, shaped like the rows of `ddwatch steps`."""
    return (step_row(sample, stamped=True) for sample in recording.samples(since, until, spans=True))


def points(recording: Recording, since: float, until: float) -> Rows:
    """The timeline: a second each, ten seconds for days gone by."""
    return (_without_seq(point) for point in recording.points(since, until))


def events(recording: Recording, since: float, until: float) -> Rows:
    """The event list."""
    return (_without_seq(event) for event in recording.events(since, until))


def verdicts(recording: Recording, since: float, until: float) -> Rows:
    """Each change of verdict, with the figures that it was reached by."""
    for change in recording.verdicts(since, until):
        figures = document(change)
        verdict = figures.pop("verdict")
        yield {
            "at": figures.pop("at"),
            "verdict": verdict["name"],
            **{key: verdict[key] for key in ("severity", "since", "sentence", "cause", "evidence", "next_steps")},
            **figures,
        }


def servers(recording: Recording, since: float, until: float) -> Rows:
    """What servers told of their setup."""
    for said in recording.servers(since, until):
        yield {**said._asdict(), "at": iso(said.at), "withheld": list(said.withheld)}


def _without_seq(item: Point | Event) -> dict[str, Any]:
    """Sequence numbers belong to a watch that is over."""
    row = document(item)
    del row["seq"]
    row.pop("replaces", None)
    return {"at": row.pop("at"), **row}


def view(name: str) -> Callable[[Recording, float, float], Rows]:
    """A view of the recording as it is documented."""
    return lambda recording, since, until: recording.rows(name, since, until)


TABLES: dict[str, Callable[[Recording, float, float], Rows]] = {
    "samples": samples,
    "steps": view("steps"),
    "points": points,
    "events": events,
    "verdicts": verdicts,
    "server": servers,
    "requests": view("requests"),
    "gpu": view("gpu"),
    "sources": view("sources"),
}


def fields(out: TextIO) -> Writer:
    """CSV; what has parts is JSON inside its field, and control characters do not reach a terminal."""
    write = comma_separated(out)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return json.dumps(value, allow_nan=False)
        return shown(value) if isinstance(value, str) else value

    return lambda row: write({key: plain(value) for key, value in row.items()})


WRITERS: dict[str, Callable[[TextIO], Writer]] = {"jsonl": json_lines, "csv": fields}
