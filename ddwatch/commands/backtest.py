"""`ddwatch backtest LOG|RECORDING`: false alarms and detection delay on the operator's own data."""

import argparse
import sys
from datetime import datetime, timezone

import msgspec

from ddwatch.commands.backtest_past import Parts, Past, cut, of_log, of_recording
from ddwatch.commands.backtest_words import Tested, document, page
from ddwatch.commands.steps import zone_named
from ddwatch.core.detection.backtest import TRIALS, backtest
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.fit import Refusal, fit_profile
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import readable
from ddwatch.feeds.recording import is_recording
from ddwatch.profiles.shelf import Shelf

NEEDED_JUDGED = 200
"""Judged samples of the later part without which its figures say nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.description = (
        "Fits a profile on the earlier half of the clean samples, then plays the later half: once as it was, then with "
        "slowdowns injected at random clean places. Says how often it would have cried and how soon it finds a change."
    )
    parser.add_argument("log", metavar="LOG|RECORDING", help="a log (also .gz, .zst, -), a recording or its folder")
    parser.add_argument("--tz", metavar="ZONE", help="zone of the log's stamps, e.g. UTC (default: this machine's)")
    parser.add_argument("--profile", metavar="NAME|FILE", help="judge all of it by this profile; fit nothing")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the random places (1)")
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N", help=f"of each change ({TRIALS})")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Prints the figures; raises CommandFailed when the evidence is too thin for any."""
    if not 1 <= arguments.trials <= 1000:
        raise CommandFailed("ddwatch backtest: --trials is 1 to 1000", Exit.USAGE)
    zone = zone_named(arguments.tz, "backtest")
    given = Shelf().load(arguments.profile) if arguments.profile is not None else None
    if arguments.log != "-" and is_recording(arguments.log):
        past = of_recording(arguments.log)
    else:
        past = of_log(arguments.log, zone)
    parts = cut(past) if given is None else cut(past, 0.0)
    profile = given if given is not None else fitted(past, parts)
    if not profile.calibrated:
        why = profile.note or "it is not calibrated"
        raise CommandFailed(
            f"ddwatch backtest: profile {profile.name} accuses nobody, so there is nothing to test: {why}",
            Exit.UNJUDGED,
        )
    found = backtest(
        parts.later,
        profile,
        trials=arguments.trials,
        coupled=parts.coupled,
        block_size=parts.block_size,
        seed=arguments.seed,
    )
    if found.judged < NEEDED_JUDGED:
        raise CommandFailed(
            f"ddwatch backtest: only {found.judged} of {found.samples} later samples can be judged; "
            f"need {NEEDED_JUDGED} (clean, and at loads that the profile covers)",
            Exit.UNJUDGED,
        )
    times = [item.at for item in parts.later] if past.stamped else []
    tested = Tested(
        source=past.name,
        profile=profile,
        fitted=parts.setup.gathering.clean if given is None and parts.setup is not None else None,
        begins_at=times[0] if times else None,
        ends_at=times[-1] if times else None,
        seed=arguments.seed,
        left_out=parts.left_out,
        found=found,
    )
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(document(tested)).decode() + "\n")
    else:
        sys.stdout.write(readable("\n".join(page(tested, zone)) + "\n", sys.stdout.encoding))
    return Exit.OK


def fitted(past: Past, parts: Parts) -> Profile:
    """A profile of the earlier part; raises CommandFailed with the reason when its evidence is too thin."""
    setup = parts.setup
    found: Profile | Refusal = Refusal("no clean sample")
    if setup is not None:
        found = fit_profile(
            setup.gathering.observations(),
            name="earlier part",
            samples=setup.gathering.samples,
            flags=setup.gathering.flags,
            pairs=setup.gathering.pairs(),
            windows=list(setup.gathering.windows.kept),
            graph_sizes=setup.graph_sizes,
            identity=setup.identity,
            judged=setup.judged,
            provenance=parts.provenance,
            source=past.name[:500],
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
    if isinstance(found, Refusal):
        raise CommandFailed(f"ddwatch backtest: the earlier part is too thin: {found.sentence}", Exit.UNJUDGED)
    return found
