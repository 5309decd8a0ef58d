"""Plays a recording: on the screen, or as the verdicts that were reached while it was made."""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone, tzinfo

from ddwatch import __version__
from ddwatch.commands.replay_account import Account, Words
from ddwatch.core.alert_view import BEFORE_SECONDS
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.recording import flags_of
from ddwatch.core.snapshot import VerdictName
from ddwatch.feeds.log_lines import shown
from ddwatch.feeds.recording import Recording, Run, open_recording
from ddwatch.feeds.recording_tape import RecordingFeed

Moment = Callable[[float], float]


def play(arguments: argparse.Namespace, zone: tzinfo | None, moment: Moment | None) -> int:
    """Plays the recording; from the screen 0, headless the worst verdict's exit code."""
    with open_recording(arguments.log) as recording:
        bounds = recording.bounds()
        if bounds is None:
            raise CommandFailed(f"ddwatch replay: {recording.name} holds nothing yet")
        if recording.name != shown(arguments.log):
            sys.stderr.write(f"ddwatch replay: the newest recording there is {recording.name}\n")
        begin = moment(bounds[0]) if moment is not None else -math.inf
        if arguments.alert is not None:
            begin = before_alert(recording, bounds[1], arguments.alert)
        if arguments.headless:
            return headless(recording, zone, begin=begin, as_json=arguments.json, fail_on=arguments.fail_on)
    return screen(str(recording.path), arguments, zone, bounds=bounds, begin=begin)


def before_alert(recording: Recording, ended_at: float, number: int) -> float:
    """A minute before the Nth incident of the log that the recording ends with; raises CommandFailed without one."""
    last = recording.snapshot(ended_at)
    alerts = [alert for alert in last.alerts if alert.state != "pending"] if last is not None else []
    if number > len(alerts):
        there = f"there are {len(alerts)}" if alerts else "nothing was wrong as far as it goes back"
        raise CommandFailed(f"ddwatch replay: {recording.name} has no alert {number}: {there}")
    return alerts[number - 1].since - BEFORE_SECONDS


def headless(
    recording: Recording,
    zone: tzinfo | None,
    *,
    begin: float,
    as_json: bool,
    fail_on: frozenset[VerdictName] = frozenset(),
) -> int:
    """Prints the verdicts that were recorded, and what the recording comes to; returns the exit code."""
    words = Words(lambda: True, as_json, zone)
    account = Account(words.change, fail_on)
    runs = recording.runs()
    tell_verdicts(recording, runs, account, words, begin)
    for bits, count in recording.flag_counts(begin):
        account.samples += count
        account.clean += 0 if bits else count
        account.flags.update(dict.fromkeys(flags_of(bits), count))
    for sample in recording.samples(begin):
        account.first = sample.at if account.first is None else account.first
        account.last = sample.at
        if sample.clean:
            account.medians["throughput"].add(sample.throughput)
            account.medians["accept_length"].add(sample.accept_length)
            account.medians["step_seconds"].add(sample.step_seconds)
    account.events.update(Counter(event.kind for event in recording.events(begin)))
    lines = 0
    for run in runs:
        last = recording.snapshot(run.ended_at, max(run.began_at, begin) - 1.0)
        lines += sum(source.lines for source in last.sources) if last is not None else 0
        account.unread += sum(source.unread for source in last.sources) if last is not None else 0
    words.end(account.summary(lines, account.events["restart"], None))
    return account.exit_code()


def tell_verdicts(recording: Recording, runs: list[Run], account: Account, words: Words, begin: float) -> None:
    """Tells each change of verdict; a verdict lasts until the next one, or until its run ended."""
    ends = [run.ended_at for run in runs]
    held = recording.last_verdict(begin)
    changes = recording.verdicts(begin)
    before = None if held is None else (max(held.at, begin), held.verdict.name)
    if held is not None and begin <= next((end for end in ends if end >= held.at), -math.inf):
        words.change(held)
        account.verdict_seconds.setdefault(held.verdict.name, 0.0)
    else:
        before = None
    for change in changes:
        if before is not None:
            until = min([change.at, *(end for end in ends if end >= before[0])])
            account.verdict_seconds[before[1]] += until - before[0]
        account.verdict_seconds.setdefault(change.verdict.name, 0.0)
        if before is None or before[1] != change.verdict.name:
            # The recording keeps each change of cause too: a hot card has another temperature every second.
            words.change(change)
        before = (change.at, change.verdict.name)
    if before is not None:
        account.verdict_seconds[before[1]] += min([e for e in ends if e >= before[0]], default=before[0]) - before[0]


def screen(
    path: str, arguments: argparse.Namespace, zone: tzinfo | None, *, bounds: tuple[float, float], begin: float
) -> int:
    """The real screen on the recording."""
    from ddwatch.app import DDWatch
    from ddwatch.commands.live import ending_on_signals

    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise CommandFailed("ddwatch replay: the screen needs a terminal; add --headless", Exit.USAGE)
    feed = RecordingFeed(
        lambda: open_recording(path),
        origin=shown(path),
        bounds=bounds,
        speed=arguments.speed or math.inf,
        version=__version__,
        start=max(begin - bounds[0], 0.0) if math.isfinite(begin) else 0.0,
    )
    here = zone or datetime.now().astimezone().tzinfo or timezone.utc
    app = DDWatch(feed, zone=here, ascii_only=arguments.ascii or None)
    with ending_on_signals():
        app.run()
    return app.return_code or Exit.OK
