"""Decides where a server's log can be read: from where its standard error goes, its container and its unit."""

import re
import stat
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ddwatch.core.servers.cgroups import Container, Unit

OutletKind = Literal["file", "deleted", "null", "terminal", "pipe", "socket", "other", "unread"]

DELETED = " (deleted)"
TERMINAL = re.compile(r"/dev/(?:pts/\d+|tty\w*|console)$")
LOCKS = re.compile(r"(?:^|[./_-])(?:lock|state|pid)$")


class Outlet(Struct, frozen=True, kw_only=True):
    """Where a standard stream of a process goes."""

    kind: OutletKind = "unread"
    path: str | None = None
    """Of a file, as that process sees it."""


def outlet(link: str | None, mode: int | None = None, *, present: bool = False) -> Outlet:
    """What the link of a descriptor means.

    Args:
        link: as the kernel gives it; None where it could not be read.
        mode: kind and permissions of what is behind it, where known.
        present: whether a file of exactly this name exists.
    """
    if link is None:
        return Outlet()
    if link.startswith("pipe:") or (mode is not None and stat.S_ISFIFO(mode)):
        return Outlet(kind="pipe")
    if link.startswith("socket:"):
        return Outlet(kind="socket")
    if link == "/dev/null":
        return Outlet(kind="null")
    if TERMINAL.match(link):
        return Outlet(kind="terminal")
    if not link.startswith("/") or link.startswith(("/dev/", "/memfd:")) or (mode is not None and _special(mode)):
        return Outlet(kind="other")
    if link.endswith(DELETED) and not present:
        return Outlet(kind="deleted", path=link.removesuffix(DELETED))
    return Outlet(kind="file", path=link)


def _special(mode: int) -> bool:
    return not stat.S_ISREG(mode)


class Reader(Struct, frozen=True, kw_only=True):
    """The process at the other end of a pipe."""

    pid: int
    name: str
    """Its program."""
    file: str | None = None
    """The file that it writes."""


def written_by_tee(words: Sequence[str], folder: str | None) -> str | None:
    """The first file that `tee` was told to write; None where that cannot be known from its words alone."""
    if not words or words[0].rsplit("/", 1)[-1] != "tee":
        return None
    options = True
    for word in words[1:]:
        if options and word == "--":
            options = False
        elif options and word.startswith("-") and len(word) > 1:
            continue
        elif word.startswith("/"):
            return None if TERMINAL.match(word) or word == "/dev/null" else word
        else:
            return None if folder is None else f"{folder.rstrip('/')}/{word}"
    return None


def best_file(files: Sequence[tuple[str, float]]) -> str | None:
    """Of the files that a program keeps open for writing (with their time of change), the one that grows."""
    logs = [(changed, path) for path, changed in files if not LOCKS.search(path)]
    return max(logs)[1] if logs else None


class LogTraces(Struct, frozen=True, kw_only=True):
    """All that was seen of where a server writes."""

    stderr: Outlet = Outlet()
    stdout: Outlet = Outlet()
    place: str | None = None
    """Where this machine reaches the file of the deciding stream; None where it cannot."""
    readable: bool = True
    """Whether this user may read it."""
    journal: bool | None = None
    """Whether that stream is journald's; None where nobody knows."""
    reader: Reader | None = None
    own_logging: bool = False
    """Whether SGLang was given a logging configuration of its own."""
    unit: Unit | None = None
    container: Container | None = None
    container_name: str | None = None
    container_tool: str | None = None
    """The program that knows the container: docker or podman."""
    container_problem: str | None = None
    """Why nothing is known of it."""
    container_file: str | None = None
    """A log that its runtime writes for it, where this user may read it."""
    owner: str | None = None
    """User of the server, where it is another one."""
    user: str = "$USER"
    """This user, for commands."""


class Log(Struct, frozen=True, kw_only=True):
    """Where the log is read, and why there; or why nowhere, and what helps."""

    source: str | None
    """As `--log` takes it."""
    detail: str
    fix: str | None = None


def stream_of(traces: LogTraces) -> Outlet:
    """The stream that decides: SGLang logs to standard error, unless it was configured otherwise."""
    if traces.own_logging and traces.stdout.kind in ("file", "pipe", "socket") and traces.stderr.kind not in (
        "file", "pipe", "socket",
    ):  # fmt: skip
        return traces.stdout
    return traces.stderr


def log_of(traces: LogTraces) -> Log:
    """The best place to read a server's log."""
    stream = stream_of(traces)
    if stream.kind == "file":
        return _file(traces, stream)
    if stream.kind == "deleted":
        return _deleted(traces, stream)
    if stream.kind == "pipe" and traces.reader is not None and traces.reader.file is not None:
        return _readable(traces, traces.reader.file, f"written by {traces.reader.name}, which reads its output")
    if stream.kind in ("pipe", "terminal", "unread") and traces.container is not None:
        return _container(traces, traces.container)
    if stream.kind == "socket" or (stream.kind == "unread" and traces.unit is not None):
        return _journal(traces)
    return _nowhere(traces, stream)


