"""What a calibration leaves behind: its points while it runs, its profile, a table, a plot and a JSON document."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.fit import Refusal
from ddwatch.core.expectation.identity import Identity, Scalar
from ddwatch.core.expectation.measured import (
    Measured,
    fit_measured,
    fit_points,
    half_width,
    step_spread,
)
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.profile_text import read_profile, sentence
from ddwatch.core.expectation.profile_toml import write_profile
from ddwatch.core.expectation.wording import milliseconds, readable, short
from ddwatch.probes.sweep import USUAL_NOISE, Sweep
from ddwatch.profiles.shelf import shown

SCHEMA = "ddwatch.calibrate/1"
POINTS_SCHEMA = "ddwatch.points/1"
LARGEST_POINTS = 16 * 1024 * 1024
BAR = 20
"""Columns of the longest bar in the terminal's plot."""


class Outcome(msgspec.Struct):
    """How the sweep ended."""

    end: str
    """complete, time, disturbed, failed or interrupted."""
    problem: str | None
    resumed: int
    """Points taken over from an earlier run."""


class _Head(msgspec.Struct, frozen=True):
    schema: str
    identity: Identity
    judged: dict[str, Scalar]


class Keeping:
    """The points of an unfinished calibration, beside the profile that they will make."""

    def __init__(self, output: Path, identity: Identity, judged: Mapping[str, Scalar]) -> None:
        self.path = output.with_name(f".{output.name}.points")
        self._head = _Head(POINTS_SCHEMA, identity, dict(judged))
        self._begun = False

    def recall(self) -> list[Measured]:
        """What an earlier run has measured of the same service in the same setup; nothing where that cannot be read."""
        try:
            with self.path.open("rb") as file:
                lines = file.read(LARGEST_POINTS).splitlines()
            head = msgspec.json.decode(lines[0], type=_Head)
        except (OSError, IndexError, msgspec.DecodeError, UnicodeDecodeError):
            return []
        if head != self._head:
            return []
        found = []
        for line in lines[1:]:
            # The last line of a run that was killed may be half a line.
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                found.append(msgspec.json.decode(line, type=Measured))
        self._begun = bool(found)
        return found

    def keep(self, point: Measured) -> None:
        """Adds a point at once; raises CommandFailed when the disk does not take it."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if self._begun else os.O_TRUNC)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(self.path, flags, 0o600), "wb") as file:
                if not self._begun:
                    file.write(msgspec.json.encode(self._head) + b"\n")
                file.write(msgspec.json.encode(point) + b"\n")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CommandFailed(f"ddwatch calibrate: cannot keep what was measured: {reason}") from error
        self._begun = True

    def drop(self) -> None:
        """The calibration is complete."""
        self.path.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all, 0600; raises CommandFailed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = (error.strerror or str(error)).lower()
        raise CommandFailed(f"ddwatch calibrate: cannot write {shown(str(path))}: {reason}") from error


def finish(
    arguments: argparse.Namespace,
    url: str,
    output: Path,
    sweep: Sweep,
    keeping: Keeping,
    outcome: Outcome,
    identity: Identity,
    judged: Mapping[str, Scalar],
    created: str,
) -> int:
    """Makes the profile of what there is, writes it, reports; the exit code."""
    interval = judged.get("decode_log_interval")
    found = fit_measured(
        sweep.points,
        name=arguments.name or output.name.removesuffix(".toml") or "calibrated",
        identity=identity,
        judged=judged,
        source=url,
        created=created,
        interval=interval if isinstance(interval, int) and interval > 0 else None,
        note=None if outcome.end == "complete" else "Not every point was measured as often as it should be.",
    )
    said = ending(outcome, sweep, keeping)
    if isinstance(found, Refusal):
        if outcome.end == "interrupted":
            sys.stderr.write(f"ddwatch calibrate: interrupted; {found.sentence}\n")
            return Exit.INTERRUPTED
        raise CommandFailed(
            f"ddwatch calibrate: {said + ': ' if said else ''}{found.sentence}",
            Exit.INPUT if outcome.end == "failed" else Exit.UNJUDGED,
        )
    text = write_profile(found)
    checked = read_profile(text)
    if not isinstance(checked, Profile):
        raise AssertionError(f"the fit wrote a profile that cannot be read: {sentence(checked)}")
    write_whole(output, text)
    if arguments.svg is not None:
        from ddwatch.commands.calibrate_svg import drawing

        write_whole(Path(arguments.svg), drawing(found, sweep.points))
    if outcome.end == "complete":
        keeping.drop()
    if arguments.json:
        document = report(found, sweep.points, outcome, str(output), url)
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        lines = [f"profile {found.name} written to {shown(str(output))}", "", *table(found, sweep.points)]
        sys.stdout.write(readable("\n".join(lines) + "\n", sys.stdout.encoding))
    if said:
        sys.stderr.write(f"ddwatch calibrate: {said}\n")
    return {"interrupted": Exit.INTERRUPTED, "failed": Exit.INPUT, "disturbed": Exit.UNJUDGED}.get(outcome.end, Exit.OK)


def ending(outcome: Outcome, sweep: Sweep, keeping: Keeping) -> str:
    """Why it did not end by itself, and what to do; empty where all is well."""
    again = "the same command goes on from here"
    match outcome.end:
        case "time":
            return f"the time was up before every point was known well; {again}, with --minutes for more"
        case "disturbed":
            return f"gave way to others ({sweep.last_disturbance}); {again} once the server is idle"
        case "failed":
            return f"{outcome.problem}; {len(sweep.points)} points are kept, {again}"
        case "interrupted":
            return f"interrupted; {len(sweep.points)} points are kept, {again}"
        case _:
            return ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One place of the sweep."""

    batch: int
    context_tokens: float
    step_seconds: float
    half_width: float | None
    """Half of the 95 % confidence interval, relative."""
    expected_seconds: float
    """What the profile holds there."""
    pairs: int
    steps: int
    accept: dict[str, float]
    """Mean accept length by class."""


