"""Stalled: requests run and nothing moves."""

from ddwatch.core.causes import ended_by, words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of, verdict_of
from ddwatch.core.snapshot import Verdict

SPINNING = "nvidia-smi shows whether kernels spin (100 % busy proves nothing)"


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires."""
    suspicion = suspicion_of(situation, "stalled")
    if suspicion is None:
        return None
    cause, steps = words(ended_by(suspicion.since, situation.facts))
    pid = suspicion.evidence["pid"]
    where = f"py-spy dump --pid {'PID of the scheduler' if pid is None else pid} shows where it waits"
    return verdict_of(situation, "stalled", "page", (*steps, where, SPINNING), cause)
