"""A real terminal of a stated size (tmux), to type into and to read from."""

import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.waiting import until

ENDED = "exit code of the command:"


class Terminal:
    """One tmux window in a server of its own."""

    def __init__(self, tmux: Path, socket: str) -> None:
        self._command = (str(tmux), "-L", socket, "-f", "/dev/null")

    def tmux(self, *words: str) -> str:
        """One tmux command."""
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def open(self, words: Sequence[str], width: int, height: int) -> None:
        """Runs a command in a window; its exit code stands on the screen when it has ended."""
        # The window has a size of its own, whatever the tests' environment states.
        shell = f"unset COLUMNS LINES; {shlex.join(words)}; echo {ENDED} $?; exec cat"
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), shell)

    def text(self) -> str:
        """What stands on the screen."""
        return self.tmux("capture-pane", "-p")

    def keys(self, *names: str) -> None:
        """Types."""
        self.tmux("send-keys", *names)

    def shows(self, *texts: str) -> str:
        """Waits until all these stand on the screen; returns it."""
        return until(lambda: self._with(texts), f"{texts} on the screen", seen=self.text)

    def resize(self, width: int, height: int) -> None:
        """Gives the window another size."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def exit_code(self) -> int:
        """Waits for the command's end."""
        screen = self.shows(ENDED)
        return int(screen.split(ENDED)[1].split()[0])

    def _with(self, texts: Sequence[str]) -> str:
        screen = self.text()
        return screen if all(text in screen for text in texts) else ""


@contextmanager
def terminal(tmux: Path, *words: str, width: int = 80, height: int = 24) -> Iterator[Terminal]:
    """A window that runs `python -m ddwatch.cli WORDS`; gone at the end with all in it."""
    made = Terminal(tmux, f"ddwatch-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    made.open([sys.executable, "-m", "ddwatch.cli", *words], width, height)
    try:
        yield made
    finally:
        made.tmux("kill-server")
