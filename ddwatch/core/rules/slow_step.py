"""Slow step: the step takes longer than this batch and context should cost: the machine or the software."""

from ddwatch.core.causes import causes, words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of, verdict_of
from ddwatch.core.snapshot import Verdict


def judge(situation: Situation) -> Verdict | None:
    """Holds while the step detector fires; names what began with it."""
    suspicion = suspicion_of(situation, "slow-step")
    if suspicion is None:
        return None
    cause, steps = words(causes(suspicion.since, situation.facts, suspicion.evidence))
    return verdict_of(situation, "slow-step", "page", steps, cause)
