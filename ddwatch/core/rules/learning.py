"""Learning: what is measured is shown, but there is no model here to judge it by."""

from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict


def judge(situation: Situation) -> Verdict | None:
    """Holds whenever nothing else does: no model of this service is loaded."""
    window = situation.window
    if situation.decode_at is None:
        sentence = "no decode line yet; prefill is running"
    elif window.clean_ratio is None:
        sentence = "no model of this service yet: measured values only"
    else:
        sentence = f"no model of this service yet: measured values only ({window.clean} clean samples in 5 min)"
    return Verdict(
        name="learning",
        severity="unknown",
        since=situation.started_at,
        sentence=sentence,
        evidence={"clean": window.clean, "samples": window.samples},
    )
