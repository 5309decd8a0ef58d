"""Retractions: the KV pool fills up again and again; once is normal, a storm of them is not."""

from ddwatch.core.durations import in_words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.rules.suspected import suspicion_of
from ddwatch.core.snapshot import Note

NEXT_STEPS = (
    "lower --max-running-requests, or raise --mem-fraction-static: the pool is too small for its requests",
    "raise --schedule-conservativeness: fewer requests are let in at once",
)


def judge(situation: Situation) -> Note | None:
    """Holds while retractions come in a storm."""
    suspicion = suspicion_of(situation, "retractions")
    if suspicion is None:
        return None
    apart = suspicion.evidence["within_seconds"]
    assert isinstance(apart, float)
    return Note(
        name="retractions",
        severity="notice",
        since=suspicion.since,
        sentence=f"the KV pool keeps filling up: {suspicion.evidence['count']} times, less than {in_words(apart)} "
        "apart; each time requests are sent back and computed anew",
        evidence=suspicion.evidence,
        next_steps=NEXT_STEPS,
    )
