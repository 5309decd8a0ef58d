"""Stalled: requests run and nothing moves."""

from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import verdict_of
from ddwatch.core.snapshot import Verdict

NEXT_STEPS = (
    "py-spy dump --pid PID of the scheduler shows where it waits",
    "nvidia-smi shows whether kernels spin (100 % busy proves nothing)",
)


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires."""
    return verdict_of(situation, "stalled", "page", NEXT_STEPS)
