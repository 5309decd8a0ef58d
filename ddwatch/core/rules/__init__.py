"""Now and lately to verdicts: one file per rule, in order of precedence; the first that holds is the verdict."""

from collections.abc import Callable

from ddwatch.core.rules import (
    as_expected,
    blind,
    down,
    high_accept,
    idle,
    learning,
    low_accept,
    restarts,
    retractions,
    slow_step,
    stalled,
    starved,
    warming,
)
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Note, Verdict

RULES: tuple[Callable[[Situation], Verdict | None], ...] = (
    down.judge,
    stalled.judge,
    starved.judge,
    blind.judge,
    warming.judge,
    idle.judge,
    learning.judge,
    slow_step.judge,
    low_accept.judge,
    high_accept.judge,
    as_expected.judge,
)

ALARMS: tuple[Callable[[Situation], Note | None], ...] = (restarts.judge, retractions.judge)
"""What may be wrong whatever the verdict is."""


def verdicts(situation: Situation) -> tuple[Verdict, ...]:
    """All verdicts that hold, in order of precedence; never empty: without anything to judge by it is `learning`."""
    return tuple(verdict for rule in RULES if (verdict := rule(situation)) is not None)


def alarms(situation: Situation) -> tuple[Note, ...]:
    """What is wrong and is no verdict."""
    return tuple(note for rule in ALARMS if (note := rule(situation)) is not None)
