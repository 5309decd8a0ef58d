"""What a check finds, one line each, and the verdict over all of them."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ddwatch.core.exits import VERDICT_EXITS, Exit
from ddwatch.core.snapshot import VerdictName

Status = Literal["pass", "warn", "fail", "unknown"]
CheckVerdict = VerdictName | Literal["parser-broken"]


class Finding(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    status: Status
    measured: str | None = None
    expected: str | None = None
    detail: str
    """One sentence or less."""
    fix: str | None = None
    """What to do, where something can be done."""
    verdict: CheckVerdict | None = None
    """What it means for the whole, where it is not well."""


ORDER: tuple[CheckVerdict, ...] = (
    "down",
    "stalled",
    "starved",
    "blind",
    "warming",
    "slow-step",
    "parser-broken",
    "low-accept",
    "high-accept",
    "learning",
)
"""Which verdict speaks for the whole, the first that was found."""


class Conclusion(Struct, frozen=True, kw_only=True):
    """The whole check."""

    verdict: CheckVerdict
    sentence: str
    code: Exit


def exit_of(verdict: CheckVerdict) -> Exit:
    """DESIGN.md section 6; a parser that does not do its work is worth a look and pages nobody."""
    return Exit.NOTICE if verdict == "parser-broken" else VERDICT_EXITS[verdict]


SENTENCES: dict[CheckVerdict, str] = {
    "as-expected": "the server is up, generates, and is as fast as it should be",
    "down": "the server is down",
    "stalled": "the server accepts requests and generates nothing",
    "warming": "the server generates, and its rate has not settled yet",
    "blind": "the server could not be judged",
    "learning": "the server is up and generates; there is no profile that says how fast it should be",
    "slow-step": "the server is up and generates, but its steps take longer than they should",
    "parser-broken": "the server is up and as fast as it should be, but a parser does not do its work",
    "low-accept": "the server's steps are as fast as they should be, but commit few tokens",
    "high-accept": "the server's steps commit suspiciously many tokens: repetition?",
    "starved": "requests run and only prefill moves",
    "idle": "nothing runs",
}


def conclude(findings: Sequence[Finding]) -> Conclusion:
    """The verdict, with the first finding that led to it in the sentence.

    What was found wrong is never hidden by what is unknown, and what lies outside the evidence does not matter where
    something inside it was judged.
    """
    found = [one.verdict for one in findings if one.verdict is not None]
    if any(one.name.startswith("decode") and one.status == "pass" for one in findings):
        found = [verdict for verdict in found if verdict != "learning"]
    by_weight = {
        code: [verdict for verdict in ORDER if verdict in found and exit_of(verdict) == code]
        for code in (Exit.PAGE, Exit.NOTICE, Exit.UNJUDGED)
    }
    verdict: CheckVerdict = next((verdicts[0] for verdicts in by_weight.values() if verdicts), "as-expected")
    sentence = SENTENCES[verdict]
    reason = next((one.detail for one in findings if one.verdict == verdict), None)
    if reason is not None and verdict != "learning":
        sentence = f"{sentence}: {reason}"
    elif verdict == "as-expected" and any(one.status == "warn" for one in findings):
        named = ", ".join(one.name for one in findings if one.status == "warn")
        sentence = f"{sentence}; worth a look: {named}"
    return Conclusion(verdict=verdict, sentence=sentence, code=exit_of(verdict))
