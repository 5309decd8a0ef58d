"""One verdict over all findings: what is wrong speaks first, what is unknown last."""

import pytest

from ddwatch.core.exits import Exit
from ddwatch.probes.findings import ORDER, SENTENCES, CheckVerdict, Finding, Status, conclude, exit_of


def finding(name: str, status: Status, verdict: CheckVerdict | None = None) -> Finding:
    return Finding(name=name, status=status, detail=f"detail of {name}", verdict=verdict)


@pytest.mark.parametrize(
    ("verdicts", "speaks", "code"),
    [
        ([], "as-expected", Exit.OK),
        (["learning"], "learning", Exit.UNJUDGED),
        (["blind", "low-accept"], "low-accept", Exit.NOTICE),
        (["warming", "learning"], "warming", Exit.UNJUDGED),
        (["parser-broken", "slow-step", "blind"], "slow-step", Exit.PAGE),
        (["slow-step", "down"], "down", Exit.PAGE),
    ],
)
def test_what_is_wrong_speaks_before_what_is_unknown(
    verdicts: list[CheckVerdict], speaks: CheckVerdict, code: Exit
) -> None:
    found = conclude([finding(verdict, "unknown", verdict) for verdict in verdicts])
    assert (found.verdict, found.code) == (speaks, code)
    if verdicts and speaks != "learning":
        assert f"detail of {speaks}" in found.sentence


def test_one_judged_speed_is_enough_to_judge() -> None:
    judged, outside = finding("decode at 268", "pass"), finding("decode at 2.06k", "unknown", "learning")
    assert conclude([judged, outside]).code == Exit.OK
    assert conclude([outside]).code == Exit.UNJUDGED


def test_warnings_are_named() -> None:
    assert conclude([finding("profile", "warn")]).sentence.endswith("worth a look: profile")


def test_every_verdict_has_its_sentence_and_its_exit() -> None:
    for verdict in ORDER:
        assert SENTENCES[verdict]
        assert exit_of(verdict) != Exit.OK
