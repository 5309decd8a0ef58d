"""Waiting for a condition with a deadline, in whole-house tests."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds; a loaded two-core machine starts a process in one or two."""


def until(condition: Callable[[], T], what: str, *, seen: Callable[[], str] = str, patience: float = PATIENCE) -> T:
    """The first true answer; fails with `what` was waited for and what was `seen` instead."""
    deadline = time.monotonic() + patience
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s for {what}\n{seen()}")
        time.sleep(0.02)
    return answer
