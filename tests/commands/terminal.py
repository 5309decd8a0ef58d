"""A real terminal of a stated size for one command line: what a reader would see, and the keys that they press."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType

import pyte

DEADLINE = 30.0


class Terminal:
    """Runs `ddwatch` with a pseudo-terminal as its controlling terminal; `stdin` replaces its standard input."""

    def __init__(self, *words: str, columns: int = 100, rows: int = 30, stdin: int | None = None) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddwatch.cli", *words],
            stdin=theirs if stdin is None else stdin,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=self._lead,
        )
        os.close(theirs)

    @staticmethod
    def _lead() -> None:
        """Makes the terminal on stdout the controlling one, as under a shell."""
        os.setsid()
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def send(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._terminal, keys.encode())

    def _take(self) -> bool:
        """Reads what was drawn; False when the command has closed the terminal."""
        if not select.select([self._terminal], [], [], 0.05)[0]:
            return True
        try:
            drawn = os.read(self._terminal, 65536)
        except OSError:
            return False
        self._stream.feed(drawn)
        return bool(drawn)

    def until(self, *words: str) -> str:
        """Waits until all these words stand on the screen at once, and returns it."""
        deadline = time.monotonic() + DEADLINE
        while not all(word in self.text for word in words):
            assert self._take(), f"it ended with:\n{self.text}"
            assert time.monotonic() < deadline, f"{words} never stood there:\n{self.text}"
        return self.text

    def end(self) -> int:
        """Waits for the end of the command and returns its exit code."""
        deadline = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it never ended:\n{self.text}"
            self._take()
        return self.process.returncode
