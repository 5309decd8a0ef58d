"""What the kernel tells of processes: the table of all of them, and streams, sockets and groups of a few."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import psutil
from msgspec import Struct

from ddwatch.core.servers.grouping import Process
from ddwatch.core.servers.sockets import Listener, forward_passes, listeners

WORDS_AT_MOST = 4096
TEXT_BYTES = 8 * 1024 * 1024
"""Most that is read of one file of the kernel."""
SETTINGS_BYTES = 256 * 1024
DESCRIPTORS_AT_MOST = 65536
FILES_AT_MOST = 256
WRITES = 0o3
"""The bits of a descriptor's flags that say how it was opened; 0 is for reading."""


class Stream(Struct, frozen=True, kw_only=True):
    """One descriptor of a process."""

    link: str | None = None
    """As the kernel names it; None where this user may not know."""
    mode: int | None = None
    present: bool = False
    """Whether this machine has a file of that name."""


class Machine:
    """This machine, or the one whose /proc is handed in.

    Everything here answers with what there is: a process that has left, or that this user may not look into, gives None
    or nothing.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.proc = proc
        self._standard_inputs: dict[str, int] | None = None
        self._pids: list[int] = []

    @contextmanager
    def _asked_there(self) -> Iterator[None]:
        """Lets psutil look at this /proc; its setting holds for the whole program, so it is put back."""
        before = getattr(psutil, "PROCFS_PATH", "/proc")
        psutil.PROCFS_PATH = str(self.proc)
        try:
            yield
        finally:
            psutil.PROCFS_PATH = before

    def processes(self) -> list[Process]:
        """Every process, with its words as far as this user may read them."""
        found: list[Process] = []
        with self._asked_there():
            for pid in self._listed():
                with suppress(psutil.Error, OSError):
                    one = psutil.Process(pid)
                    with suppress(psutil.AccessDenied):
                        words = tuple(one.cmdline()[:WORDS_AT_MOST])
                        # What the kernel started itself has no words; a title leaves empty ones behind it.
                        words = words[:1] if words[1:2] == ("",) and not any(words[1:]) else words
                        found.append(Process(pid=pid, parent=one.ppid() if words else None, words=words))
        self._pids = [one.pid for one in found if one.words]
        self._standard_inputs = None
        return found

    def _listed(self) -> list[int]:
        """The ids of all processes; where there is no /proc, psutil has its own ways."""
        try:
            return sorted(int(entry.name) for entry in self.proc.iterdir() if entry.name.isdecimal())
        except OSError:
            return [] if sys.platform == "linux" else psutil.pids()

    def owner(self, pid: int) -> str | None:
        """The name of the user that runs a process."""
        with self._asked_there(), suppress(psutil.Error, OSError, KeyError):
            return psutil.Process(pid).username()
        return None

    def is_own(self, pid: int) -> bool:
        """Whether it runs as this user."""
        try:
            return (self.proc / str(pid)).stat().st_uid == os.geteuid()
        except (OSError, AttributeError):
            return True

    def exists(self, pid: int) -> bool:
        """Whether it is still there."""
        return (self.proc / str(pid)).exists()

    def hides_others(self) -> bool:
        """Whether other users' processes are kept from this one."""
        if not hasattr(os, "geteuid") or os.geteuid() == 0:
            return False
        mounts = self._text(Path("self") / "mounts") or ""
        options = [words[3] for line in mounts.splitlines() if len(words := line.split()) > 3 and words[2] == "proc"]
        return any(
            option.startswith("hidepid=") and option not in ("hidepid=0", "hidepid=off")
            for line in options
            for option in line.split(",")
        )

    def stream(self, pid: int, number: int) -> Stream:
        """One descriptor."""
        place = self._place(pid, f"fd/{number}")
        try:
            link = str(place.readlink())
        except OSError:
            return Stream()
        mode = None
        with suppress(OSError):
            mode = place.stat().st_mode
        return Stream(link=link, mode=mode, present=is_there(link))

    def reached(self, pid: int, number: int, path: str, *, deleted: bool = False) -> str | None:
        """A name under which this machine reaches the file behind a descriptor; None where there is none."""
        behind = self._place(pid, f"fd/{number}")
        if deleted:
            return str(behind) if is_there(str(behind)) else None
        return self._same(behind, path, pid)

    def _same(self, behind: Path, path: str, pid: int) -> str | None:
        """The name of a file here, when it is the one behind a descriptor."""
        with suppress(OSError, ValueError):
            state = behind.stat()
            for candidate in (path, f"{self._place(pid, 'root')}{path}"):
                with suppress(OSError):
                    seen = Path(candidate).stat()
                    if (seen.st_dev, seen.st_ino) == (state.st_dev, state.st_ino):
                        return candidate
        return None

    def folder(self, pid: int, path: str) -> str | None:
        """A name under which this machine reaches a folder that a process named; None where it cannot."""
        whole = self.inside(pid, path)
        if whole is None:
            return None
        for candidate in (f"{self._place(pid, 'root')}{whole}", whole):
            with suppress(OSError, ValueError):
                state = Path(candidate).stat()
                here = Path(whole).stat() if is_there(whole) else None
                same = here is not None and (here.st_dev, here.st_ino) == (state.st_dev, state.st_ino)
                return whole if same else candidate
        return None

    def inside(self, pid: int, path: str) -> str | None:
        """A path as that process means it: relative ones count from its own folder."""
        if path.startswith("/"):
            return path
        folder = self._link(pid, "cwd")
        return None if folder is None else f"{folder.rstrip('/')}/{path}"

    def settings(self, pid: int, path: str) -> str:
        """The text of a file that a process was told to read; empty where it cannot be read."""
        whole = self.inside(pid, path)
        if whole is None:
            return ""
        for candidate in (f"{self._place(pid, 'root')}{whole}", whole):
            with suppress(OSError, ValueError), Path(candidate).open("rb") as file:
                return file.read(SETTINGS_BYTES).decode("utf-8", "replace")
        return ""

    def setting(self, pid: int, name: str) -> str | None:
        """One variable of a process's environment; None where it is not set, or not to be seen."""
        text = self._text(Path(str(pid)) / "environ") or ""
        start = f"{name}="
        return next((part[len(start) :] for part in text.split("\0") if part.startswith(start)), None)

    def is_journal(self, pid: int, number: int) -> bool | None:
        """Whether a descriptor is the one that systemd connected to the journal; None where nobody can tell."""
        told = self.setting(pid, "JOURNAL_STREAM")
        if told is None:
            return None
        with suppress(OSError):
            state = self._place(pid, f"fd/{number}").stat()
            return told == f"{state.st_dev}:{state.st_ino}"
        return None

    def group(self, pid: int) -> str:
        """The text of its control group."""
        return self._text(Path(str(pid)) / "cgroup") or ""

    def group_of_self(self) -> str:
        """The text of this process's own control group."""
        return self._text(Path("self") / "cgroup") or ""

    def shares_network(self, pid: int) -> bool | None:
        """Whether its ports are this machine's; None where nobody can tell."""
        theirs, ours = self._link(pid, "ns/net"), self._link("self", "ns/net")
        return None if theirs is None or ours is None else theirs == ours

    def inodes(self, pid: int) -> set[int] | None:
        """Its sockets; None where this user may not know."""
        try:
            entries = list(islice(self._place(pid, "fd").iterdir(), DESCRIPTORS_AT_MOST))
        except OSError:
            return None
        found: set[int] = set()
        for entry in entries:
            with suppress(OSError, ValueError):
                link = str(entry.readlink())
                if link.startswith("socket:["):
                    found.add(int(link[8:-1]))
        return found

    def listening(self, pid: int) -> list[Listener] | None:
        """The sockets on which a process takes connections; None where this user may not know."""
        own = self.inodes(pid)
        if own is None:
            return None
        return [one for one in self.listening_beside(pid) if one.inode in own] if own else []

    def listening_beside(self, pid: int) -> list[Listener]:
        """All sockets that take connections in the network of a process, whoever owns them."""
        found: list[Listener] = []
        for name in ("tcp", "tcp6"):
            found += listeners(self._text(Path(str(pid)) / "net" / name) or "")
        return found

    def user_of(self, pid: int) -> int | None:
        """The id of the user that runs it."""
        with suppress(OSError):
            return (self.proc / str(pid)).stat().st_uid
        return None

    def forward_passes(self, pids: tuple[int, ...]) -> str | None:
        """The endpoint that one of these processes publishes forward passes on."""
        for pid in pids:
            own = self.inodes(pid)
            found = forward_passes(self._text(Path(str(pid)) / "net" / "unix") or "", own) if own else None
            if found is not None:
                return found
        return None

    def reader_of(self, link: str, without: frozenset[int]) -> int | None:
        """The process that has a pipe as its standard input."""
        if self._standard_inputs is None:
            self._standard_inputs = {}
            for pid in self._pids:
                if (seen := self._link(pid, "fd/0")) is not None and seen.startswith(("pipe:", "/")):
                    self._standard_inputs.setdefault(seen, pid)
        found = self._standard_inputs.get(link)
        return None if found in without else found

    def written(self, pid: int) -> list[tuple[str, float]]:
        """Regular files that a process keeps open for writing, as this machine reaches them, with their last change."""
        try:
            numbers = sorted(int(one.name) for one in self._place(pid, "fd").iterdir() if one.name.isdecimal())
        except OSError:
            return []
        found = []
        for number in numbers[:FILES_AT_MOST]:
            with suppress(OSError, ValueError):
                behind = self._place(pid, f"fd/{number}")
                link = str(behind.readlink())
                flags = (self._text(Path(str(pid)) / "fdinfo" / str(number)) or "").partition("flags:")[2].split()
                if not behind.is_file() or not flags or not int(flags[0], 8) & WRITES:
                    continue
                here = self._same(behind, link, pid)
                if here is not None:
                    found.append((here, behind.stat().st_mtime))
        return found

    def _place(self, pid: int | str, name: str) -> Path:
        return self.proc / str(pid) / name

    def _link(self, pid: int | str, name: str) -> str | None:
        try:
            return str(self._place(pid, name).readlink())
        except OSError:
            return None

    def _text(self, name: Path) -> str | None:
        try:
            with (self.proc / name).open("rb") as file:
                return file.read(TEXT_BYTES).decode("utf-8", "replace")
        except OSError:
            return None


def is_there(path: str) -> bool:
    """Whether a path leads to something here; one that cannot be a path does not."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False
