"""The files beside a followed log, to notice a whole file that came and went between two looks."""

import os
import re
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ddwatch_sidecar.sources.look import Identity

MOST_ENTRIES = 10_000
"""Directory entries that are looked at; a rotation scheme keeps far fewer."""

COMPRESSED = (".gz", ".zst", ".xz", ".bz2")

_NUMBER = re.compile(r"\d+")


class Trace(Struct, frozen=True):
    """One file as it was last seen; inodes are reused, so the time of its last write belongs to it."""

    identity: Identity
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Trace":
        """The trace in the answer of stat."""
        return cls(Identity.of(status), status.st_mtime_ns)


class Beside(Struct, frozen=True):
    """What a look at the directory found."""

    pieces: dict[Trace, str]
    """Non-empty files that may be pieces of the same log, with their names."""
    inodes: frozenset[int]
    """All inodes in the directory."""


def is_piece(name: str, log: str) -> bool:
    """Whether `name` looks like another piece of `log`: `x.log.1`, `x.log-20260501`, `x-2.log`, `1.log` for `0.log`."""
    if name == log:
        return False
    if name.startswith(log):
        return True
    stem, suffix = Path(log).stem, Path(log).suffix
    numbered = name.startswith((f"{stem}.", f"{stem}-", f"{stem}_")) and name.endswith(suffix)
    return (numbered and bool(_NUMBER.search(name[len(stem) :]))) or _NUMBER.sub("#", name) == _NUMBER.sub("#", log)


def beside(log: Path) -> Beside:
    """The pieces beside the real path of a log; a directory that cannot be listed has none to show."""
    pieces: dict[Trace, str] = {}
    inodes: set[int] = set()
    try:
        with os.scandir(log.parent) as entries:
            for entry in islice(entries, MOST_ENTRIES):
                inodes.add(entry.inode())
                if is_piece(entry.name, log.name) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_size:
                        pieces[Trace.of(status)] = entry.name
    except OSError:
        # The directory may be entered but not listed, or a file vanished: what was found so far counts.
        return Beside(pieces, frozenset(inodes))
    return Beside(pieces, frozenset(inodes))