def _readable(traces: LogTraces, path: str, detail: str) -> Log:
    if traces.readable:
        return Log(source=path, detail=detail)
    return Log(
        source=None,
        detail=f"its log is {path}, which this user may not read",
        fix=f"sudo setfacl -m u:{traces.user}:r {path}",
    )


def _file(traces: LogTraces, stream: Outlet) -> Log:
    if traces.place is None:
        inside = "inside its container" if traces.container is not None else "where this process cannot reach it"
        return Log(
            source=None,
            detail=f"its log is the file {stream.path} {inside}",
            fix="bind-mount that folder, or let it log to the container's output",
        )
    what = "its standard error" if stream is not traces.stdout else "its standard output"
    lasting = "" if traces.place == stream.path else f": {stream.path} of its container, under this name while it lives"
    return _readable(traces, traces.place, f"{what} is redirected there{lasting}")


def _deleted(traces: LogTraces, stream: Outlet) -> Log:
    why = f"its log {stream.path} was deleted while it was being written"
    fix = "restart SGLang, and let logrotate use copytruncate"
    if traces.place is None or not traces.readable:
        return Log(source=None, detail=why, fix=fix)
    return Log(source=traces.place, detail=f"{why}; it is read as long as the server lives", fix=fix)


def _container(traces: LogTraces, container: Container) -> Log:
    short = container.id[:12]
    if traces.container_file is not None:
        return Log(source=traces.container_file, detail="what its container's runtime writes")
    if traces.container_name is not None and traces.container_tool is not None:
        return Log(
            source=f"docker:{traces.container_name}",
            detail=f"it runs in {traces.container_tool}'s {traces.container_name}",
        )
    if container.runtime == "kubernetes":
        return Log(
            source=None,
            detail=f"it runs in the pod's container {short}, whose log this user cannot read here",
            fix="kubectl logs -f POD | ddwatch --log -",
        )
    problem = traces.container_problem or "no docker and no podman is here to ask"
    tool = "podman" if container.runtime == "podman" else "docker"
    return Log(
        source=None,
        detail=f"it runs in the container {short}, and {problem}",
        fix=f"sudo {tool} logs -f {short} 2>&1 | ddwatch --log -",
    )


def _journal(traces: LogTraces) -> Log:
    unit = traces.unit
    if unit is None:
        if traces.journal:
            return Log(
                source=None,
                detail="it logs to the journal, outside of any unit",
                fix="journalctl -f _COMM=python3 | ddwatch --log -",
            )
        return Log(
            source=None,
            detail="its output goes to a socket of whoever started it",
            fix="start it with 2>&1 | tee -a sglang.log",
        )
    sure = "it logs to the journal" if traces.journal else "its output most likely goes to the journal"
    if unit.user:
        return Log(source=f"journal:user/{unit.name}", detail=f"{sure}, as {unit.name} of its user")
    return Log(source=f"journal:{unit.name}", detail=f"{sure}, as {unit.name}")


def _nowhere(traces: LogTraces, stream: Outlet) -> Log:
    again = "start it with 2>&1 | tee -a sglang.log"
    if stream.kind == "unread":
        who = "root" if traces.owner == "root" else f"{traces.owner or 'its own user'} and root"
        return Log(
            source=None,
            detail=f"where it writes may be seen by {who} only",
            fix="sudo ddwatch, or ddwatch --log PATH",
        )
    if stream.kind == "terminal" and traces.stdout.kind == "file":
        return Log(
            source=None,
            detail=f"only its standard output goes to {traces.stdout.path}, and SGLang logs to standard error, "
            "which goes to a terminal",
            fix=f"start it with >> {traces.stdout.path} 2>&1",
        )
    if stream.kind == "terminal":
        return Log(source=None, detail="its output goes to a terminal and is kept nowhere", fix=again)
    if stream.kind == "null":
        return Log(source=None, detail="its output is thrown away (/dev/null)", fix=again)
    if stream.kind == "pipe" and traces.reader is not None:
        name = f"{traces.reader.name} (pid {traces.reader.pid})"
        return Log(
            source=None,
            detail=f"its output is read by {name}, and which file that writes cannot be seen",
            fix="ddwatch --log PATH, with the file that it writes",
        )
    if stream.kind == "pipe":
        return Log(
            source=None,
            detail="its output goes into a pipe whose reader cannot be seen from here",
            fix="ddwatch --log PATH, with the file that it writes",
        )
    return Log(source=None, detail="its output goes to something that cannot be followed", fix=again)
