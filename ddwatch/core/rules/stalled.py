"""Stalled: requests run and nothing moves."""

from ddwatch.core.causes import ended_by, words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of, verdict_of
from ddwatch.core.snapshot import Verdict

NEXT_STEPS = (
    "py-spy dump --pid PID of the scheduler shows where it waits",
    "nvidia-smi shows whether kernels spin (100 % busy proves nothing)",
)


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires."""
    suspicion = suspicion_of(situation, "stalled")
    if suspicion is None:
        return None
    cause, steps = words(ended_by(suspicion.since, situation.facts))
    return verdict_of(situation, "stalled", "page", (*steps, *NEXT_STEPS), cause)
