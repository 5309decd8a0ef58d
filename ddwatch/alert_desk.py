"""The file on the sidecar's host in which acknowledgements and mutes lie: commands write it, the sidecar reads it."""

import fcntl
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from platformdirs import user_state_dir

from ddwatch.core.alert_orders import FORGOTTEN_SECONDS, Orders, decoded, encoded

LARGEST = 256 * 1024
"""Bytes of a file that is read."""
MOST_FILES = 1000
PASSING = re.compile(r"passing-(\d+)\.json")
"""The file of a sidecar that is not to be found again, after its process."""


class Unusable(Exception):
    """The file cannot be used; the message is one phrase that begins with its name."""


def desk_folder() -> Path:
    """Where the files of this user's sidecars live on this platform."""
    return Path(user_state_dir("ddwatch", appauthor=False)) / "alerts"


def passing_name(process: int) -> str:
    """The name of a file that ends with a process."""
    return f"passing-{process}"


class Desk:
    """One such file. Its methods raise Unusable with one phrase."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> Orders:
        """Makes the file unless it is there, clears away what ended sidecars left, and returns what it says."""
        with self._told(), self._alone():
            for other in islice(self.path.parent.glob("*.json"), MOST_FILES):
                if other != self.path and _forgotten(other):
                    other.unlink(missing_ok=True)
            if not self.path.exists():
                self._write(Orders(channel=secrets.token_hex(8)))
            return self._read()

    def read(self) -> Orders:
        """What the file says."""
        with self._told():
            return self._read()

    def change(self, edit: Callable[[Orders], Orders]) -> Orders:
        """Writes what `edit` makes of it, as a whole or not at all; two who change it at once wait for each other."""
        with self._told(), self._alone():
            changed = edit(self._read())
            self._write(changed)
            return changed

    def remove(self) -> None:
        """Removes the file."""
        with suppress(OSError):
            self.path.unlink()

    def _read(self) -> Orders:
        with self.path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Unusable(f"{self.path.name} is too large to be what ddwatch writes")
        found = decoded(data)
        if isinstance(found, str):
            raise Unusable(f"{self.path.name} {found}")
        return found

    def _write(self, orders: Orders) -> None:
        folder = self.path.parent
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(encoded(orders))
                file.flush()
                os.fsync(file.fileno())
                owner = folder.stat()
                if os.geteuid() == 0 and owner.st_uid != 0:
                    # The sidecar of another user must be able to read what root has written for it.
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            Path(name).replace(self.path)
        except OSError:
            with suppress(OSError):
                Path(name).unlink()
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unusable(f"{self.path.name}: {(error.strerror or type(error).__name__).lower()}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Makes the folder, and keeps others from changing anything in it meanwhile."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def desk_of(channel: str | None, folder: Path | None = None) -> Desk | None:
    """The file that a sidecar with this mark reads, where it lies in this user's folder on this host."""
    if channel is None:
        return None
    place = folder if folder is not None else desk_folder()
    for path in islice(sorted(place.glob("*.json")), MOST_FILES):
        desk = Desk(path)
        with suppress(Unusable):
            if secrets.compare_digest(desk.read().channel.encode(), channel.encode()):
                return desk
    return None


def _forgotten(path: Path) -> bool:
    """Whether nobody needs a file any more: its process has ended, or nothing was asked in it for long."""
    found = PASSING.fullmatch(path.name)
    if found is not None:
        return not _lives(int(found[1]))
    try:
        return time.time() - path.stat().st_mtime > FORGOTTEN_SECONDS
    except OSError:
        return False


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
