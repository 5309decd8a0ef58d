"""One look at a path: what stands there, or one sentence on why it cannot be followed and what would help."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

MAGICS = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))
"""First bytes of compressed files, with the name to show."""


class Identity(Struct, frozen=True):
    """Device and inode: the same file as long as one holds it open."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Identity":
        """The identity in the answer of stat."""
        return cls(status.st_dev, status.st_ino)


class Refusal(Struct, frozen=True):
    """Why a path cannot be followed now."""

    reason: str
    waiting: bool = False
    """True when it has simply not appeared yet."""


def shown(path: str | Path) -> str:
    """A path as it may stand in a sentence on a terminal."""
    return "".join(char if char.isprintable() else "?" for char in str(path))


def look(path: Path) -> Identity | Refusal:
    """What the path names now, through any links."""
    try:
        status = path.stat()
    except OSError as error:
        return refusal(path, error)
    except ValueError:
        return Refusal(f"{shown(path)} is not a path (it holds a NUL byte)")
    return refusal_of_kind(path, status.st_mode) or Identity.of(status)


def refusal(path: Path, error: OSError) -> Refusal:
    """The sentence for an error of stat, open or read."""
    name = shown(path)
    if isinstance(error, FileNotFoundError):
        return _absence(path)
    if isinstance(error, PermissionError):
        return Refusal(f"{name} cannot be read: permission denied; run as a user that may read it (`namei -l {name}`)")
    if error.errno == errno.ELOOP:
        return Refusal(f"{name} is a link that leads back to itself")
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return Refusal(f"{name} cannot be opened: too many open files; raise `ulimit -n`")
    text = os.strerror(error.errno) if error.errno is not None else shown(str(error))
    return Refusal(f"{name} cannot be read: {text}")


def _absence(path: Path) -> Refusal:
    name = shown(path)
    with suppress(OSError):
        if path.is_symlink():
            target = shown(os.path.realpath(path))
            return Refusal(f"{name} is a link to {target}, which does not exist (yet)", waiting=True)
        if not path.parent.exists():
            return Refusal(f"{name} does not exist: there is no directory {shown(path.parent)} (yet)", waiting=True)
    return Refusal(f"{name} does not exist (yet); is SGLang's output redirected to this path?", waiting=True)


def refusal_of_kind(path: Path, mode: int) -> Refusal | None:
    """The sentence for something that is not a regular file."""
    name = shown(path)
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return Refusal(f"{name} is a directory; name the log file in it")
    if stat.S_ISFIFO(mode):
        return Refusal(f"{name} is a pipe; hand it over as standard input (`--log - < {name}`)")
    return Refusal(f"{name} is not a regular file; hand it over as standard input (`--log - < {name}`)")


def refusal_of_content(path: Path, start: bytes) -> Refusal | None:
    """The sentence for a compressed file, told by its first bytes."""
    name = shown(path)
    for magic, kind in MAGICS:
        if start.startswith(magic):
            return Refusal(f"{name} is compressed ({kind}) and will not grow; use `ddwatch replay {name}`")
    return None
