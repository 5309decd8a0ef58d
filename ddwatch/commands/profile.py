"""`ddwatch profile show|list|check|forget`: which there are, what one says, whether one is right, and relearning."""

import argparse
import sys
from typing import Any

import msgspec

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import milliseconds, range_of, rate, readable, short
from ddwatch.profiles.shelf import Entry, Shelf, shown

SCHEMA = "ddwatch.profile/1"
TOLD = (
    "version",
    "attention_backend",
    "kv_cache_dtype",
    "mem_fraction_static",
    "max_running_requests",
    "disable_cuda_graph",
    "disable_overlap_schedule",
    "enable_dp_attention",
    "decode_log_interval",
)
"""Judged settings that are shown by name; there are some hundred and forty."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "action",
        choices=("show", "list", "check", "forget"),
        help="what to do; forget makes ddwatch learn a service anew",
    )
    parser.add_argument("profile", nargs="?", metavar="PROFILE", help="a name from `list`, or a file")
    parser.add_argument("--toml", action="store_true", help="show: the text of the profile as it is")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Does what was asked; `check` returns 66 for a file that is no profile, after saying why."""
    shelf = Shelf()
    if arguments.action == "list":
        if arguments.profile is not None:
            raise CommandFailed("ddwatch profile: list takes no profile", Exit.USAGE)
        return _list(shelf, arguments.json)
    if arguments.profile is None:
        raise CommandFailed(f"ddwatch profile: {arguments.action} needs a profile, see `list`", Exit.USAGE)
    if arguments.action == "forget":
        return _forget(shelf, arguments.profile, arguments.json)
    entry = shelf.find(arguments.profile)
    if arguments.action == "check":
        return _check(shelf, entry, arguments.json)
    if arguments.toml:
        sys.stdout.write(shelf.text(entry))
        return Exit.OK
    profile = shelf.load(arguments.profile)
    if arguments.json:
        _print_json({"schema": SCHEMA, "action": "show", "name": entry.name, "profile": plain(profile)})
    else:
        _print(describe(profile))
    return Exit.OK


def _print(lines: list[str]) -> None:
    sys.stdout.write(readable("\n".join(lines) + "\n", sys.stdout.encoding))


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def _origin(entry: Entry) -> str:
    return "built in" if entry.path is None else shown(str(entry.path))


def _list(shelf: Shelf, as_json: bool) -> int:
    rows = [(entry, _loaded(shelf, entry)) for entry in shelf.entries()]
    if as_json:
        listed = [
            {
                "name": entry.name,
                "origin": "built-in" if entry.path is None else "own",
                "file": None if entry.path is None else str(entry.path),
                "valid": isinstance(found, Profile),
                "calibrated": found.calibrated if isinstance(found, Profile) else None,
                "samples": found.evidence.samples if isinstance(found, Profile) else None,
                "problem": None if isinstance(found, Profile) else found,
            }
            for entry, found in rows
        ]
        _print_json({"schema": SCHEMA, "action": "list", "profiles": listed})
        return Exit.OK
    width = max(len(entry.name) for entry, _ in rows)
    lines = []
    for entry, found in rows:
        state = found if isinstance(found, str) else _state(found)
        lines.append(f"{entry.name:<{width}}  {state}")
        lines.append(f"{'':<{width}}  {_origin(entry)}")
    lines += ["", f"your own profiles live in {shown(str(shelf.folder))}"]
    _print(lines)
    return Exit.OK


def _loaded(shelf: Shelf, entry: Entry) -> Profile | str:
    """The profile, or why there is none."""
    try:
        return shelf.load(entry.name)
    except CommandFailed as failure:
        return failure.sentence


def _state(profile: Profile) -> str:
    calibrated = "calibrated" if profile.calibrated else "not calibrated"
    samples = "sample" if profile.evidence.samples == 1 else "samples"
    return f"{calibrated}, {profile.evidence.samples} {samples}"


def _check(shelf: Shelf, entry: Entry, as_json: bool) -> int:
    found = shelf.read(entry)
    problems = () if isinstance(found, Profile) else found
    if as_json:
        listed = [{"key": problem.key or None, "what": problem.what} for problem in problems]
        _print_json(
            {"schema": SCHEMA, "action": "check", "name": entry.name, "valid": not problems, "problems": listed}
        )
    elif problems:
        _print([f"{_origin(entry)} is not a profile:", *(f"  {problem.sentence()}" for problem in problems)])
    elif isinstance(found, Profile):
        _print([f"{found.name}: {_state(found)}, no problem found"])
    return Exit.INPUT if problems else Exit.OK


