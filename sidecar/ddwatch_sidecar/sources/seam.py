"""Judges where one file of a log ends and the next begins: followed without loss, or something may be missing."""

import os
from collections.abc import Set
from pathlib import Path

from ddwatch_sidecar.sources.look import Identity, shown
from ddwatch_sidecar.sources.siblings import COMPRESSED, Beside, Trace

NAMES_SHOWN = 3


def missed(before: os.stat_result | None, around: Beside, known: Set[Trace], held: Set[Identity]) -> list[str]:
    """Names of the files that seem to have been written and rotated away since `before` was opened (None: no file was).

    `known` are the pieces that stood there already, `held` the files that are open. A single writer writes to such a
    file after its last byte to `before`; a piece last written earlier is a copy that somebody made meanwhile.
    """
    return sorted(
        name
        for trace, name in around.pieces.items()
        if trace not in known
        and trace.identity not in held
        and (before is None or trace.modified_ns >= before.st_mtime_ns)
        and not name.endswith(COMPRESSED)
    )


def compressed(around: Beside, known: Set[Trace]) -> bool:
    """Whether exactly one compressed piece is new: the file itself, compressed right after its rotation."""
    return sum(name.endswith(COMPRESSED) for trace, name in around.pieces.items() if trace not in known) == 1


def list_names(names: list[str]) -> str:
    """A few names for a sentence."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(map(shown, names[:NAMES_SHOWN])) + (f" and {more} more" if more > 0 else "")


def loss(
    path: Path, before: os.stat_result | None, around: Beside, known: Set[Trace], held: Set[Identity], *, recent: bool
) -> tuple[str, bool] | None:
    """None for a rotation without loss; else one sentence, and whether the older file was deleted.

    `recent` says that the last look was so short ago that a second rotation since then is not credible.
    """
    name = shown(path.name)
    between = missed(before, around, known, held)
    if between:
        return f"{name} was rotated unseen since the last look: {list_names(between)} not read", False
    if before is None:
        return None
    if before.st_nlink == 0:
        if compressed(around, known):
            return None
        return f"{name} was deleted and created anew; lines of a file in between, if there was one, are missing", True
    if before.st_ino not in around.inodes and not recent:
        return (
            f"{name} was rotated into another directory while nobody looked; a file in between would be missing",
            False,
        )
    return None
