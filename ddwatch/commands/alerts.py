"""`ddwatch alerts`: what is wrong, what was, and who knows; acknowledges and mutes, on the sidecar's own host."""

import argparse
import sys
import textwrap
from datetime import datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, cast

from ddwatch.core.alert_orders import ALARMS
from ddwatch.core.durations import seconds_of
from ddwatch.core.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from ddwatch.core.alert_view import AlertView
    from ddwatch.core.snapshot import NoteName, Snapshot

SCHEMA = "ddwatch.alerts/1"
ACTIONS = ("list", "ack", "unack", "mute", "unmute")
INDENT, NARROWEST = " " * 6, 40
MUTE_SECONDS = 3600.0
"""How long a mute holds where nothing else is said."""
SIGNS = {"pending": "…", "firing": "✗", "acknowledged": "○", "muted": "‖", "resolved": "✓"}
"""One sign per state."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=ACTIONS,
        help="list (by itself); ack: somebody knows, no more is told until it is over; mute: tells nobody for a while",
    )
    parser.add_argument("alert", nargs="?", metavar="NAME|all", help=f"one of {', '.join(ALARMS)}")
    parser.add_argument("--for", dest="seconds", type=duration, metavar="TIME", help="e.g. 30m, 4h; mute: 1h by itself")
    parser.add_argument("--note", default="", metavar="TEXT", help="who and why, shown beside it")
    parser.add_argument("--url", metavar="URL", help="the sidecar (the one on this host)")
    parser.add_argument("--token-file", metavar="FILE", help="the sidecar's token (else DDWATCH_TOKEN)")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def duration(text: str) -> float:
    """A typed time in seconds; raises ArgumentTypeError."""
    try:
        return seconds_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error


def run(arguments: argparse.Namespace) -> int:
    """Lists, or asks for something."""
    action, name = arguments.action, arguments.alert
    if action == "list":
        if name is not None or arguments.seconds is not None or arguments.note:
            raise CommandFailed("ddwatch alerts: list takes no name, --for or --note", Exit.USAGE)
    else:
        checked(action, name, arguments)
    snapshot = newest(arguments)
    if action == "list":
        if arguments.json:
            print_json(document("list", snapshot, snapshot.alerts, None))
        else:
            print_text(listing(snapshot))
        return Exit.OK
    return asked(action, name, snapshot, arguments)


def checked(action: str, name: str | None, arguments: argparse.Namespace) -> None:
    """Raises CommandFailed for words that make no sense together."""
    many = action in ("ack", "unack")
    if name is None:
        raise CommandFailed(f"ddwatch alerts: {action} needs a name{' or all' if many else ''}", Exit.USAGE)
    if name not in ALARMS and not (many and name == "all"):
        known = ", ".join([*ALARMS, *(["all"] if many else [])])
        raise CommandFailed(f"ddwatch alerts: no alert has the name {name!r}; there are {known}", Exit.USAGE)
    if action.startswith("un") and (arguments.seconds is not None or arguments.note):
        raise CommandFailed(f"ddwatch alerts: {action} takes no --for or --note", Exit.USAGE)


def newest(arguments: argparse.Namespace) -> "Snapshot":
    """The sidecar's newest snapshot."""
    from ddwatch.commands.discovering import sidecar_url
    from ddwatch.commands.live import local_sidecar, token_of
    from ddwatch.commands.once import fetch

    token = token_of(arguments.token_file)
    url: str | None = arguments.url or local_sidecar(token)
    if url is None:
        raise CommandFailed(f"ddwatch alerts: no sidecar answers at {sidecar_url()}; give --url URL")
    return fetch(url, token)[0]


