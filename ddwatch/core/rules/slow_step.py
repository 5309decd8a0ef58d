"""Slow step: the step takes longer than this batch and context should cost: the machine or the software."""

from ddwatch.core.causes import causes
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import verdict_of
from ddwatch.core.snapshot import Verdict


def judge(situation: Situation) -> Verdict | None:
    """Holds while the step detector fires; names what began with it."""
    since = next((one.since for one in situation.suspicions if one.name == "slow-step"), None)
    if since is None:
        return None
    ranked = causes(since, situation.facts)
    steps = tuple(dict.fromkeys(cause.next_step for cause in ranked))
    return verdict_of(situation, "slow-step", "page", steps, "; ".join(cause.text for cause in ranked))