def rows(profile: Profile, points: Sequence[Measured]) -> list[Row]:
    """The points by place, in order."""
    groups: dict[tuple[int, int], list[Measured]] = {}
    for point in points:
        groups.setdefault((point.batch, point.context_target), []).append(point)
    noise = step_spread(points, fit_points(points)) if len(points) >= 8 else USUAL_NOISE
    found = []
    for batch, target in sorted(groups):
        group = groups[batch, target]
        steps = sum(point.steps for point in group)
        context = sum(point.context_tokens * point.steps for point in group) / steps
        accept: dict[str, list[tuple[float, int]]] = {}
        for point in group:
            if point.accept_length is not None and point.accept_steps:
                accept.setdefault(point.text_class, []).append((point.accept_length, point.accept_steps))
        found.append(
            Row(
                batch=batch,
                context_tokens=context,
                step_seconds=sum(point.step_seconds * point.steps for point in group) / steps,
                half_width=half_width(group, noise),
                expected_seconds=profile.step_time.seconds(batch, batch * context),
                pairs=len(group),
                steps=steps,
                accept={
                    name: sum(length * weight for length, weight in told) / sum(weight for _, weight in told)
                    for name, told in sorted(accept.items())
                },
            )
        )
    return found


def table(profile: Profile, points: Sequence[Measured]) -> list[str]:
    """Step time by context with a bar each, and accept lengths by class."""
    found = rows(profile, points)
    classes = sorted({name for row in found for name in row.accept})
    longest = max(row.step_seconds for row in found)
    head = f"{'batch':>5}  {'context':>8}  {'step ms':>8}  {'±':>5}  {'':<{BAR}}" + "".join(
        f" {c[:7]:>7}" for c in classes
    )
    lines = [head]
    for row in found:
        width = "–" if row.half_width is None else f"{100 * row.half_width:.1f}%"
        drawn = "█" * max(1, round(BAR * row.step_seconds / longest))
        accept = "".join(f" {row.accept[c]:7.2f}" if c in row.accept else f" {'–':>7}" for c in classes)
        lines.append(
            f"{row.batch:>5}  {short(row.context_tokens):>8}  {milliseconds(row.step_seconds):>8}  {width:>5}  "
            f"{drawn:<{BAR}}{accept}"
        )
    band = profile.band()
    lines += [
        "",
        f"  {sum(row.pairs for row in found)} pairs of requests, {sum(row.steps for row in found)} steps",
        f"  the curve misses its points by at most {100 * (profile.fit_error or 0.0):.1f} %",
        f"  band {band.low:.2f} … {band.high:.2f} of the expected tokens per second",
    ]
    if profile.prefill_tokens_per_second:
        lines.append(f"  prefill {short(profile.prefill_tokens_per_second)} tokens per second")
    return lines


def report(profile: Profile, points: Sequence[Measured], outcome: Outcome, output: str, url: str) -> dict[str, Any]:
    """The JSON document."""
    band = profile.band()
    return {
        "schema": SCHEMA,
        "url": url,
        "profile": profile.name,
        "file": output,
        "end": outcome.end,
        "problem": outcome.problem,
        "resumed_points": outcome.resumed,
        "points": [
            {
                "batch": row.batch,
                "context_tokens": row.context_tokens,
                "step_seconds": row.step_seconds,
                "half_width": row.half_width,
                "expected_step_seconds": row.expected_seconds,
                "pairs": row.pairs,
                "steps": row.steps,
                "accept_length": row.accept,
            }
            for row in rows(profile, points)
        ],
        "fit_error": profile.fit_error,
        "band": {"low": band.low, "high": band.high},
        "prefill_tokens_per_second": profile.prefill_tokens_per_second,
    }
