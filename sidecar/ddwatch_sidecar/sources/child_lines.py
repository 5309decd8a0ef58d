"""A source whose lines a child process prints: started again with growing pauses, and every silence explained."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ddwatch.core.records import Gap, SourceFault, SourceUp
from ddwatch_sidecar.sources.child import Child, Pipe, Unstartable
from ddwatch_sidecar.sources.complaint import Complaint
from ddwatch_sidecar.sources.contract import Item, Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT, LineAssembler

PIPES: tuple[Pipe, ...] = ("out", "err")
POLL_BYTES = 1024 * 1024
"""Most bytes of each stream that one poll reads."""
MOST_LINES = 10_000
"""Lines after which one poll stops: a flood of short ones would take far more memory than their bytes."""
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
STEADY_SECONDS = 30.0
"""A child that ran this long ran well; the pause before the next one is short again."""
CLOSED_SECONDS = 1.0
"""How long a child may live on with its output closed."""
SETTLED_SECONDS = 2.0
"""How long a child must live, silent, to be taken as reading."""
FRESH_SECONDS = 5.0
"""A line stamped no longer than this before its child began is as good as live."""
BURST_SECONDS = 10.0
"""Over-long lines are told at most this often."""
LEFT_BEHIND = 3
"""Children that the operating system cannot end; with so many of them no further one is started."""

Start = Callable[[Sequence[str], Mapping[str, str] | None], Child]


class Trouble(Struct, frozen=True):
    """Why nothing is delivered now."""

    reason: str
    """One sentence: what is wrong and what would help."""
    waiting: bool = False
    """True when it has simply not appeared yet."""
    gone: bool = False
    """True when it shows that the server's process is no more."""
    most_seconds: float = LAST_RETRY_SECONDS
    """Longest pause before it is tried again."""


class Moment(Struct, frozen=True):
    """What a dialect may ask about the run that it is in."""

    now: float
    began: float
    """When its child was started."""
    behind: bool
    """More was ready when last looked, or something has come since."""

    def live(self, stamp: float) -> bool:
        """Whether a line with this time was written while we read, and not before."""
        return stamp >= self.began - FRESH_SECONDS or (not self.behind and self.now - self.began >= SETTLED_SECONDS)


class Dialect(Protocol):
    """What one kind of command prints, and what to ask it for; told of everything in order."""

    subject: str
    """What is read, in words."""
    longest: int
    """Bytes of one printed line that are kept."""
    pipes: frozenset[Pipe]
    """The streams on which lines come; when they all have ended, nothing more will come."""
    stands: Trouble | None
    """What is wrong although the child does its work."""

    def words(self) -> Sequence[str]:
        """The next command line."""
        ...

    def out(self, line: Line, moment: Moment) -> list[Item]:
        """A line of its standard output."""
        ...

    def err(self, line: Line, moment: Moment) -> list[Item] | None:
        """A line of its standard error; None when it is no line of the log."""
        ...

    def polled(self, size: int, moment: Moment) -> list[Item]:
        """A poll is over that brought this many bytes."""
        ...

    def silent(self, seconds: float, complaint: Complaint) -> Trouble | bool:
        """What a child means that lives and has given no line since its start: trouble, or whether it reads by now."""
        ...

    def enough(self) -> bool:
        """Whether this run has given all that it is for: the next one begins at once."""
        ...

    def ended(self, status: int | None, complaint: Complaint, moment: Moment) -> tuple[list[Item], Trouble | None]:
        """The run is over: last items, and what is wrong; None when the next run follows at once."""
        ...

    def missing(self, sentence: str) -> Trouble:
        """The command could not be started."""
        ...


