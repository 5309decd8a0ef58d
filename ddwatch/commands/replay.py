"""`ddwatch replay LOG|RECORDING`: plays an SGLang log or a recording on the screen, or tells its verdicts."""

import argparse
import math
import os
import queue
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ddwatch import __version__
from ddwatch.commands.replay_account import SCHEDULER, Account, Words
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar.reader import LogReader
from ddwatch.core.snapshot import VerdictName
from ddwatch.feeds.log_lines import LogLines, open_log, shown
from ddwatch.feeds.recording import is_recording
from ddwatch.feeds.replay import Deck, ReplayFeed, last_moment
from ddwatch.profiles.in_force import model_side

WAIT_SECONDS = 0.2
"""How long a wait for a pipe goes on before it looks whether the screen is still there."""
LINES_AHEAD = 10_000
"""Lines of a pipe that are read before they are played."""
FROM = re.compile(r"(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d:\d\d(?::\d\d)?)$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("log", metavar="LOG|RECORDING", help="a log (also .gz, .zst, -), a recording or its folder")
    parser.add_argument("--speed", type=float, default=10.0, metavar="N", help="times real time (10); 0: flat out")
    parser.add_argument("--headless", action="store_true", help="no screen: print each change of verdict and a summary")
    parser.add_argument("--json", action="store_true", help="with --headless: one JSON object per line")
    parser.add_argument(
        "--fail-on",
        type=verdicts_named,
        default=frozenset(),
        metavar="VERDICT[,VERDICT]",
        help="with --headless: exit 2 if one of these verdicts ever held, e.g. slow-step",
    )
    parser.add_argument("--tz", metavar="ZONE", help="zone of the log's stamps, e.g. UTC (default: this machine's)")
    parser.add_argument(
        "--from", "--at", dest="start", metavar="TIME", help="begin at HH:MM[:SS], 'YYYY-MM-DD HH:MM:SS' or ISO 8601"
    )
    parser.add_argument(
        "--alert", type=int, metavar="N", help="of a recording: begin a minute before its Nth alert, 1 is the newest"
    )
    parser.add_argument("--profile", metavar="NAME|FILE", help="judge by this profile, not by the log alone")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")


def zone_named(name: str | None) -> tzinfo | None:
    """The zone of this name, None (this machine's) for no name; raises CommandFailed for an unknown one."""
    if name is None:
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        sentence = f"ddwatch replay: no time zone {name!r}; use a name like Europe/Berlin or UTC"
        raise CommandFailed(sentence, Exit.USAGE) from error


def exact_moment(text: str) -> float | None:
    """The moment of an ISO 8601 time with an offset, as every document has it; None for other words."""
    try:
        meant = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return None if meant.tzinfo is None else meant.timestamp()


def moment_named(text: str | None, zone: tzinfo | None) -> Callable[[float], float] | None:
    """Turns `--from` into a function from the log's start to the moment meant; raises CommandFailed."""
    if text is None:
        return None
    exact = exact_moment(text.strip())
    if exact is not None:
        return lambda _: exact
    found = FROM.match(text.strip())
    try:
        if found is None:
            raise ValueError(text)
        clock = datetime.strptime(found[2], "%H:%M:%S" if found[2].count(":") == 2 else "%H:%M").time()  # noqa: DTZ007
        day = datetime.strptime(found[1], "%Y-%m-%d").date() if found[1] else None  # noqa: DTZ007
    except ValueError as error:
        sentence = f"ddwatch replay: cannot read --from {text!r}; write HH:MM:SS, 'YYYY-MM-DD HH:MM:SS' or ISO 8601"
        raise CommandFailed(sentence, Exit.USAGE) from error

    def moment(started_at: float) -> float:
        first = datetime.fromtimestamp(started_at, zone)
        meant = datetime.combine(day or first.date(), clock, tzinfo=first.tzinfo)
        if day is None and meant.timestamp() < math.floor(started_at):
            meant += timedelta(days=1)
        return meant.timestamp()

    return moment


def verdicts_named(words: str) -> frozenset[VerdictName]:
    """The verdicts of `--fail-on`; raises ArgumentTypeError for a word that is none."""
    known = {name: name for name in get_args(VerdictName)}
    named = [word.strip() for word in words.split(",") if word.strip()]
    for word in named or [words]:
        if word not in known:
            raise argparse.ArgumentTypeError(f"{word!r} is no verdict; there are {', '.join(known)}")
    return frozenset(known[word] for word in named)


def run(arguments: argparse.Namespace) -> int:
    """Plays the log; from the screen 0, headless the worst verdict's exit code."""
    for given, flag in ((arguments.json, "--json"), (arguments.fail_on, "--fail-on")):
        if given and not arguments.headless:
            raise CommandFailed(f"ddwatch replay: {flag} needs --headless", Exit.USAGE)
    if not arguments.speed >= 0:
        raise CommandFailed("ddwatch replay: --speed is 0 (flat out) or more", Exit.USAGE)
    if arguments.alert is not None and (arguments.start is not None or arguments.alert < 1):
        raise CommandFailed("ddwatch replay: --alert counts from 1, and stands alone, without --at", Exit.USAGE)
    zone = zone_named(arguments.tz)
    moment = moment_named(arguments.start, zone)
    if arguments.log != "-" and is_recording(arguments.log):
        from ddwatch.commands.replay_recording import play

        return play(arguments, zone, moment)
    if arguments.alert is not None:
        raise CommandFailed("ddwatch replay: --alert needs a recording: a log tells of alerts as it is played")
    if arguments.headless:
        with open_log(arguments.log) as lines:
            if arguments.log == "-":
                # Whoever reads the verdicts of a live stream sees them before this waits for more of it.
                lines.before_read = sys.stdout.flush
            return headless(
                lines,
                source=source_of(arguments.log),
                zone=zone,
                base=written_at(arguments.log),
                as_json=arguments.json,
                moment=moment,
                expecting=model_side(arguments.profile)(),
                fail_on=arguments.fail_on,
            )
    return screen(arguments, zone, moment)


def source_of(log: str) -> str:
    """The log's name in snapshots: its base name."""
    return "standard input" if log == "-" else shown(Path(log).name)


def written_at(log: str) -> float:
    """When the log was last written: the day of stamps that name none."""
    try:
        return time.time() if log == "-" else Path(log).stat().st_mtime
    except OSError:
        return time.time()


def headless(
    lines: LogLines,
    *,
    source: str,
    zone: tzinfo | None,
    base: float,
    as_json: bool,
    moment: Callable[[float], float] | None,
    expecting: Expecting,
    fail_on: frozenset[VerdictName] = frozenset(),
) -> int:
    """Plays the whole log at once and prints its verdicts; returns the exit code."""
    words = Words(lambda: account.known, as_json, zone)
    account = Account(words.change, fail_on)
    deck = Deck(
        iter(lines),
        zone=zone,
        base=base,
        source=source,
        version=__version__,
        expecting=expecting,
        asked=account.asked,
        seen=account.seen,
    )
    words.stamped = deck.stamped
    if moment is not None:
        account.begin = moment(deck.started_at)
    try:
        deck.advance(math.inf)
    except CommandFailed:
        # Damaged further on: what was read up to there is still told.
        if account.known:
            words.end(_summary(account, deck))
            sys.stdout.flush()
        raise
    if not account.known:
        raise no_decode_line(deck.lines)
    words.end(_summary(account, deck))
    return account.exit_code()


def _summary(account: Account, deck: Deck) -> dict[str, Any]:
    restarts = deck.monitor.at(deck.now).server.restarts
    return account.summary(deck.lines, restarts, deck.monitor.tallies().alerts)


def no_decode_line(lines: int) -> CommandFailed:
    """The sentence for a log that holds nothing to watch."""
    return CommandFailed(
        f"ddwatch replay: no decode line in {lines} line{'' if lines == 1 else 's'}; is this the scheduler's log?"
    )


def first_moment(lines: LogLines, zone: tzinfo | None, base: float) -> float:
    """Time of the first record; raises CommandFailed when the log holds nothing of a scheduler."""
    reader = LogReader(zone, base)
    first: float | None = None
    for number, line in lines:
        for record in reader.read(line, None, number):
            first = record.at if first is None else first
            if isinstance(record, SCHEDULER):
                return first
    for record in reader.close():
        first = record.at if first is None else first
        if isinstance(record, SCHEDULER):
            return first
    raise no_decode_line(lines.count)


class Interruptible:
    """Bytes of a pipe whose reader can be told to leave while it waits for more."""

    def __init__(self, descriptor: int, ended: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._ended = ended

    def read(self, size: int = -1) -> bytes:
        """What is there, at most `size` bytes; b"" at the end and after the end was asked for."""
        while not self._ended():
            if select.select([self._descriptor], [], [], WAIT_SECONDS)[0]:
                return os.read(self._descriptor, size if size > 0 else 65536)
        return b""

    def close(self) -> None:
        """Gives the pipe back."""
        os.close(self._descriptor)


class Pipe:
    """A log from a pipe: read by a thread of its own, so that the screen is not held up by a stream that pauses."""

    def __init__(self, lines: LogLines, ended: Callable[[], bool]) -> None:
        self._lines = lines
        self._ended = ended
        self._queue: queue.Queue[tuple[int, bytes] | CommandFailed | None] = queue.Queue(LINES_AHEAD)
        self._thread = threading.Thread(target=self._read, name="pipe", daemon=True)

    def __enter__(self) -> Iterator[tuple[int, bytes | None]]:
        self._thread.start()
        return self._handed_out()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join()
        self._lines.__exit__(None, None, None)

    def _read(self) -> None:
        try:
            for item in self._lines:
                if not self._put(item):
                    return
            self._put(None)
        except CommandFailed as failure:
            self._put(failure)

    def _put(self, item: tuple[int, bytes] | CommandFailed | None) -> bool:
        while not self._ended():
            with suppress(queue.Full):
                self._queue.put(item, timeout=WAIT_SECONDS)
                return True
        return False

    def _handed_out(self) -> Iterator[tuple[int, bytes | None]]:
        last = 0
        while not self._ended():
            try:
                item = self._queue.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                yield last, None
                continue
            if item is None:
                return
            if isinstance(item, CommandFailed):
                raise item
            last = item[0]
            yield item


def piped(ended: Callable[[], bool]) -> Pipe:
    """Standard input as a log, while the terminal takes its place for the keys; raises CommandFailed without one."""
    from ddwatch.commands.live import keys_from_terminal

    stream = Interruptible(os.dup(0), ended)
    keys_from_terminal()
    return Pipe(LogLines("standard input", cast("BinaryIO", stream), close=True), ended)


def screen(arguments: argparse.Namespace, zone: tzinfo | None, moment: Callable[[float], float] | None) -> int:
    """The real screen on the log."""
    from ddwatch.app import DDWatch
    from ddwatch.commands.live import ending_on_signals

    log, stream = arguments.log, arguments.log == "-"
    if not sys.stdout.isatty() or (not stream and not sys.stdin.isatty()):
        raise CommandFailed("ddwatch replay: the screen needs a terminal; add --headless", Exit.USAGE)
    if stream and sys.stdin.isatty():
        raise CommandFailed("ddwatch replay: - reads a log from a pipe, and stdin is this terminal", Exit.USAGE)
    base, start, duration = written_at(log), 0.0, None
    if not stream:
        with open_log(log) as lines:
            started_at = first_moment(lines, zone, base)
        start = max(moment(started_at) - started_at, 0.0) if moment is not None else 0.0
        last = last_moment(log, zone)
        duration = last - started_at if last is not None and last >= started_at else None
    elif moment is not None:
        raise CommandFailed("ddwatch replay: --from needs a file: a stream has no beginning to count from", Exit.USAGE)
    # The keys must come from the terminal before the screen begins to listen to them.
    pipe = piped(lambda: feed.closed) if stream else None
    feed = ReplayFeed(
        lambda: open_log(log) if pipe is None else pipe,
        origin="standard input" if stream else shown(log),
        source=source_of(log),
        zone=zone,
        speed=arguments.speed or math.inf,
        base=base,
        version=__version__,
        can_rewind=not stream,
        duration=duration,
        start=start,
        expecting=model_side(arguments.profile),
    )
    here = zone or datetime.now().astimezone().tzinfo or timezone.utc
    app = DDWatch(feed, zone=here, ascii_only=arguments.ascii or None)
    with ending_on_signals():
        app.run()
    return app.return_code or Exit.OK
