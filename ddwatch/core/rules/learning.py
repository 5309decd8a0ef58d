"""Learning: what is measured is shown, but there is no model that may judge it here."""

from ddwatch.core.durations import in_words
from ddwatch.core.rules import high_accept, low_accept
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict

FRESH_SECONDS = 60.0
"""A comparison with the model stands for this long ..."""
SILENT_SECONDS = 15.0
"""... but only for so long without a live decode line: by then idle has been told where the log tells it."""
ACCEPT = ("low-accept", "high-accept")
"""What the accept length alone tells, without any model of the step."""


def _reason(situation: Situation) -> str | None:
    judged = situation.judged
    if situation.decode_at is None:
        return "no decode line yet" if situation.traffic_at is None else "no decode line yet; prefill is running"
    if judged.expected is None:
        if any(one.name in ACCEPT and one.phase != "resolved" for one in situation.suspicions):
            return "no model here yet, and none is learned while the accept length is suspected"
        return f"no model here yet: {judged.reason}"
    if not situation.judgeable:
        return judged.reason or "this load has only just come within the evidence"
    silent = situation.at - situation.decode_at
    if situation.now.throughput is None and silent > SILENT_SECONDS:
        # The last comparison still stands, but nothing that it could be about.
        return f"no decode line for {in_words(silent)}"
    at = situation.clean_ratio_at
    if at is None or situation.at - at > FRESH_SECONDS:
        flags = ", ".join(situation.now.flags) or "none came"
        return f"no clean sample to compare lately ({flags})"
    profile = judged.profile
    slow = judged.ratio is not None and profile is not None and judged.ratio < profile.band().low
    if slow and profile is not None and not profile.calibrated:
        return f"slower than {profile.name} says, but that is not calibrated and never accuses"
    return None


def judge(situation: Situation) -> Verdict | None:
    """Holds when no model is loaded or learned, or the load lies outside its evidence.

    A broken drafter or a repetition loop is seen without a model of the step, and is said first.
    """
    reason = _reason(situation)
    if reason is None:
        return None
    window = situation.window
    wrong = low_accept.judge(situation) or high_accept.judge(situation)
    return Verdict(
        name="learning",
        severity="unknown",
        since=situation.at,
        sentence=reason if wrong is None else f"{wrong.sentence}; of the step time: {reason}",
        evidence={"clean": window.clean, "samples": window.samples},
        cause=None if wrong is None else wrong.cause,
        next_steps=() if wrong is None else wrong.next_steps,
    )
