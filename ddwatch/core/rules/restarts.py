"""Restarts: the server starts again and again; one restart is somebody's wish, a row of them is not."""

from ddwatch.core.durations import in_words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of
from ddwatch.core.snapshot import Note

NEXT_STEPS = (
    "read the log before each start: a crash, the kernel's memory killer (dmesg -T), or a supervisor's time limit",
    "ddwatch compare LOG tells what each restart changed",
)


def judge(situation: Situation) -> Note | None:
    """Holds while restarts follow one another."""
    suspicion = suspicion_of(situation, "restarts")
    if suspicion is None:
        return None
    apart = suspicion.evidence["within_seconds"]
    assert isinstance(apart, float)
    return Note(
        name="restarts",
        severity="notice",
        since=suspicion.since,
        sentence=f"the server keeps restarting: {suspicion.evidence['count']} times, less than {in_words(apart)} apart",
        evidence=suspicion.evidence,
        next_steps=NEXT_STEPS,
    )
