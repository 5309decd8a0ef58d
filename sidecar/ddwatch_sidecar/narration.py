"""What the sidecar says to its operator: single plain sentences on stderr."""

import asyncio
import errno
import sys
from typing import Any

LONGEST = 500

SELDOM_SECONDS = 60.0
"""Connections that cannot be taken are told at most this often."""
SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def narrate(sentence: str) -> None:
    """Writes one line; control characters are dropped, and a terminal that is gone is no reason to end."""
    text = "".join(mark for mark in sentence if mark.isprintable())[:LONGEST]
    try:
        sys.stderr.write(f"ddwatch-sidecar: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


class LoopTrouble:
    """The event loop's handler for what it cannot do: no room for connections is a seldom sentence, no trace."""

    def __init__(self) -> None:
        self._told_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """See `loop.set_exception_handler`; anything else is told as the loop does by default."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in SHORT_OF:
            loop.default_exception_handler(context)
            return
        # The loop tries again at once for each connection that waits.
        if loop.time() - self._told_at >= SELDOM_SECONDS:
            self._told_at = loop.time()
            narrate(f"cannot take connections: {str(error.strerror).lower()}; raise `ulimit -n`, or see who connects")
