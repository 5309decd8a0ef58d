"""A source on a child process under a clock in the hand: polled until something holds."""

import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

from ddwatch_sidecar.sources.child_lines import ChildLines, Dialect
from ddwatch_sidecar.sources.contract import Item, Line

from ddwatch.core.records import Gap, SourceFault
from tests.fakes.clock import Clock
from tests.sidecar.sources.reading import only, read_on

PATIENCE_SECONDS = 60.0


class Watched:
    """The source, its clock, and all that it delivered."""

    def __init__(
        self,
        dialect: Dialect,
        name: str,
        *,
        environment: dict[str, str] | None = None,
        clock: Clock | None = None,
        patient: bool = False,
    ) -> None:
        """Begins; `patient` stops the clock while a child runs that does not follow."""
        self._patient = patient
        self.source = ChildLines(dialect, name=name, environment=environment)
        self.clock = clock or Clock()
        self.items: list[Item] = []

    def poll(self, seconds: float = 0.0) -> list[Item]:
        """Lets time pass on the clock, and reads all that is ready."""
        found = read_on(self.source, self.clock.advance(seconds))
        self.items += found
        return found

    def until(self, holds: Callable[[], bool], *, seconds: float = 0.0) -> None:
        """Polls until something holds; between two polls the clock moves on by `seconds`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.items[-20:]
            waits = self._patient and self.source.pid is not None and not self.following
            self.poll(0.0 if waits else seconds)
            time.sleep(0.01)

    def until_lines(self, count: int, *, seconds: float = 0.0) -> None:
        """Polls until so many lines have come."""
        self.until(lambda: len(self.lines) >= count, seconds=seconds)

    def until_texts(self, *texts: str, seconds: float = 0.0) -> None:
        """Polls until exactly these lines have come; fails at once when others do."""
        wanted = list(texts)

        def holds() -> bool:
            assert self.texts == wanted[: len(self.texts)], self.items[-20:]
            return self.texts == wanted

        self.until(holds, seconds=seconds)

    def until_fault(self, count: int = 1, *, seconds: float = 0.0) -> SourceFault:
        """Polls until so many faults were told; the last of them."""
        self.until(lambda: len(only(SourceFault, self.items)) >= count, seconds=seconds)
        return only(SourceFault, self.items)[-1]

    @property
    def following(self) -> bool:
        """Whether the child that runs now follows."""
        pid = self.source.pid
        try:
            return pid is not None and b"--follow" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    def kill(self) -> None:
        """The child that follows is killed, and that is noticed."""
        self.until(lambda: self.following)
        pid = self.source.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.source.pid is None)

    @property
    def lines(self) -> list[Line]:
        return only(Line, self.items)

    @property
    def texts(self) -> list[str]:
        return [line.data.decode("utf-8", "replace") for line in self.lines]

    @property
    def gaps(self) -> list[Gap]:
        return only(Gap, self.items)


def program(path: Path, text: str) -> Path:
    """An executable script."""
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def until_dead(*pids: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.01)
