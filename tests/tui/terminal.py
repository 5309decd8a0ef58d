"""A real pseudo terminal with a real screen inside: what a program writes is drawn, as a user would see it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import pyte

DEADLINE = 20.0


class Terminal:
    """A program in a terminal of its own, in a session of its own, as under a shell."""

    def __init__(self, words: Sequence[str], columns: int = 80, rows: int = 24, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self.raw = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddwatch.cli", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            preexec_fn=self._lead,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @staticmethod
    def _lead() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 65536)
            except OSError:
                return
            if not part:
                return
            with self._lock:
                self.raw += part
                self._stream.feed(part)

    def text(self) -> str:
        """What stands on the screen."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: bytes) -> None:
        """Types."""
        os.write(self._ours, keys)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits for a condition; fails with the screen's text."""
        deadline = time.monotonic() + DEADLINE
        while not holds():
            assert time.monotonic() < deadline, f"{what}\n{self.text()}"
            time.sleep(0.02)

    def reads(self, words: str) -> None:
        """Waits until the words are on the screen."""
        self.until(lambda: words in self.text(), f"never read {words!r}")

    def hang_up(self) -> None:
        """Closes the terminal."""
        os.close(self._ours)
        self._ours = -1

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._ours >= 0:
            self.hang_up()
