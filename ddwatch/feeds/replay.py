"""A feed that plays a log through the same core as the live path, in this process, at any speed and from any place."""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import tzinfo
from pathlib import Path
from secrets import token_bytes
from types import TracebackType
from typing import Protocol

from ddwatch.core.exits import CommandFailed
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar.reader import LogReader
from ddwatch.core.history import merged
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import LinesSeen, LogRecord, Record, SourceFault, SourceUp
from ddwatch.core.snapshot import Frame, History, Verdict
from ddwatch.feeds.contract import ReplayControls
from ddwatch.feeds.play_head import Head

FRAME_SECONDS = 0.25
"""Wall time between two frames, and the longest that one frame may take to compute."""
QUIET_SECONDS = 10.0
"""Silence in the log that is longer than this is hurried through."""
HURRY_SECONDS = 1.0
"""Wall time that a hurried silence takes, whatever its length."""
CLOSE_ASKS = 600
"""Whole seconds of one silence at which the core is asked for its verdict, one by one; then once a minute."""
FAR_ASKS = 1500
"""Minutes of one silence at which it is asked; the rest is skipped."""

TAIL_BYTES = 1 << 18
"""Bytes at the end of a log in which its last time is looked for."""

NumberedLines = Iterator[tuple[int, bytes | None]]
"""Physical lines without their newlines, each with its 1-based number; None when a stream has no more for now."""


class OpenedLines(Protocol):
    """An opened log: a context manager over its lines."""

    def __enter__(self) -> Iterable[tuple[int, bytes | None]]:
        """The lines from the first one on."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the log."""


class Deck:
    """One run of a log through the core, from its first line on; it knows no clock but the log's own.

    The core is asked for its verdicts at the time of every record and at each whole second of silence in between.
    """

    def __init__(
        self,
        lines: NumberedLines,
        *,
        zone: tzinfo | None,
        base: float,
        source: str,
        version: str = "",
        simulated: bool = False,
        expecting: Expecting | None = None,
        asked: Callable[[float, Monitor, Verdict], None] | None = None,
        seen: Callable[[Record], None] | None = None,
    ) -> None:
        """Reads up to the first record, however long a stream makes it wait.

        Args:
            lines: the log from its first line on.
            zone: where the log's stamps were written.
            base: time of the first line if the log has no stamps, seconds since the epoch.
            source: name of the log in snapshots.
            version: version of ddwatch, shown with every snapshot.
            simulated: whether the log comes from a simulation.
            expecting: the model side; None learns from the log alone.
            asked: told the time, the monitor and its verdict each time after the core was asked.
            seen: told each record before the core takes it.
        """
        self._reader = LogReader(zone, base, token_bytes(32))
        self._lines_total = 0
        self._lines_new = 0
        self._source = source
        self._asked = asked
        self._seen = seen
        self._records = self._read(lines)
        self._next: Record | None = None
        self._over = False
        while self._next is None and self._pull():
            pass
        self.now = base if self._next is None else self._next.at
        """The log's time that has been reached."""
        self.started_at = self.now
        self.monitor = Monitor(started_at=self.now, version=version, simulated=simulated, expecting=expecting)
        self.monitor.accept(SourceUp(at=self.now, source=source), source)
        self._unstamped = False
        self.quiet = 0.0
        """Length of the silence between the last record taken and the next, seconds."""

    @property
    def lines(self) -> int:
        """Physical lines read so far."""
        return self._lines_total

    @property
    def stamped(self) -> bool:
        """False when the log has no times, so that all are estimates."""
        return self._reader.stamped

    @property
    def ended(self) -> bool:
        """Whether the last record has been taken."""
        return self._over

    @property
    def upcoming(self) -> float | None:
        """Time of the next record; None at the end, and where a stream has no more for now."""
        return None if self._next is None else self._next.at

    def _pull(self) -> bool:
        """Takes the next record, if there is one by now; False at the end."""
        try:
            self._next = next(self._records)
        except StopIteration:
            self._next, self._over = None, True
        return not self._over

    def look(self) -> None:
        """Looks whether a stream that had no more has more now."""
        if self._next is not None or self.ended:
            return
        if not self._pull():
            self._ask()

    def _read(self, lines: NumberedLines) -> Iterator[Record | None]:
        for number, line in lines:
            if line is None:
                yield None
                continue
            self._lines_total = number
            self._lines_new += 1
            yield from self._reader.read(line, None, number)
        yield from self._reader.close()

    def advance(self, to: float, more: Callable[[], bool] = lambda: True) -> None:
        """Plays up to a time of the log; stops early when `more` says so (asked now and then)."""
        count = 0
        while self._next is not None and self._next.at <= to:
            if self._next.at > self.now:
                self._ask()
                self._silence(self._next.at)
            record = self._next
            if self._seen is not None:
                self._seen(record)
            self.monitor.accept(record, self._source)
            self._pull()
            self.quiet = 0.0 if self._next is None else self._next.at - self.now
            count += 1
            if count % 64 == 0 and not more():
                return
        if self._next is None:
            self._ask()
        elif to > self.now and math.isfinite(to):
            self._ask()
            self._silence(to)

    def _ask(self) -> None:
        if self._lines_new:
            self.monitor.accept(LinesSeen(at=self.now, source=self._source, lines=self._lines_new), self._source)
            self._lines_new = 0
        if not self._unstamped and not self._reader.stamped:
            self._unstamped = True
            self.monitor.unstamped()
        verdict = self.monitor.verdicts(self.now)[0]
        if self._asked is not None:
            self._asked(self.now, self.monitor, verdict)

    def _silence(self, end: float) -> None:
        """Moves to `end`, asking at each whole second before it (bounded)."""
        second = math.floor(self.now) + 1.0
        for count in range(CLOSE_ASKS + FAR_ASKS):
            if second >= end:
                break
            self.now = second
            self._ask()
            second += 1.0 if count < CLOSE_ASKS else 60.0
        self.now = end


