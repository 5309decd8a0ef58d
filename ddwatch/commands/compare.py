"""`ddwatch compare LOG|RECORDING`: what a restart changed, at equal batch and context, and what it did not."""

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from secrets import token_bytes

import msgspec

from ddwatch.commands.compare_words import Pair, document, page
from ddwatch.commands.steps import written_at, zone_named
from ddwatch.core.comparison.epochs import Epoch, Epochs, changed_words
from ddwatch.core.comparison.outcome import Outcome, compare
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.wording import readable
from ddwatch.core.grammar import LogReader
from ddwatch.core.records import Record, ServerStart
from ddwatch.core.wire import iso
from ddwatch.feeds.log_lines import open_log
from ddwatch.feeds.recording import FAR, is_recording, open_recording

OUTCOME_EXITS: dict[Outcome, Exit] = {
    "no-change": Exit.OK,
    "faster": Exit.OK,
    "accept-fell": Exit.NOTICE,
    "slower": Exit.PAGE,
    "incomparable": Exit.UNJUDGED,
}
CLOCK_FORMATS = ("%H:%M:%S", "%H:%M")
DAY_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.epilog = (
        "exit codes: 0 no change beyond noise, 1 only the accept length fell, 2 each step takes longer, "
        "3 it cannot be compared"
    )
    parser.add_argument("log", metavar="LOG|RECORDING", help="a log (also .gz, .zst, -), a recording or its folder")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--restart", type=int, metavar="N", help="the N-th restart (default: the last; -1 is the last)")
    where.add_argument("--at", metavar="TIME", help="a moment instead: HH:MM[:SS], 'YYYY-MM-DD HH:MM:SS' or ISO 8601")
    parser.add_argument("--tz", metavar="ZONE", help="zone of the log's stamps and of --at (default: this machine's)")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Prints the comparison; raises CommandFailed when there is nothing to compare."""
    zone = zone_named(arguments.tz, "compare")
    meant = Moment(arguments.at, zone) if arguments.at is not None else None
    if arguments.log != "-" and is_recording(arguments.log):
        epochs = from_recording(arguments.log, meant)
    else:
        epochs = from_log(arguments.log, zone, meant)
    if meant is None:
        restarts = [place for place, epoch in enumerate(epochs.kept) if place > 0 and epoch.cut == "restart"]
        number = chosen(arguments.restart, len(restarts), epochs.restarts)
        place = restarts[number]
    else:
        restarts, place = [], moment_place(epochs, meant)
    before, after = epochs.kept[place - 1], epochs.kept[place]
    pair = Pair(
        before=before,
        after=after,
        # Of a long watch only the last restarts are kept; their numbers count from the first one.
        number=epochs.restarts - len(restarts) + restarts.index(place) + 1 if restarts else None,
        restarts=epochs.restarts,
        changes=changed_words(before.start, after.start) if after.cut == "restart" else (),
        found=compare(before.side, after.side),
    )
    if arguments.json:
        first = epochs.restarts - len(restarts) + 1
        numbered = [(n, epochs.kept[at - 1], epochs.kept[at]) for n, at in enumerate(restarts, first)]
        sys.stdout.write(msgspec.json.encode(document(pair, numbered)).decode() + "\n")
    else:
        tell_others(epochs, restarts, place, zone)
        sys.stdout.write(readable("\n".join(page(pair, zone)) + "\n", sys.stdout.encoding))
    return OUTCOME_EXITS[pair.found.outcome]


def chosen(wanted: int | None, kept: int, seen: int) -> int:
    """Place of the restart that was asked for among those kept; raises CommandFailed when there is none."""
    if not seen:
        raise CommandFailed(
            "ddwatch compare: no restart is in there; --at TIME compares before and after a moment", Exit.UNJUDGED
        )
    number = -1 if wanted is None else wanted
    if number < 0:
        number += seen + 1
    if not 1 <= number <= seen:
        many = "one restart is" if seen == 1 else f"{seen} restarts are"
        raise CommandFailed(f"ddwatch compare: {many} in there: --restart {wanted} is none of them", Exit.USAGE)
    if number <= seen - kept:
        raise CommandFailed(
            f"ddwatch compare: of {seen} restarts only the last {kept} are kept: --at TIME finds earlier ones",
            Exit.USAGE,
        )
    return number - (seen - kept) - 1


class Moment:
    """The words of `--at`, which may need the log's first day to be a moment."""

    def __init__(self, words: str, zone: tzinfo | None) -> None:
        self.words = words.strip()
        self._zone = zone
        self._clock = self._read(CLOCK_FORMATS)
        self._day = self._read(DAY_FORMATS)
        self._exact: datetime | None = None
        if self._clock is None and self._day is None:
            try:
                self._exact = datetime.fromisoformat(self.words.replace("Z", "+00:00"))
            except ValueError:
                self._exact = None
            if self._exact is None or self._exact.tzinfo is None:
                raise CommandFailed(
                    f"ddwatch compare: cannot read --at {words!r}; write HH:MM:SS or 'YYYY-MM-DD HH:MM:SS'", Exit.USAGE
                )

    def _read(self, formats: tuple[str, ...]) -> datetime | None:
        return next((read for form in formats if (read := timed(self.words, form)) is not None), None)

    def after(self, first_at: float) -> float:
        """The moment, for a watch that begins at `first_at`; a mere time of day is the next one from there."""
        if self._exact is not None:
            return self._exact.timestamp()
        if self._day is not None:
            return self._day.replace(tzinfo=self._zone).astimezone(timezone.utc).timestamp()
        assert self._clock is not None
        first = datetime.fromtimestamp(first_at, self._zone)
        meant = datetime.combine(first.date(), self._clock.time(), tzinfo=self._zone)
        if meant.astimezone(timezone.utc).timestamp() < first_at - 1.0:
            meant += timedelta(days=1)
        return meant.astimezone(timezone.utc).timestamp()


