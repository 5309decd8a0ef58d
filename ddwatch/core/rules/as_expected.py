"""As expected: the step takes what this batch and context should cost, or less."""

from ddwatch.core.rules import down
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict

ACCUSES = ("stalled", "starved", "slow-step")
"""While one of these fires, an old comparison must not stand beside it and contradict it."""


def judge(situation: Situation) -> Verdict | None:
    """Holds where the model may judge and no rule before it accuses; being faster is never held against a service."""
    judged = situation.judged
    expected, ratio = judged.expected, judged.ratio
    if expected is None or not situation.judgeable:
        return None
    if any(one.name in ACCUSES and one.phase == "firing" for one in situation.suspicions):
        return None
    if down.judge(situation) is not None:
        return None
    evidence: dict[str, float | int | str | None] = {
        "expected_tokens_per_second": expected.tokens_per_second,
        "ratio": ratio,
        "profile": expected.profile,
    }
    if ratio is None:
        sentence = "as expected so far; the newest sample is mixed and not compared"
    else:
        sentence = f"the step takes what this batch and context should cost (ratio {ratio:.2f})"
    return Verdict(name="as-expected", severity="ok", since=situation.at, sentence=sentence, evidence=evidence)
