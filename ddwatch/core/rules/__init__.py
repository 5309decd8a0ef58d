"""Now and lately to verdicts: one file per rule, in order of precedence; the first that holds is the verdict."""

from collections.abc import Callable

from ddwatch.core.rules import blind, idle, learning, warming
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict

RULES: tuple[Callable[[Situation], Verdict | None], ...] = (
    blind.judge,
    warming.judge,
    idle.judge,
    learning.judge,
)


def verdicts(situation: Situation) -> tuple[Verdict, ...]:
    """All verdicts that hold, in order of precedence; never empty, since `learning` always holds."""
    return tuple(verdict for rule in RULES if (verdict := rule(situation)) is not None)
