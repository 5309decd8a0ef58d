"""Stalled: requests run and nothing moves."""

from ddwatch.core.causes import Cause, ended_by, words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of, verdict_of
from ddwatch.core.snapshot import Verdict

SPINNING = "nvidia-smi shows whether kernels spin (100 % busy proves nothing)"


def judge(situation: Situation) -> Verdict | None:
    """Holds while the detector of this name fires."""
    suspicion = suspicion_of(situation, "stalled")
    if suspicion is None:
        return None
    cause, steps = words([*ended_by(suspicion.since, situation.facts), *_crashed(situation)])
    pid = suspicion.evidence["pid"]
    where = f"py-spy dump --pid {'PID of the scheduler' if pid is None else pid} shows where it waits"
    return verdict_of(situation, "stalled", "page", (*steps, where, SPINNING), cause)


def _crashed(situation: Situation) -> tuple[Cause, ...]:
    """A scheduler may be dead while the process that answers its port lives on."""
    if situation.server.state != "crashed":
        return ()
    text = f"the engine crashed: {situation.crash_reason}"
    return (Cause(text, "start it again: the process that answers its port lives on without an engine"),)
