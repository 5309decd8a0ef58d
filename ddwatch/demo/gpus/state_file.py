"""Keeps the state file of the driver's stand-in in step with the simulated service, in a thread of its own."""

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ddwatch.demo.gpus.cards import Cards
from ddwatch.demo.stage import View

WRITE_SECONDS = 0.25
SAMPLES = 4
"""The share of time at work is that of the last second, as NVML's is."""


def works(view: View) -> bool:
    """Whether the service has something to do."""
    return any(rank.running or rank.queued for rank in view.loads)


def replace(path: Path, text: str) -> None:
    """Writes a file that readers see as the old one or the new one, never as half of it; raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise


class StateFile:
    """One file, written again four times a second; gone at the end."""

    def __init__(self, path: Path, cards: Cards, start: float, now: Callable[[], float], view: Callable[[], View]):
        """Prepares to write.

        Args:
            path: the file.
            cards: what they do.
            start: when the story began, in simulated seconds since the epoch.
            now: the simulated present.
            view: what can be seen of the service.
        """
        self._path = path
        self._cards = cards
        self._start = start
        self._now = now
        self._view = view
        self._worked: deque[bool] = deque(maxlen=SAMPLES)

    def write(self) -> None:
        """Writes the present state; raises OSError when the file cannot be written."""
        view = self._view()
        self._worked.append(works(view))
        busy = sum(self._worked) / len(self._worked)
        self._cards.advance(self._now() - self._start, busy, serving=view.serving, loading=view.loading)
        replace(self._path, self._cards.text())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Writes once, then again and again while the block runs."""
        ended = threading.Event()

        def again() -> None:
            while not ended.wait(WRITE_SECONDS):
                # A folder that was taken away is the end of the demo, not a fault of its own.
                with suppress(OSError):
                    self.write()

        self.write()
        thread = threading.Thread(target=again, name="cards", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._path.unlink(missing_ok=True)
