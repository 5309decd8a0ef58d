"""Starts processes that look like SGLang servers, and shows discovery a /proc that holds nothing else."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
from msgspec import Struct

PACKAGE = Path(__file__).parent / "stand_in"
DEADLINE = 30.0


class Standing(Struct):
    """A running stand-in."""

    process: subprocess.Popen[bytes]
    """What was started: the launcher, or the shell above it."""
    pid: int
    """The launcher."""
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def family(self) -> list[int]:
        """Every process of it."""
        top = psutil.Process(self.process.pid)
        return [top.pid, *(child.pid for child in top.children(recursive=True))]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def standing_in(
    *words: str,
    shell: str | None = None,
    port: int | None = None,
    title: str = sys.executable,
    mute: bool = False,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator[Standing]:
    """A server until the block ends; with `shell` its text is run and `SERVER` in it stands for the command."""
    port = port or free_port()
    command = [title, "-S", "-m", "sglang.launch_server", "--port", str(port), *words, *(["--mute"] if mute else [])]
    surroundings = {**os.environ, "PYTHONPATH": str(PACKAGE), **(environment or {})}
    if shell is not None:
        line = subprocess.list2cmdline(command)
        run = ["bash", "-c", f"SERVER() {{ {line}; }}; {shell}"]
        process = subprocess.Popen(
            run,
            cwd=cwd,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    else:
        process = subprocess.Popen(
            command,
            executable=sys.executable,
            cwd=cwd,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    found = Standing(process, 0, port)
    try:
        deadline = time.monotonic() + DEADLINE
        while not (found.pid and (mute or listens(port)) and _settled(found.pid)):
            assert process.poll() is None, "the stand-in ended"
            assert time.monotonic() < deadline, "the stand-in never stood"
            found.pid = found.pid or _launcher(process.pid)
            time.sleep(0.02)
        yield found
    finally:
        for pid in reversed(found.family() if process.poll() is None else []):
            with suppress(psutil.Error):
                psutil.Process(pid).kill()
        process.wait()


def _launcher(top: int) -> int:
    """The pid of the launcher below a process, 0 while there is none."""
    try:
        whole = psutil.Process(top)
        for one in (whole, *whole.children(recursive=True)):
            words = one.cmdline()
            if "sglang.launch_server" in words and not words[0].endswith("bash"):
                return one.pid
    except psutil.Error:
        return 0
    return 0


def _settled(pid: int) -> bool:
    """Whether its children carry their titles."""
    try:
        children = psutil.Process(pid).children()
        return len(children) >= 2 and all((one.cmdline() or [""])[0].startswith("sglang::") for one in children)
    except psutil.Error:
        return False


def proc_of(folder: Path, *pids: int, groups: Mapping[int, str] | None = None) -> Path:
    """A /proc with these processes only; `groups` replaces the control group of some."""
    folder.mkdir()
    for name in ("stat", "self", "mounts", "uptime", "meminfo", "net"):
        (folder / name).symlink_to(f"/proc/{name}")
    for pid in pids:
        if pid not in (groups or {}):
            (folder / str(pid)).symlink_to(f"/proc/{pid}")
            continue
        own = folder / str(pid)
        own.mkdir()
        for entry in Path(f"/proc/{pid}").iterdir():
            if entry.name != "cgroup":
                (own / entry.name).symlink_to(entry.readlink() if entry.is_symlink() else entry)
        (own / "cgroup").write_text((groups or {})[pid], encoding="utf-8")
    return folder
