"""Down: SGLang's port answered once, refuses now, and its log is silent: the process is gone."""

from ddwatch.core.causes import ended_by
from ddwatch.core.durations import in_words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict

SILENCE_SECONDS = 2.0
"""A refusing port is believed once the log has been silent for this long as well ..."""
SILENCE_MULTIPLE = 2.0
"""... and for this many usual distances between its lines."""
PLANNED = ("starting", "stopped")
"""While the log itself tells of a stop or a start, the closed port is part of that."""


def judge(situation: Situation) -> Verdict | None:
    """Holds only where the port is known: from a log alone silence is blind."""
    port = next((source for source in situation.sources if source.gone), None)
    if port is None or port.last_at is None or situation.server.state in PLANNED:
        return None
    heard = max(situation.traffic_at or 0.0, port.last_at)
    silent = situation.at - heard
    if silent <= max(SILENCE_SECONDS, SILENCE_MULTIPLE * (situation.cadence or 0.0)):
        return None
    crash = situation.crash_reason
    # What took the card comes before what the engine said of it.
    ended = ended_by(heard, situation.facts)
    known = [*(cause.text for cause in ended), *([f"the engine crashed: {crash}"] if crash is not None else [])]
    return Verdict(
        name="down",
        severity="page",
        since=heard,
        sentence=f"the server is gone: its port refuses, nothing was heard for {in_words(silent)}",
        evidence={"silent_seconds": silent, "crash": crash},
        cause="; ".join(known) or None,
        next_steps=(
            *(cause.next_step for cause in ended),
            "start it again; ddwatch compare shows afterwards what the restart changed",
            "dmesg -T | grep -iE 'xid|oom' tells whether a card or the memory took it",
        ),
    )
