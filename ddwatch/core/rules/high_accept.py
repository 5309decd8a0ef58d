"""High accept: near the block size for long, which is what a repetition loop looks like."""

from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import verdict_of
from ddwatch.core.snapshot import Verdict

NEXT_STEPS = ("look at the output of the running requests for repetition; set a repetition penalty or a length limit",)


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires."""
    return verdict_of(situation, "high-accept", "notice", NEXT_STEPS)
