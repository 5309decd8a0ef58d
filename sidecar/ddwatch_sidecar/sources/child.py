"""One child process that prints: started without a shell of the operator's, read without waiting, gone when we are."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

GUARD = 'exec 3<&0; (read -r _ <&3; kill -s KILL 0) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null'
"""Becomes the command, after leaving a watcher in its process group.

The watcher reads a pipe whose other end only this process holds. When that end closes, be it that this process was
killed, the watcher ends the whole group.
"""
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
        shell = shutil.which("sh", path=search)
        # As the first process of a container it takes everything with it when it ends, and nobody would bury watchers.
        self._guarded = shell is not None and os.getpid() != 1
        line = [str(shell), "-c", GUARD, "ddwatch-guard", *words] if self._guarded else list(words)
        try:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.PIPE if self._guarded else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
            )
        except OSError as error:
            raise Unstartable(f"{words[0]} cannot be started: {(error.strerror or str(error)).lower()}") from error
        except ValueError as error:
            raise Unstartable(f"{words[0]!r} cannot be started: {error}") from error
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
        """Its exit code, negative for the signal that ended it; None while it runs."""
        return self._process.poll()

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
        # A group without a watcher may be gone with its first process, and its number be another's by now.
        if self._guarded or self._process.poll() is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.open.clear()
        for pipe in (self._process.stdin, *self._pipes.values()):
            if pipe is not None:
                pipe.close()

    def gone(self, *, wait: bool = False) -> bool:
        """Whether an ended child is dead and buried; `wait` gives it a moment."""
        if wait:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_SECONDS)
        return self._process.poll() is not None


def ending(status: int | None) -> str:
    """How a process ended, in words that follow its name."""
    if status is None:
        return "closed its output and ran on"
    if status >= 0:
        return f"ended with exit code {status}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"