def timed(words: str, form: str) -> datetime | None:
    """The time that words of this form mean; None when they have another form."""
    try:
        return datetime.strptime(words, form)  # noqa: DTZ007
    except ValueError:
        return None


def moment_place(epochs: Epochs, meant: Moment) -> int:
    """Place of the stretch that begins at the moment; raises CommandFailed when the watch does not reach it."""
    place = next((place for place, epoch in enumerate(epochs.kept) if epoch.cut == "moment"), None)
    if place is None or place == 0:
        raise CommandFailed(f"ddwatch compare: nothing in there is as late as {meant.words}", Exit.USAGE)
    return place


def from_log(path: str, zone: tzinfo | None, meant: Moment | None) -> Epochs:
    """Reads a log; raises CommandFailed when it cannot be read or holds no decode line."""
    reader = LogReader(zone, written_at(path), token_bytes(32))
    epochs: Epochs | None = None
    with open_log(path) as lines:
        for record in records(reader, iter(lines)):
            if epochs is None:
                epochs = Epochs(meant.after(record.at) if meant is not None else None)
            epochs.see(record)
        count = lines.count
    if epochs is None or not any(epoch.side.seen for epoch in epochs.kept):
        lines_read = f"{count} line{'' if count == 1 else 's'}"
        raise CommandFailed(f"ddwatch compare: no decode line in {lines_read}; is this the scheduler's log?")
    return epochs


def records(reader: LogReader, lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
    """Every record of a log in order."""
    for number, line in lines:
        yield from reader.read(line, None, number)
    yield from reader.close()


def from_recording(path: str, meant: Moment | None) -> Epochs:
    """Reads the samples and starts of a recording; raises CommandFailed when it cannot be read or holds none."""
    with open_recording(path) as recording:
        bounds = recording.bounds()
        if bounds is None:
            raise CommandFailed(f"ddwatch compare: nothing is recorded in {recording.name}")
        epochs = Epochs(meant.after(bounds[0]) if meant is not None else None)
        starts = deque(recording.servers(-FAR, FAR))
        # Where the log was read its samples are the richer ones; those of the port tell of the same steps again.
        by_log = any(sample.provenance == "log" for sample in recording.samples(-FAR, FAR))
        for sample in recording.samples(-FAR, FAR):
            if (sample.provenance == "log") is not by_log:
                continue
            while starts and starts[0].at <= sample.at:
                told = starts.popleft()
                withheld = dict.fromkeys(told.withheld, "set")
                start = ServerStart(at=told.at, arguments=told.arguments, withheld=withheld)
                epochs.told(start, by_log=told.kind == "start")
            epochs.take(sample)
    if not any(epoch.side.seen for epoch in epochs.kept):
        raise CommandFailed(f"ddwatch compare: no sample is recorded in {recording.name}")
    return epochs


def tell_others(epochs: Epochs, restarts: list[int], place: int, zone: tzinfo | None) -> None:
    """Lists the restarts on stderr where there are several."""
    if len(restarts) < 2:
        return
    first = epochs.restarts - len(restarts) + 1
    sys.stderr.write(f"ddwatch compare: {epochs.restarts} restarts are in there; --restart N chooses one\n")
    for number, other in enumerate(restarts, first):
        epoch: Epoch = epochs.kept[other]
        words = changed_words(epochs.kept[other - 1].start, epoch.start)
        told = "arguments not seen" if words is None else ", ".join(words[:4]) or "same arguments"
        mark = "*" if other == place else " "
        at = iso(epoch.begins_at) if epoch.begins_at is not None else "-"
        clean = f"{epochs.kept[other - 1].side.clean} and {epoch.side.clean} clean samples"
        sys.stderr.write(f" {mark} {number}  {at[:19].replace('T', ' ')} UTC  {clean}  {told}\n")
