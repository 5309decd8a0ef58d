"""`ddwatch fit LOG… -o FILE`: fits a profile to the clean decode lines of a service's own logs."""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from secrets import token_bytes
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from ddwatch.commands.steps import written_at
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.accept import OVERALL
from ddwatch.core.expectation.fit import Refusal, fit_profile
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile, sentence
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.core.expectation.setups import Setup, Setups
from ddwatch.core.expectation.wording import range_of, readable, short
from ddwatch.core.grammar import LogReader
from ddwatch.core.positions import Positions
from ddwatch.feeds.log_lines import open_log
from ddwatch.profiles.shelf import shown

SCHEMA = "ddwatch.fit/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="SGLang logs: files (also .gz, .zst) or - for stdin")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where the profile goes")
    parser.add_argument("--name", metavar="NAME", help="its name (default: the file's)")
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        default=[],
        metavar="NAME=LOG",
        help="a log that holds only text of this class; without any, two classes are looked for",
    )
    parser.add_argument("--tz", metavar="ZONE", help="zone of the logs' stamps, e.g. UTC (default: this machine's)")
    parser.add_argument("--json", action="store_true", help="one JSON document about the fit")


def run(arguments: argparse.Namespace) -> int:
    """Fits and writes; raises CommandFailed with one sentence when a log or the evidence will not do."""
    zone = _zone(arguments.tz)
    output = Path(arguments.output)
    logs = [(path, None) for path in arguments.logs] + [_class(words) for words in arguments.classes]
    setups = Setups()
    for path, text_class in logs:
        _read(path, text_class, zone, setups)
    chosen = setups.richest()
    found: Profile | Refusal = Refusal(f"no decode line in {setups.lines} lines; is this the scheduler's log?")
    if chosen is not None:
        found = fit_profile(
            chosen.gathering.observations(),
            name=arguments.name or output.name.removesuffix(".toml"),
            samples=chosen.gathering.samples,
            flags=chosen.gathering.flags,
            pairs=chosen.gathering.pairs(),
            windows=list(chosen.gathering.windows.kept),
            graph_sizes=chosen.graph_sizes,
            identity=chosen.identity,
            judged=chosen.judged,
            source=", ".join("standard input" if path == "-" else shown(Path(path).name) for path, _ in logs)[:500],
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
    if isinstance(found, Refusal) or chosen is None:
        raise CommandFailed(f"ddwatch fit: {found.sentence if isinstance(found, Refusal) else ''}", Exit.INPUT)
    text = write_profile(found)
    again = read_profile(text)
    if not isinstance(again, Profile):
        raise CommandFailed(f"ddwatch fit: the profile would not be readable: {sentence(again)}", Exit.USAGE)
    _write(output, text)
    left_out = setups.left_out(chosen)
    if arguments.json:
        document = report(found, chosen, left_out, str(output))
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        lines = describe(found, chosen, left_out, shown(str(output)))
        sys.stdout.write(readable("\n".join(lines) + "\n", sys.stdout.encoding))
    return Exit.OK


def _class(words: str) -> tuple[str, str]:
    name, equals, path = words.partition("=")
    if not equals or not path or not name.isprintable() or not name.strip():
        raise CommandFailed(f"ddwatch fit: --class {shown(words)!r} is not NAME=LOG", Exit.USAGE)
    if name.strip() == OVERALL:
        raise CommandFailed(f"ddwatch fit: {OVERALL!r} means all text together; choose another class name", Exit.USAGE)
    return path, name.strip()


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        told = f"ddwatch fit: no time zone {name!r}; use a name like Europe/Berlin or UTC"
        raise CommandFailed(told, Exit.USAGE) from error


def _read(path: str, text_class: str | None, zone: tzinfo | None, setups: Setups) -> None:
    """Hands every record and sample of one log to the setups."""
    positions = Positions()
    reader = LogReader(zone, written_at(path), token_bytes(32))
    setups.begin(text_class)
    with open_log(path) as log:
        for number, line in log:
            for record in reader.read(line, None, number):
                setups.see(record, positions.see(record))
        for record in reader.close():
            setups.see(record, positions.see(record))
        setups.lines += log.count


def _write(output: Path, text: str) -> None:
    """Writes the file whole or not at all; raises CommandFailed with one sentence."""
    name = shown(str(output))
    if output.is_dir():
        raise CommandFailed(f"ddwatch fit: {name} is a directory; -o names a file", Exit.USAGE)
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(output)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"ddwatch fit: cannot write {name}: {reason}", Exit.INPUT) from error


def report(profile: Profile, setup: Setup, left_out: Sequence[str], output: str) -> dict[str, Any]:
    """The JSON document."""
    gathering = setup.gathering
    low, high = profile.evidence.contexts
    return {
        "schema": SCHEMA,
        "profile": profile.name,
        "file": output,
        "samples": {
            "seen": gathering.samples,
            "clean": gathering.clean,
            "kept": profile.evidence.samples,
            "flags": gathering.flags,
        },
        "coverage": {
            "batches": list(profile.evidence.batches),
            "total_context_tokens": [low, high],
            "regions": len(profile.evidence.regions),
        },
        "calibrated": profile.calibrated,
        "fit_error": profile.fit_error,
        "band": {"low": profile.band().low, "high": profile.band().high},
        "lag1_autocorrelation": profile.lag1,
        "accept": [
            {
                "class": curve.text_class,
                "context_tokens": [point.context for point in curve.points],
                "p10": [point.p10 for point in curve.points],
                "p50": [point.p50 for point in curve.points],
                "p90": [point.p90 for point in curve.points],
            }
            for curve in profile.accept
        ],
        "left_out": list(left_out),
    }


def describe(profile: Profile, setup: Setup, left_out: Sequence[str], output: str) -> list[str]:
    """What was fitted, for a terminal of 80 columns."""
    gathering = setup.gathering
    batches = profile.evidence.batches
    low, high = profile.evidence.contexts
    band = profile.band()
    flags = ", ".join(f"{name} {count}" for name, count in sorted(gathering.flags.items(), key=lambda item: -item[1]))
    dirty = gathering.samples - gathering.clean
    lines = [
        f"profile {profile.name} written to {output}",
        "",
        f"  samples    {gathering.clean} clean of {gathering.samples}"
        + (f", {profile.evidence.samples} kept" if profile.evidence.samples < gathering.clean else ""),
    ]
    if dirty:
        lines.append(f"  left out   {dirty}: {flags}")
    batch_words = f"batch {batches[0]}" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]}"
    lines += [
        f"  coverage   {batch_words}, {range_of(low, high)} tokens in total, {len(profile.evidence.regions)} regions",
        f"  fit error  {(profile.fit_error or 0.0) * 100:.1f} % in 95 % of the evidence",
        f"  band       {band.low:.2f} … {band.high:.2f} of the expected tokens per second, nine of ten samples",
    ]
    if profile.lag1 is not None:
        lines.append(f"  lag 1      {profile.lag1:.2f} autocorrelation of consecutive samples")
    for index, curve in enumerate(profile.accept):
        middle = curve.points[len(curve.points) // 2]
        spread = "" if middle.p10 is None or middle.p90 is None else f" ({middle.p10:.2f} … {middle.p90:.2f})"
        title = "accept" if index == 0 else ""
        lines.append(f"  {title:<10} {curve.text_class}: {middle.p50:.2f}{spread} at {short(middle.context)} tokens")
    lines += [f"  not used   {told}" for told in left_out]
    if profile.note is not None:
        lines += ["", f"  {profile.note}"]
    return lines
