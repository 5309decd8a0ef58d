"""Starved: prefill flows, and running requests get no decode step for longer than the limit."""

from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import verdict_of
from ddwatch.core.snapshot import Verdict

NEXT_STEPS = (
    "lower --chunked-prefill-size, or turn on --enable-mixed-chunk",
    "a long prompt is being read: see the queue and the prefill lines",
)


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires."""
    return verdict_of(situation, "starved", "notice", NEXT_STEPS)
