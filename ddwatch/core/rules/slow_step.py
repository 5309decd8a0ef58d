"""Slow step: the step takes longer than this batch and context should cost: the machine or the software."""

from msgspec.structs import replace

from ddwatch.core.causes import causes, words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of, verdict_of
from ddwatch.core.snapshot import Verdict

FEWEST_WINDOWS = 10
"""Windows of the last minutes below which a share of them says nothing."""


def judge(situation: Situation) -> Verdict | None:
    """Holds while the step detector fires; names what began with it."""
    suspicion = suspicion_of(situation, "slow-step")
    if suspicion is None:
        return None
    window, facts = situation.window, situation.facts
    if window.samples >= FEWEST_WINDOWS:
        facts = replace(facts, prefill_share=window.flag_counts.get("prefill", 0) / window.samples)
    cause, steps = words(causes(suspicion.since, facts, suspicion.evidence))
    return verdict_of(situation, "slow-step", "page", steps, cause)