class ReplayFeed:
    """Frames of a log in order of its own time.

    Going back plays the log again from its start, in the feed's thread; frames meanwhile repeat the last one.
    """

    def __init__(
        self,
        open_lines: Callable[[], OpenedLines],
        *,
        origin: str,
        source: str = "",
        zone: tzinfo | None,
        speed: float = 10.0,
        base: float = 0.0,
        version: str = "",
        can_rewind: bool = True,
        duration: float | None = None,
        start: float = 0.0,
        expecting: Callable[[], Expecting] = Expecting,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] | None = None,
    ) -> None:
        """Prepares a replay.

        Args:
            open_lines: opens the log at its beginning; CommandFailed is shown as a fault.
            origin: the log as the operator would name it.
            source: its name in snapshots; the origin when empty.
            zone: where the log's stamps were written.
            speed: seconds of the log per second of the clock; infinite is as fast as possible.
            base: time of the first line if the log has no stamps.
            version: version of ddwatch.
            can_rewind: False for a stream, which opens only once.
            duration: seconds that the log lasts, where known.
            start: seconds of the log to skip at first.
            expecting: makes the model side for each run from the start.
            clock: monotonic seconds.
            rest: waits between two frames; by default until the time is over or something is asked for.
        """
        self._open = open_lines
        self._origin = origin
        self._source = source or origin
        self._zone = zone
        self._base = base
        self._version = version
        self._expecting = expecting
        self._clock = clock
        self._head = Head(speed, can_rewind, duration)
        self._rest = rest or self._head.rest
        self._history = History()
        self._seq = 0
        self._last: Frame | None = None
        if start > 0:
            self._head.seek(start)

    @property
    def origin(self) -> str:
        """The log as the operator would name it."""
        return self._origin

    @property
    def controls(self) -> ReplayControls:
        """Pause, seek, faster, slower."""
        return self._head

    @property
    def closed(self) -> bool:
        """Whether it was told to end."""
        return self._head.closed

    def close(self) -> None:
        """Makes `frames` end within a second."""
        self._head.close()

    def frames(self) -> Iterator[Frame | SourceFault]:
        """Frames until the feed is closed; after the log's end the last one is repeated, and going back is possible."""
        try:
            again: float | None = 0.0
            while again is not None and not self._head.closed:
                with self._open() as lines:
                    again = yield from self._run(iter(lines), again)
        except CommandFailed as failure:
            yield SourceFault(at=self._base, source=self._source, reason=failure.sentence)

    def _run(self, lines: NumberedLines, place: float) -> Generator[Frame | SourceFault, None, float | None]:
        """Plays from the first line on, quickly to `place`; returns the place to start over for, None at the end."""
        head = self._head
        deck = Deck(
            lines,
            zone=self._zone,
            base=self._base,
            source=self._source,
            version=self._version,
            expecting=self._expecting(),
        )
        self._history, self._seq = History(), 0
        target = deck.started_at + place if place > 0 else None
        before = self._clock()
        while not head.closed:
            wanted = head.wanted()
            if wanted is not None:
                if wanted < deck.now - deck.started_at:
                    return wanted
                target = deck.started_at + wanted
            now = self._clock()
            passed, before = now - before, now
            goal = target if target is not None else None if head.paused else self._goal(deck, passed)
            try:
                busy = self._play(deck, goal)
            except CommandFailed:
                # Damaged from here on: what was read up to here is still shown.
                yield self._frame(deck)
                raise
            target = target if busy else None
            head.reached(deck.now - deck.started_at)
            yield self._frame(deck) if target is None or self._last is None else self._last
            if not busy:
                self._rest(FRAME_SECONDS)
        return None

    def _goal(self, deck: Deck, passed: float) -> float:
        """How far the log's time has come after some wall time; long silences are hurried through, visibly."""
        speed = self._head.speed
        deck.look()
        if deck.upcoming is None:
            return deck.now
        if math.isinf(speed):
            return math.inf
        if deck.quiet <= QUIET_SECONDS:
            return deck.now + passed * speed
        return min(deck.now + passed * max(speed, deck.quiet / HURRY_SECONDS), deck.upcoming)

    def _play(self, deck: Deck, to: float | None) -> bool:
        """Plays up to a time, for at most one frame; True when there is more to play up to there."""
        if to is None or deck.ended:
            return False
        deadline = self._clock() + FRAME_SECONDS
        deck.advance(to, lambda: self._clock() < deadline and not self._head.disturbed())
        return not deck.ended and deck.now < to

    def _frame(self, deck: Deck) -> Frame:
        snapshot = deck.monitor.at(deck.now)
        self._history = merged(self._history, deck.monitor.history(self._seq))
        self._seq = snapshot.seq
        self._last = Frame(snapshot=snapshot, history=self._history)
        return self._last


def last_moment(path: str, zone: tzinfo | None) -> float | None:
    """Time of the last dated line of a plain file, seconds since the epoch; None where its end shows none."""
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - TAIL_BYTES, 0))
            tail = file.read(TAIL_BYTES)
    except OSError:
        return None
    reader = LogReader(zone, 0.0)
    records = [record for line in tail.split(b"\n")[1:] for record in reader.read(line, None, None)]
    records += reader.close()
    dated = [r.at for r in records if isinstance(r, LogRecord) and r.stamp is not None and r.stamp[4:5] == "-"]
    return max(dated, default=None)
