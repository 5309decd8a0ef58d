"""Down: the process is gone: its port refuses, its container stopped, or the host has it no more; the log is silent."""

from collections.abc import Mapping

from ddwatch.core.causes import ended_by
from ddwatch.core.detection.suspicion import Scalar
from ddwatch.core.durations import in_words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of
from ddwatch.core.snapshot import Verdict

SILENCE_SECONDS = 2.0
"""A refusing port is believed once the log has been silent for this long as well ..."""
SILENCE_MULTIPLE = 2.0
"""... and for this many usual distances between its lines."""
PLANNED = ("starting", "stopped")
"""While the log itself tells of a stop or a start, the closed port is part of that."""


def judge(situation: Situation) -> Verdict | None:
    """Holds only where the port or the process is known: from a log alone silence is blind."""
    if situation.server.state in PLANNED:
        return None
    return _refused(situation) or _ended(situation)


def _refused(situation: Situation) -> Verdict | None:
    source = next((source for source in situation.sources if source.gone), None)
    if source is None or source.last_at is None:
        return None
    heard = max(situation.traffic_at or 0.0, source.last_at)
    silent = situation.at - heard
    evidence: dict[str, Scalar] = {"silent_seconds": silent}
    if source.lines:
        # A port has no lines: this is a container or a unit, of which its source says how it ended before what helps.
        return _down(situation, heard, source.detail.partition(": ")[0], evidence)
    if silent <= max(SILENCE_SECONDS, SILENCE_MULTIPLE * (situation.cadence or 0.0)):
        return None
    return _down(situation, heard, f"its port refuses, nothing was heard for {in_words(silent)}", evidence)


def _ended(situation: Situation) -> Verdict | None:
    suspicion = suspicion_of(situation, "gone")
    if suspicion is None:
        return None
    pid = suspicion.evidence["pid"]
    return _down(situation, suspicion.since, f"process {pid} has ended, its log is silent", suspicion.evidence)


def _down(situation: Situation, heard: float, words: str, evidence: Mapping[str, Scalar]) -> Verdict:
    """The verdict; `heard` is when the server was last known to be there."""
    crash = situation.crash_reason
    # What took the card comes before what the engine said of it.
    ended = ended_by(heard, situation.facts)
    known = [*(cause.text for cause in ended), *([f"the engine crashed: {crash}"] if crash is not None else [])]
    return Verdict(
        name="down",
        severity="page",
        since=heard,
        sentence=f"the server is gone: {words}",
        evidence={**evidence, "crash": crash},
        cause="; ".join(known) or None,
        next_steps=(
            *(cause.next_step for cause in ended),
            "start it again; ddwatch compare shows afterwards what the restart changed",
            "dmesg -T | grep -iE 'xid|oom' tells whether a card or the memory took it",
        ),
    )
