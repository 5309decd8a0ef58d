"""`ddwatch calibrate URL -o PROFILE`: measures a service that is idle and writes the profile of it."""

import argparse
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ddwatch.commands.sglang_address import Narrator, add_key_argument, key_of, url_of
from ddwatch.core.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from ddwatch.probes.server import Server
    from ddwatch.probes.sweep import Progress

MINUTES = 15.0
LEAST_CONTEXT = 64
LIMIT = 32768
"""Longest context unless told otherwise: beyond, each point costs minutes."""
MOST_BATCH = 64
PATIENCE_SECONDS = 300.0
"""How long one request may take; a prompt of a hundred thousand tokens takes its time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    from ddwatch.commands.predict import tokens

    parser.add_argument("url", metavar="URL", help="SGLang's own address, e.g. http://127.0.0.1:30000")
    parser.add_argument("-o", "--output", required=True, metavar="PROFILE", help="where the profile goes (TOML)")
    parser.add_argument("--name", metavar="NAME", help="its name (default: the file's)")
    parser.add_argument("--minutes", type=float, default=MINUTES, metavar="N", help=f"time to spend ({MINUTES:g})")
    parser.add_argument(
        "--limit", type=tokens, metavar="TOKENS", help=f"longest context (the model's, at most {LIMIT})"
    )
    parser.add_argument("--batches", default="1", metavar="N,N", help="batches to measure, e.g. 1,2,4,8 or 1-4 (1)")
    parser.add_argument("--classes", metavar="NAME,NAME", help="kinds of text (predictable,code,reasoning)")
    parser.add_argument("--svg", metavar="FILE", help="also draw the step times into this file")
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted calibration has measured")
    add_key_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document about the calibration")


def batches_of(words: str) -> tuple[int, ...]:
    """The batches that words like `1,2,4` or `1-4` name; raises CommandFailed."""
    found: set[int] = set()
    for part in words.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            first, last = int(low), int(high if dash else low)
        except ValueError:
            first, last = 0, -1
        if not 1 <= first <= last <= MOST_BATCH:
            raise CommandFailed(
                f"ddwatch calibrate: --batches {words!r} is not a list like 1,2,4 or 1-4, up to {MOST_BATCH}",
                Exit.USAGE,
            )
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def classes_of(words: str | None) -> tuple[str, ...]:
    """The classes that were named; raises CommandFailed for an unknown one."""
    from ddwatch.probes.texts import CLASSES

    if words is None:
        return CLASSES
    named = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    unknown = [word for word in named if word not in CLASSES]
    if unknown or not named:
        raise CommandFailed(f"ddwatch calibrate: --classes are among {', '.join(CLASSES)}", Exit.USAGE)
    return named


def run(arguments: argparse.Namespace) -> int:
    """Calibrates; returns 0 with a profile, 3 when there was not enough for one or others used the server."""
    import os

    from ddwatch.probes.failures import ProbeFailed
    from ddwatch.probes.server import Server

    url = url_of("calibrate", arguments.url)
    batches = batches_of(arguments.batches)
    classes_of(arguments.classes)
    if not 0.0 < arguments.minutes <= 24 * 60:
        raise CommandFailed("ddwatch calibrate: --minutes is more than 0 and at most a day", Exit.USAGE)
    output = Path(arguments.output)
    if output.is_dir() or (arguments.svg is not None and Path(arguments.svg).is_dir()):
        raise CommandFailed("ddwatch calibrate: -o and --svg name files, not directories", Exit.USAGE)
    key = key_of("calibrate", arguments.sglang_key_file)
    server = Server(url, key=key, patience=PATIENCE_SECONDS, digest_key=os.urandom(32))
    try:
        return calibrate(arguments, server, output, batches)
    except ProbeFailed as failed:
        raise CommandFailed(f"ddwatch calibrate: {failed.sentence}") from failed
    finally:
        server.close()


def calibrate(arguments: argparse.Namespace, server: "Server", output: Path, batches: tuple[int, ...]) -> int:
    """Measures, keeps what it has at every moment, and reports."""
    from ddwatch.commands.calibrate_report import Keeping, Outcome, finish
    from ddwatch.core.expectation.identity import identity_of, judged_of
    from ddwatch.core.expectation.measured import doubling
    from ddwatch.probes.failures import ProbeFailed
    from ddwatch.probes.isolation import Isolation
    from ddwatch.probes.sweep import Sweep
    from ddwatch.probes.texts import Lengths

    facts = server.facts()
    server.model()
    traffic = server.traffic()
    if traffic is not None and traffic.busy:
        raise CommandFailed(
            f"ddwatch calibrate: {server.url} is in use ({traffic.words()}); calibrate an idle server, or "
            "fit a profile to its log with ddwatch fit",
            Exit.UNJUDGED,
        )
    longest, pool = server.longest(facts), server.pool()
    room = longest - 300
    limit = min(arguments.limit or LIMIT, room)
    if limit < 2 * LEAST_CONTEXT:
        raise CommandFailed(
            f"ddwatch calibrate: contexts up to {limit} tokens are too short to calibrate (the server takes {longest})",
            Exit.USAGE,
        )
    speculative = facts.arguments.get("speculative_algorithm") not in (None, "", "none", False)
    identity = identity_of(facts.arguments)
    judged = judged_of(facts.arguments, facts.version)
    keeping = Keeping(output, identity, judged)
    kept = [] if arguments.fresh else keeping.recall()
    isolation = Isolation(server, Lengths(Random()), speculative=speculative)
    sweep = Sweep(
        isolation,
        contexts=doubling(LEAST_CONTEXT, limit),
        batches=batches,
        classes=classes_of(arguments.classes),
        budget=arguments.minutes * 60.0,
        clock=server.clock,
        points=kept,
        longest=pool,
    )
    narrator = Narrator()
    if kept:
        narrator.say(f"going on from {len(kept)} points that were measured before")
    outcome = Outcome(end="time", problem=None, resumed=len(kept))
    with ending_orderly():
        try:
            outcome.end = sweep.run(lambda progress: narrator.say(bar(progress)), keeping.keep)
        except ProbeFailed as failed:
            outcome.end, outcome.problem = "failed", failed.sentence
        except KeyboardInterrupt:
            outcome.end = "interrupted"
        narrator.clear()
        return finish(arguments, server.url, output, sweep, keeping, outcome, identity, judged, now())


def now() -> str:
    """The present, ISO 8601 with offset."""
    return datetime.fromtimestamp(time.time(), timezone.utc).isoformat(timespec="seconds")


def bar(progress: "Progress") -> str:
    """The progress in one line."""
    done = 20 * progress.done // max(progress.wanted, 1)
    left = progress.seconds_left
    time_left = "" if left is None else f", at most {max(1, round(left / 60.0))} min left"
    if left is not None and left < 100.0:
        time_left = f", at most {max(1, round(left))} s left"
    drawn = "#" * done + "." * (20 - done)
    return f"[{drawn}] {progress.done}/{progress.wanted} pairs{time_left} · {progress.label}"


@contextmanager
def ending_orderly() -> Iterator[None]:
    """SIGTERM and a closed terminal end like Ctrl-C: what was measured is kept."""

    def leave(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
