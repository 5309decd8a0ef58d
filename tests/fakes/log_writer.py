"""A writer that does to a real log file what servers, logrotate, editors and operators do to it."""

import os
import shutil
from pathlib import Path
from typing import TypeVar

Writer = TypeVar("Writer", bound="LogWriter")


class LogWriter:
    """Writes unbuffered and appending, as a redirected server does; holds its descriptor as long as a server would."""

    def __init__(self, path: Path, *, append: bool = True) -> None:
        self.path = path
        self._flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else 0)
        self._descriptor: int | None = None

    def __enter__(self: Writer) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process that writes."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def reopen(self) -> None:
        """What a server does on a signal after a rotation: opens its path again, creating it."""
        self.close()
        self._descriptor = os.open(self.path, self._flags, 0o644)

    def write(self, data: bytes) -> None:
        """Any bytes, in one write: half lines too."""
        if self._descriptor is None:
            self.reopen()
        assert self._descriptor is not None
        written = os.write(self._descriptor, data)
        assert written == len(data)

    def line(self, *texts: str) -> None:
        """Whole lines in one write."""
        self.write("".join(f"{text}\n" for text in texts).encode())

    def dribble(self, data: bytes, size: int) -> None:
        """The same bytes in many writes."""
        for start in range(0, len(data), size):
            self.write(data[start : start + size])

    def rename(self, target: Path | None = None) -> Path:
        """The first half of a rotation: the file moves away (by default the numbers shift up), the writer keeps it."""
        if target is None:
            target = self._piece(1)
            self._shift(1)
        self.path.rename(target)
        return target

    def rotate(self) -> Path:
        """A rotation by rename with everything done: the writer has its new file."""
        target = self.rename()
        self.reopen()
        return target

    def copytruncate(self) -> Path:
        """Copies the file aside and truncates it under the writer."""
        self._shift(1)
        shutil.copyfile(self.path, self._piece(1))
        os.truncate(self.path, 0)
        return self._piece(1)

    def recreate(self) -> None:
        """The file is deleted and the writer begins a new one."""
        self.path.unlink()
        self.reopen()

    def _piece(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _shift(self, number: int) -> None:
        if self._piece(number).exists():
            self._shift(number + 1)
            self._piece(number).rename(self._piece(number + 1))
