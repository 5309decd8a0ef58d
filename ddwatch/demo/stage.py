"""Where the simulated service meets the world: its time at the pace of the wall clock, its log, and its callers."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ddwatch.demo.engine import Simulation
from ddwatch.demo.log_writer import LogWriter
from ddwatch.demo.rank import RankLoad
from ddwatch.demo.requests import Request

WATCH_SECONDS = 0.5
"""How often it looks whether the process that it lives for is still there."""
LOOK_SECONDS = 0.1
"""How long it waits at most without looking whether it shall end."""
GROUP_SECONDS = 0.02
"""Lines due within this much wall time are written at once, as a busy server's buffered output would be."""
MOST_LINES = 5000
"""Lines that are held back before they are written."""
MOST_ASKED = 1024
"""Requests that wait to be taken in; more are refused."""


class Ended(Exception):
    """The service shall end."""


class Pace:
    """Turns simulated time into wall time: `speed` simulated seconds pass in one second of `clock`."""

    def __init__(self, simulated: float, wall: float, speed: float) -> None:
        self._simulated = simulated
        self._wall = wall
        self._speed = speed

    def due(self, at: float) -> float:
        """When, on the wall clock, the simulated moment `at` comes."""
        return self._wall + (at - self._simulated) / self._speed

    def at(self, due: float) -> float:
        """The simulated moment that comes at `due` on the wall clock."""
        return self._simulated + (due - self._wall) * self._speed


class View(NamedTuple):
    """What the port may say of the service: its state when its last pass ended."""

    serving: bool
    loads: tuple[RankLoad, ...]
    arguments: Mapping[str, object]
    loading: bool = False
    """Whether the model is on its way into memory."""


def alive(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write(log: int, batch: list[str]) -> None:
    """Appends whole lines; a short write (a full disk) raises OSError sooner or later."""
    data = memoryview("".join(f"{line}\n" for line in batch).encode())
    while data:
        data = data[os.write(log, data) :]


class Stage:
    """One run of the service: the past at once, the present when it is due, requests from other threads in between.

    Everything but `ask`, `note`, `forget`, `view` and `now` belongs to the thread that plays the story.
    """

    def __init__(
        self,
        log: int,
        writer: LogWriter,
        *,
        live_from: float,
        speed: float,
        stop: threading.Event,
        until_pid: int | None,
        go_live: Callable[[], None],
        changed: Callable[[View], None] = lambda view: None,
    ) -> None:
        """Prepares the stage.

        Args:
            log: file descriptor to append to.
            writer: puts stamps on the access lines.
            live_from: the simulated moment that is now.
            speed: simulated seconds per second.
            stop: set when the service shall end.
            until_pid: a process whose end is the service's.
            go_live: called once, when the past is written; time moves when it returns.
            changed: called when the port opens or closes.
        """
        self._log = log
        self._writer = writer
        self._live_from = live_from
        self._speed = speed
        self._stop = stop
        self._until_pid = until_pid
        self._go_live = go_live
        self._changed = changed
        self._pace: Pace | None = None
        self._lines: list[str] = []
        self._woken = threading.Event()
        self._asked: deque[Request] = deque()
        self._notes: deque[tuple[str, str, str]] = deque(maxlen=MOST_LINES)
        self._news: deque[Callable[[], None]] = deque()
        self.listening = 0
        """Requests over the port that are on their way: with any, time is kept to the millisecond."""
        self.view = View(False, (), {})

    def play(self, story: Iterable[tuple[float, str]]) -> None:
        """Plays until the service shall end; raises OSError when the log cannot be written."""
        try:
            for at, line in story:
                self._come(at)
                self._lines.append(line)
        except Ended:
            return

    # Called by the simulation, in the thread that plays.

    def reach(self, simulation: Simulation) -> None:
        """Waits for the simulation's present; then what ended there is told and its state can be seen."""
        self._come(simulation.at)
        if self._pace is None:
            return
        while self._news:
            self._news.popleft()()
        self.see(simulation)

    def see(self, simulation: Simulation) -> None:
        """Takes the simulation's state as what can be seen now."""
        before = self.view.serving
        self.view = View(simulation.serving, simulation.loads(), simulation.arguments, simulation.loading)
        if before != simulation.serving:
            self._changed(self.view)

    def idle(self, simulation: Simulation, until: float) -> float:
        """Waits while nothing runs, until somebody asks or the moment comes."""
        if self._pace is None:
            return min(until, self._live_from) if simulation.at < self._live_from else self._idle(simulation, until)
        return self._idle(simulation, until)

    def asked(self) -> list[Request]:
        """Requests that came in since the last call."""
        found: list[Request] = []
        while self._asked:
            found.append(self._asked.popleft())
        return found

    def tell(self, news: Callable[[], None]) -> None:
        """Keeps news of the pass that is being computed until its end has come."""
        self._news.append(news)

    # Called by the port, from its own thread.

    def ask(self, request: Request) -> bool:
        """Hands in a request; False when too many wait already."""
        if len(self._asked) >= MOST_ASKED:
            return False
        self._asked.append(request)
        self._woken.set()
        return True

    def note(self, client: str, request: str, status: str) -> None:
        """Has an access line written."""
        self._notes.append((client, request, status))
        self._woken.set()

    def now(self) -> float:
        """The simulated present."""
        return self._live_from if self._pace is None else self._pace.at(time.monotonic())

    # The rest is its own.

    def _idle(self, simulation: Simulation, until: float) -> float:
        self._live()
        assert self._pace is not None
        self.see(simulation)
        self._wait(self._pace.due(until), for_request=True)
        return min(until, self._pace.at(time.monotonic())) if self._asked else until

    def _come(self, at: float) -> None:
        """Returns once a moment has come."""
        if self._stop.is_set():
            self._flush()
            raise Ended
        if self._pace is None:
            if at <= self._live_from:
                if len(self._lines) >= MOST_LINES:
                    self._flush()
                return
            self._live()
        assert self._pace is not None
        due = self._pace.due(at)
        ahead = due - time.monotonic()
        if ahead > (0.0 if self.listening else GROUP_SECONDS):
            self._wait(due, for_request=False)
        elif len(self._lines) >= MOST_LINES:
            self._flush()

    def _live(self) -> None:
        if self._pace is None:
            self._flush()
            self._go_live()
            self._pace = Pace(self._live_from, time.monotonic(), self._speed)

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        write(self._log, lines)

    def _wait(self, due: float, *, for_request: bool) -> None:
        self._flush()
        while True:
            if self._stop.is_set() or (self._until_pid is not None and not alive(self._until_pid)):
                raise Ended
            while self._notes:
                client, request, status = self._notes.popleft()
                write(self._log, [self._writer.access(self.now(), client, request, status)])
            left = due - time.monotonic()
            if left <= 0 or (for_request and self._asked):
                return
            self._woken.wait(min(left, LOOK_SECONDS))
            self._woken.clear()