def asked(action: str, name: str, snapshot: "Snapshot", arguments: argparse.Namespace) -> int:
    """Writes what was asked for and says so."""
    from ddwatch.commands.alert_asking import Asking

    asking = Asking(snapshot)
    seconds: float | None = arguments.seconds
    concerned = [alert for alert in snapshot.alerts if alert.open and name in (alert.name, "all")]
    try:
        if action in ("ack", "unack"):
            if not concerned:
                raise CommandFailed(nothing_open(name, snapshot))
            sentence = (
                asking.acknowledge(concerned, seconds, arguments.note) if action == "ack" else asking.reopen(concerned)
            )
        else:
            alarm = cast("NoteName", name)
            seconds = (MUTE_SECONDS if seconds is None else seconds) if action == "mute" else None
            sentence = asking.mute(alarm, seconds, arguments.note) if seconds is not None else asking.unmute(alarm)
    except CommandFailed as failure:
        raise CommandFailed(f"ddwatch alerts: {failure.sentence}", failure.code) from failure
    if arguments.json:
        until = None if seconds is None else snapshot.at + seconds
        print_json(document(action, snapshot, tuple(concerned), until))
    else:
        print_text([sentence])
    return Exit.OK


def nothing_open(name: str, snapshot: "Snapshot") -> str:
    """The sentence for a name of which nothing fires now."""
    others = [alert.name for alert in snapshot.alerts if alert.open]
    if not others:
        return "nothing is wrong now, so there is nothing to acknowledge; mute keeps what is to come from being told"
    return f"{name} does not fire now; there are {', '.join(others)}"


def document(action: str, snapshot: "Snapshot", alerts: "tuple[AlertView, ...]", until: float | None) -> dict[str, Any]:
    """The JSON document."""
    from ddwatch.core import wire

    return {
        "schema": SCHEMA,
        "action": action,
        "at": wire.iso(snapshot.at),
        "alerts": [wire.document(alert) for alert in alerts],
        "mutes": [wire.document(mute) for mute in snapshot.mutes],
        "until": None if until is None else wire.iso(until),
    }


def listing(snapshot: "Snapshot") -> list[str]:
    """The log for a terminal of 80 columns; numbers are those of `ddwatch replay --alert`."""
    from ddwatch.commands.alert_asking import clock_words

    lines: list[str] = []
    number, width = 0, max(NARROWEST, get_terminal_size().columns)
    for alert in snapshot.alerts:
        number += alert.state != "pending"
        lines += block(alert, snapshot, f"{number:>3}" if alert.state != "pending" else "   ", width)
    if not snapshot.alerts:
        lines.append("nothing is wrong, and nothing was as far as this sidecar's log goes back")
    for mute in snapshot.mutes:
        note = f" ({mute.note})" if mute.note else ""
        lines.append(f"muted: {mute.name} until {clock_words(mute.until, snapshot.at, None)}{note}")
    return lines


def block(alert: "AlertView", snapshot: "Snapshot", number: str, width: int) -> list[str]:
    """One incident."""
    from ddwatch.commands.alert_asking import clock_words
    from ddwatch.core.durations import in_words
    from ddwatch.widgets.rows import clean

    began = datetime.fromtimestamp(alert.since).astimezone()
    end = snapshot.at if alert.resolved_at is None else alert.resolved_at
    lasted = in_words(max(0.0, end - alert.since))
    times = f"{began:%Y-%m-%d %H:%M:%S}, {'for' if alert.resolved_at is None else 'over after'} {lasted}"
    state: str = alert.state
    if alert.until is not None:
        state += f" until {clock_words(alert.until, snapshot.at, None)}"
    said = [times, alert.sentence, *([f"note: {alert.note}"] if alert.note else [])]
    if alert.state != "resolved":
        said += [f"likely: {alert.cause}"] if alert.cause else []
        said += [f"next: {step}" for step in alert.next_steps[:1]]
    lines = [f"{number} {SIGNS[alert.state]} {alert.name}: {state}"]
    for text in said:
        lines += textwrap.wrap(
            clean(text), width, initial_indent=INDENT, subsequent_indent=f"{INDENT}  ", break_on_hyphens=False
        )
    return lines


def print_text(lines: list[str]) -> None:
    """Prints lines without anything that could steer the terminal."""
    from ddwatch.core.expectation.wording import readable
    from ddwatch.widgets.rows import clean

    sys.stdout.write(readable("".join(f"{clean(line)}\n" for line in lines), sys.stdout.encoding))


def print_json(found: dict[str, Any]) -> None:
    """Prints the document on one line."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
