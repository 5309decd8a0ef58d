"""One child process that prints: started without a shell of the operator's, read without waiting, gone when we are."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

WATCHER = 'read -r group && read -r _; [ -n "$group" ] && kill -s KILL -- "-$group"'
"""Is told a process group, and ends it when the pipe that told it closes: when this process is no more."""
CHUNK_BYTES = 64 * 1024
REAP_SECONDS = 1.0

Pipe = Literal["out", "err"]


class Unstartable(Exception):
    """The command cannot be started; the sentence says why."""


class Child:
    """A running process in a group of its own, with both of its output streams."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Starts it; raises Unstartable with one sentence.

        Args:
            words: the command and its arguments, which no shell reads.
            environment: its environment; None is this process's own.
        """
        search = None if environment is None else environment.get("PATH")
        if shutil.which(words[0], path=search) is None:
            raise Unstartable(f"there is no command {words[0]!r} here that this user may run")
        try:
            self._process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
            )
        except OSError as error:
            raise Unstartable(f"{words[0]} cannot be started: {(error.strerror or str(error)).lower()}") from error
        except ValueError as error:
            raise Unstartable(f"{words[0]!r} cannot be started: {error}") from error
        self._watcher = _watcher(self._process.pid)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._pipes = {"out": self._process.stdout, "err": self._process.stderr}
        for pipe in self._pipes.values():
            os.set_blocking(pipe.fileno(), False)
        self.open: set[Pipe] = {"out", "err"}
        """Streams that have not ended."""

    @property
    def pid(self) -> int:
        """Its process id, and that of its group."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs.

        It is not buried yet: as long as it is not, nobody else gets the number of its group.
        """
        if self._process.returncode is not None or not hasattr(os, "waitid"):
            return self._process.poll()
        try:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._process.poll()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def read(self, pipe: Pipe, most: int) -> bytes:
        """What stands ready in one of its streams, nothing when there is nothing now or it has ended (see `open`)."""
        if pipe not in self.open:
            return b""
        try:
            data = os.read(self._pipes[pipe].fileno(), min(most, CHUNK_BYTES))
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.open.discard(pipe)
        return data

    def end(self) -> None:
        """Ends the whole group; see `gone`."""
        if self._process.returncode is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.open.clear()
        for pipe in self._pipes.values():
            pipe.close()
        if self._watcher is not None:
            self._watcher.kill()
            if self._watcher.stdin is not None:
                self._watcher.stdin.close()

    def gone(self, *, wait: bool = False) -> bool:
        """Whether an ended child is dead and buried; `wait` gives it a moment."""
        processes = [self._process, *([self._watcher] if self._watcher is not None else [])]
        if wait:
            with suppress(subprocess.TimeoutExpired):
                for process in processes:
                    process.wait(REAP_SECONDS)
        return None not in [process.poll() for process in processes]


def _watcher(group: int) -> "subprocess.Popen[bytes] | None":
    """What ends a process group when this process is killed; None where there is no shell to do it."""
    shell = shutil.which("sh")
    if shell is None:
        return None
    try:
        watcher = subprocess.Popen(
            [shell, "-c", WATCHER, "ddwatch-watcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        # Without it the command still goes with every orderly end.
        return None
    assert watcher.stdin is not None
    with suppress(OSError):
        watcher.stdin.write(f"{group}\n".encode())
        watcher.stdin.flush()
    return watcher


def ending(status: int | None) -> str:
    """How a process ended, in words that follow its name."""
    if status is None:
        return "closed its output and ran on"
    if status >= 0:
        return f"ended with exit code {status}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"
