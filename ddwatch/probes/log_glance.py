"""A glance at a log wherever it is: whether what a journal, a container or a command tells is SGLang's."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ddwatch.core.log_place import LogPlace, unit_matches
from ddwatch.core.records import Record
from ddwatch.probes.surroundings import TAIL_BYTES, Host, Ran, Sight, judged

GLANCE_SECONDS = 3.0
LINES = 2000
"""How much of the end is looked at."""


def glanced(words: Sequence[str]) -> Ran:
    """What a command prints in a few seconds; `code` None when it went on or cannot be run."""
    try:
        child = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not name.startswith("DDWATCH_")},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Ran(None, "", str(getattr(error, "strerror", None) or error))
    assert child.stdout is not None and child.stderr is not None
    pipes = (child.stdout, child.stderr)
    found = [b"", b""]
    deadline = time.monotonic() + GLANCE_SECONDS
    for pipe in pipes:
        os.set_blocking(pipe.fileno(), False)
    open_pipes = {0, 1}
    while open_pipes and time.monotonic() < deadline:
        waiting = True
        for index in tuple(open_pipes):
            with suppress(BlockingIOError):
                data = os.read(pipes[index].fileno(), TAIL_BYTES)
                waiting = False
                found[index] += data
                if not data or len(found[index]) >= TAIL_BYTES:
                    open_pipes.discard(index)
        if waiting:
            time.sleep(0.02)
    code = child.poll() if open_pipes else _code(child)
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in pipes:
        pipe.close()
    child.wait()
    return Ran(code, *(data[:TAIL_BYTES].decode("utf-8", "surrogateescape") for data in found))


def _code(child: "subprocess.Popen[bytes]") -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return child.wait(0.5)
    return None


def log_glance(
    place: LogPlace, host: Host, *, run: Callable[[Sequence[str]], Ran] = glanced
) -> tuple[Sight, list[Record]]:
    """Whether a log can be read and holds decode lines; the records of its end."""
    if place.kind == "file":
        return host.log(Path(place.target))
    if place.kind == "stdin":
        detail = "standard input is read by the command that follows it"
        return Sight(name="log", state="partly", source="stdin", detail=detail), []
    if place.kind == "journal":
        return _journal(place, host, run)
    if place.kind == "docker":
        return _container(place, host, run)
    done = run(place.words)
    return _told(place, done, done.out, f"{place.label.partition(':')[2]} prints nothing", None)


def _journal(place: LogPlace, host: Host, run: Callable[[Sequence[str]], Ran]) -> tuple[Sight, list[Record]]:
    if not host.has("journalctl"):
        return _unseen(place, "there is no journalctl here: name a file or a container", "ddwatch --log PATH")
    matches = unit_matches(place.target, user=place.user)
    done = run(["journalctl", "--output=cat", "--no-pager", f"--lines={LINES}", *matches])
    said = done.err.lower()
    if not done.out.strip() and ("permission" in said or "not seeing messages" in said):
        command = f"sudo usermod -aG systemd-journal {host.user()}"
        return _unseen(place, "this user may not read the journal", command)
    nothing = f"the journal holds no line of {place.target}"
    # An empty journal says so in words.
    lines = "" if done.out.strip() == "-- No entries --" else done.out
    user = "--user " if place.user else ""
    return _told(place, done, lines, nothing, f"systemctl {user}status {place.target}")


def _container(place: LogPlace, host: Host, run: Callable[[Sequence[str]], Ran]) -> tuple[Sight, list[Record]]:
    program = next((name for name in ("docker", "podman") if host.has(name)), None)
    if program is None:
        return _unseen(place, "there is neither docker nor podman here", "ddwatch --log PATH")
    done = run([program, "logs", "--tail", str(LINES), place.target])
    if done.code:
        said = done.err.lower()
        if "permission denied" in said:
            return _unseen(place, f"this user may not use {program}", f"sudo usermod -aG docker {host.user()}")
        if "no such container" in said:
            return _unseen(place, f"there is no container {place.target}", f"{program} ps -a")
        return _unseen(place, f"{program} does not show it: is its daemon up?", f"systemctl status {program}")
    if done.code is None:
        return _unseen(place, f"{program} does not answer", f"systemctl status {program}")
    return _told(place, done, done.err + done.out, f"container {place.target} has written nothing", f"{program} ps -a")


def _told(place: LogPlace, done: Ran, text: str, nothing: str, command: str | None) -> tuple[Sight, list[Record]]:
    lines = text.encode("utf-8", "surrogateescape").splitlines()
    if lines:
        return judged(place.label, lines, "at its end")
    ended = f" and ends with exit code {done.code}" if done.code else ""
    return _unseen(place, f"{nothing}{ended}", command)


def _unseen(place: LogPlace, detail: str, command: str | None) -> tuple[Sight, list[Record]]:
    return Sight(name="log", state="unseen", source=place.label, detail=detail, command=command), []
