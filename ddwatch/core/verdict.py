"""What ddwatch holds of the service at one instant, with the numbers that it was reached by."""

from typing import Literal

from msgspec import Struct

VerdictName = Literal[
    "down",
    "stalled",
    "starved",
    "blind",
    "warming",
    "idle",
    "learning",
    "slow-step",
    "low-accept",
    "high-accept",
    "as-expected",
]
Severity = Literal["page", "notice", "ok", "unknown"]


NoteName = VerdictName | Literal["retractions", "restarts"]
"""What else may be wrong is no verdict: it says nothing about speed, and no exit code stands for it."""


class Note(Struct, frozen=True, kw_only=True):
    """What holds of the service beside the verdict, with the numbers that it was reached by."""

    name: NoteName
    severity: Severity
    since: float
    sentence: str
    """One plain sentence: what and why."""
    evidence: dict[str, float | int | str | None] = {}
    cause: str | None = None
    next_steps: tuple[str, ...] = ()


class Verdict(Note, frozen=True, kw_only=True):
    """What ddwatch holds of the service now, with the numbers that it was reached by."""

    name: VerdictName
