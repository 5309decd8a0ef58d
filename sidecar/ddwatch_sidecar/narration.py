"""What the sidecar says to its operator: single plain sentences on stderr."""

import sys

LONGEST = 500


def narrate(sentence: str) -> None:
    """Writes one line; control characters are dropped, and a terminal that is gone is no reason to end."""
    text = "".join(mark for mark in sentence if mark.isprintable())[:LONGEST]
    try:
        sys.stderr.write(f"ddwatch-sidecar: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