class ChildLines:
    """See `Source`; runs the commands of a dialect one after the other."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        name: str,
        environment: Mapping[str, str] | None = None,
        poll_bytes: int = POLL_BYTES,
        start: Start = Child,
    ) -> None:
        self.name = name
        self.behind = False
        self._dialect = dialect
        self._environment = environment
        self._poll_bytes = poll_bytes
        self._start = start
        self._child: Child | None = None
        self._unburied: list[Child] = []
        self._lines: dict[Pipe, LineAssembler] = {}
        self._complaint = Complaint()
        self._began = 0.0
        self._spoke = False
        self._busy = True
        self._closed_since: float | None = None
        self._start_at = float("-inf")
        self._retry = FIRST_RETRY_SECONDS
        self._up = False
        self._told: Trouble | None = None
        self._cut = 0
        self._cut_told_at = float("-inf")
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """Ends the child and all that it started."""
        self._closed = True
        self.behind = False
        self._release()
        for child in self._unburied:
            child.gone(wait=True)

    def poll(self, now: float) -> list[Item]:
        """See `Source.poll`."""
        if self._closed:
            return []
        self.behind = False
        self._unburied = [child for child in self._unburied if not child.gone()]
        items: list[Item] = []
        if self._child is None:
            if now >= self._start_at:
                self._begin(now, items)
            return items
        # Asked first: whatever an ended process printed stands in the pipes by then.
        status = self._child.status
        self._read(now, items)
        if self._dialect.enough():
            self._finish(None, now, items, cut_short=True)
        elif self._over(status, now) and not self.behind:
            self._finish(status, now, items)
        else:
            self._judge(now, items)
        self._tell_cuts(now, items)
        return items

    # -- One run

    def _begin(self, now: float, items: list[Item]) -> None:
        if len(self._unburied) >= LEFT_BEHIND:
            self._pause(now, LAST_RETRY_SECONDS)
            self._fault(Trouble(f"{self._dialect.subject}: its readers hang and cannot be ended"), now, items)
            return
        try:
            self._child = self._start(self._dialect.words(), self._environment)
        except Unstartable as refused:
            trouble = self._dialect.missing(str(refused))
            self._pause(now, trouble.most_seconds)
            self._fault(trouble, now, items)
            return
        self._lines = {pipe: LineAssembler(self._dialect.longest) for pipe in PIPES}
        self._complaint = Complaint()
        self._began = now
        self._spoke = False
        self._busy = True
        self._closed_since = None

    def _moment(self, now: float) -> Moment:
        return Moment(now, self._began, self._busy)

    def _read(self, now: float, items: list[Item]) -> None:
        """Takes what stands in both pipes, a piece of each in turn."""
        assert self._child is not None
        moment = self._moment(now)
        fresh: list[Item] = []
        taken = 0
        dry = False
        while not dry and not self._dialect.enough():
            if taken >= self._poll_bytes or len(fresh) >= MOST_LINES:
                self.behind = True
                break
            dry = True
            for pipe in PIPES:
                data = self._child.read(pipe, self._poll_bytes)
                dry = dry and not data
                taken += len(data)
                for line in self._lines[pipe].feed(data):
                    fresh += self._heard(pipe, line, moment)
        self._busy = taken > 0
        fresh += self._dialect.polled(taken, self._moment(now))
        self._deliver(fresh, now, items)

    def _heard(self, pipe: Pipe, line: Line, moment: Moment) -> list[Item]:
        if pipe == "out":
            return self._dialect.out(line, moment)
        found = self._dialect.err(line, moment)
        if found is None:
            self._complaint.hear(line.data)
            return []
        return found

    def _deliver(self, fresh: list[Item], now: float, items: list[Item]) -> None:
        if any(isinstance(item, Line) for item in fresh):
            self._spoke = True
            if self._dialect.stands is None:
                self._tell_up(now, items)
        for item in fresh:
            if isinstance(item, Line) and not item.whole and len(item.data) >= LINE_LIMIT:
                self._cut += 1
        items += fresh
        if self._dialect.stands is not None:
            self._fault(self._dialect.stands, now, items)

    def _over(self, status: int | None, now: float) -> bool:
        """Whether nothing more will come."""
        assert self._child is not None
        if status is not None:
            return True
        if self._child.open & self._dialect.pipes:
            return False
        if self._closed_since is None:
            self._closed_since = now
        return now - self._closed_since >= CLOSED_SECONDS

    def _finish(self, status: int | None, now: float, items: list[Item], *, cut_short: bool = False) -> None:
        moment = self._moment(now)
        last: list[Item] = []
        if not cut_short:
            for pipe in PIPES:
                for line in self._lines[pipe].flush():
                    last += self._heard(pipe, line, moment)
        more, trouble = self._dialect.ended(status, self._complaint, moment)
        self._deliver([*last, *more], now, items)
        self._release()
        if trouble is None:
            self._start_at = now
            return
        if now - self._began >= STEADY_SECONDS:
            self._retry = FIRST_RETRY_SECONDS
        self._pause(now, trouble.most_seconds)
        self._fault(trouble, now, items)

    def _judge(self, now: float, items: list[Item]) -> None:
        """Says what a silent child means."""
        seconds = now - self._began
        if self._spoke or seconds < SETTLED_SECONDS or self._dialect.stands is not None:
            return
        found = self._dialect.silent(seconds, self._complaint)
        if isinstance(found, Trouble):
            self._fault(found, now, items)
        elif found:
            self._tell_up(now, items)

    def _pause(self, now: float, most_seconds: float) -> None:
        self._start_at = now + min(self._retry, most_seconds)
        self._retry = min(2 * self._retry, LAST_RETRY_SECONDS)

    def _release(self) -> None:
        if self._child is not None:
            self._child.end()
            if not self._child.gone():
                self._unburied.append(self._child)
            self._child = None

    # -- Telling

    def _tell_up(self, now: float, items: list[Item]) -> None:
        self._told = None
        if not self._up:
            self._up = True
            items.append(SourceUp(at=now, source=self.name, detail=f"reading {self._dialect.subject}"))

    def _fault(self, trouble: Trouble, now: float, items: list[Item]) -> None:
        if self._told is not None and trouble.reason == self._told.reason:
            return
        self._told = trouble
        self._up = False
        fault = SourceFault(at=now, source=self.name, reason=trouble.reason, waiting=trouble.waiting, gone=trouble.gone)
        items.append(fault)

    def _tell_cuts(self, now: float, items: list[Item]) -> None:
        if self._cut and now - self._cut_told_at >= BURST_SECONDS:
            detail = f"{self._cut} line(s) of {self._dialect.subject} longer than 64 KiB were cut"
            self._cut = 0
            self._cut_told_at = now
            items.append(Gap(at=now, source=self.name, reason="too-long", detail=detail))