def _forget(shelf: Shelf, wanted: str, as_json: bool) -> int:
    """Relearning is asked for, never done by itself."""
    gone = shelf.forget(wanted)
    if as_json:
        removed = [str(path) for path in gone]
        _print_json({"schema": SCHEMA, "action": "forget", "name": wanted, "removed": removed})
    else:
        lines = [f"removed {shown(str(path))}" for path in gone]
        _print([*lines, "a running sidecar notices within seconds and learns this service anew"])
    return Exit.OK


def plain(profile: Profile) -> dict[str, Any]:
    """The profile as JSON values."""
    found: dict[str, Any] = msgspec.to_builtins(profile)
    found["identity"] = {name: getattr(profile.identity, name) for name in profile.identity.__struct_fields__}
    return found


def describe(profile: Profile) -> list[str]:
    """The profile for a terminal of 80 columns."""
    band = profile.band()
    evidence = profile.evidence
    lines = [f"{profile.name}   {_state(profile)}"]
    if profile.note:
        lines.append(f"  {profile.note}")
    lines.append("")
    identity = [
        f"{name.replace('_', ' ')} {value}"
        for name in profile.identity.__struct_fields__
        if (value := getattr(profile.identity, name)) is not None
    ]
    lines += _rows("identity", identity or ["not stated"])
    told = [f"{name} {profile.judged[name]}" for name in TOLD if name in profile.judged]
    more = len(profile.judged) - len(told)
    lines += _rows("judged", [*told, *([f"{more} more (--toml shows all)"] if more else [])])
    source = [evidence.provenance, *([evidence.source] if evidence.source else [])]
    lines += _rows("evidence", [*source, *([evidence.created] if evidence.created else [])])
    lines += _rows("band", [f"{band.low:.2f} … {band.high:.2f} of the expected tokens per second"])
    if profile.fit_error is not None:
        lines += _rows("fit error", [f"{profile.fit_error * 100:.1f} %"])
    if profile.lag1 is not None:
        lines += _rows("lag 1", [f"{profile.lag1:.2f} autocorrelation of consecutive samples"])
    lines += ["", "  step time, ms", *_step_table(profile)]
    if profile.accept:
        lines += ["", f"  {'accept length':<16} {'context':>16}  {'p1':>5}  {'p10':>5}  {'p50':>5}  {'p90':>5}"]
    for curve in profile.accept:
        for index, point in enumerate(curve.points):
            cells = "  ".join(
                f"{'–' if value is None else f'{value:.2f}':>5}"
                for value in (point.p1, point.p10, point.p50, point.p90)
            )
            title = curve.text_class if index == 0 else ""
            lines.append(f"  {title[:16]:<16} {short(point.context):>16}  {cells}")
    for reference in profile.references:
        inferred = ", inferred" if reference.inferred else ""
        lines += [
            "",
            f"  reference: {reference.label}{inferred}",
            f"  {rate(reference.tokens_per_second)} tok/s at batch {reference.batch}, "
            f"{short(reference.context)} tokens, accept length {reference.accept:g}",
        ]
    return lines


def _rows(title: str, parts: list[str]) -> list[str]:
    """Parts joined by dots, wrapped at 80 columns under one title."""
    rows: list[str] = []
    current = ""
    for part in parts:
        joined = f"{current} · {part}" if current else part
        if len(joined) > 66 and current:
            rows.append(current)
            joined = part
        current = joined
    if current:
        rows.append(current)
    return [f"  {title if index == 0 else '':<10} {row}" for index, row in enumerate(rows)]


def _step_table(profile: Profile) -> list[str]:
    """Step time at a few batches and contexts of the evidence; what the evidence does not reach is left open."""
    regions = profile.evidence.regions
    if not regions:
        return ["  no evidence"]
    batches = sorted({region.batch[0] for region in regions} | {region.batch[1] for region in regions})
    if len(batches) > 6:
        batches = sorted({batches[round(i * (len(batches) - 1) / 5)] for i in range(6)})
    low = min(region.total_context[0] for region in regions)
    high = max(region.total_context[1] for region in regions)
    steps = 7
    totals = sorted(
        {round(low * (high / low) ** (i / steps)) if low > 0 else round(high * i / steps) for i in range(steps + 1)}
    )
    lines = [f"  {'total context':<16}" + "".join(f"{f'batch {batch}':>10}" for batch in batches)]
    for total in totals:
        cells = [
            f"{milliseconds(profile.step_time.seconds(batch, total)):>10}"
            if profile.covers(batch, total)
            else f"{'–':>10}"
            for batch in batches
        ]
        lines.append(f"  {range_of(total, total):<16}" + "".join(cells))
    return lines
