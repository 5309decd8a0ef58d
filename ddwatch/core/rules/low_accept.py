"""Low accept: the drafter hardly contributes, or less than any text that was learned."""

from ddwatch.core.causes import accept_causes, words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of, verdict_of
from ddwatch.core.snapshot import Verdict

NEXT_STEPS = (
    "is it the text (another class), a prefix-cache hit, or the draft model? ddwatch explain tells what is typical",
    "check the drafter's start-up lines: backend fallback, block size mismatch",
)


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires; names what began with it, where something did."""
    suspicion = suspicion_of(situation, "low-accept")
    if suspicion is None:
        return None
    cause, steps = words(accept_causes(suspicion.since, situation.facts, suspicion.evidence))
    return verdict_of(situation, "low-accept", "notice", tuple(dict.fromkeys((*steps, *NEXT_STEPS))), cause)
