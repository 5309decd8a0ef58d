"""`ddwatch explain "3239/2750 tok 32.2 t/s"`: is this speed as expected, and what separates it from memory."""

import argparse
import sys
from typing import Any

import msgspec

from ddwatch.commands.predict import evidence_words, positive, tokens
from ddwatch.core.exits import VERDICT_EXITS, CommandFailed, Exit
from ddwatch.core.expectation.explain import Explanation, Incomplete, explain
from ddwatch.core.expectation.pasted import LONGEST, Understood, understand
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import factor, milliseconds, range_of, rate, readable, short
from ddwatch.profiles.shelf import Shelf

SCHEMA = "ddwatch.explain/1"
WORDS = {
    "as-expected": "as expected",
    "slow-step": "SLOW STEP",
    "low-accept": "low accept length",
    "learning": "cannot judge",
}
SIGN = {"as-expected": "✓", "slow-step": "✗", "low-accept": "!", "learning": "?"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "text",
        nargs="+",
        metavar="TEXT",
        help='what was seen, as it was pasted: "3239/2750 tok 32.2 t/s", "32 tok/s at 6k ctx", a decode line, '
        "usage JSON, a bench_serving result; - reads stdin",
    )
    parser.add_argument("--accept", type=positive, metavar="A", help="accept length, tokens per step")
    parser.add_argument("--context", type=tokens, metavar="N", help="tokens of one request")
    parser.add_argument("--batch", type=tokens, metavar="B", help="running requests")
    parser.add_argument("--profile", metavar="P", help="name or file (default: your newest, else the built-in one)")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation and returns the verdict's exit code.

    Raises CommandFailed with what was understood and what was not when the text is not enough.
    """
    said = understand(_pasted(arguments.text))
    profile = Shelf().load(arguments.profile)
    found = explain(profile, said, accept=arguments.accept, context=arguments.context, batch=arguments.batch)
    if isinstance(found, Incomplete):
        raise CommandFailed(f"ddwatch explain: {said.sentence()}; missing: {found.missing}", Exit.INPUT)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(document(profile, said, found)).decode() + "\n")
    else:
        sys.stdout.write(readable("\n".join(lines(profile, said, found)) + "\n", sys.stdout.encoding))
    return VERDICT_EXITS[found.verdict]


def _pasted(words: list[str]) -> str:
    if words != ["-"]:
        return " ".join(words)
    data = sys.stdin.buffer.read(4 * LONGEST)
    text = data.decode("utf-8", "replace")
    if not text.strip():
        raise CommandFailed("ddwatch explain: nothing came in on standard input", Exit.INPUT)
    return text


def document(profile: Profile, said: Understood, found: Explanation) -> dict[str, Any]:
    """The JSON document of DESIGN.md section 7."""
    load = found.load
    reference = found.reference
    return {
        "schema": SCHEMA,
        "profile": profile.name,
        "understood": {
            "kind": said.kind,
            "scope": load.scope,
            "prompt_tokens": said.prompt_tokens,
            "completion_tokens": said.completion_tokens,
            "context_tokens": [load.begin_context, load.end_context],
            "tokens_per_second": said.tokens_per_second,
            "seconds": said.seconds,
            "accept_length": load.accept_length,
            "batch": load.batch,
            "assumed": list(found.assumed),
            "not_understood": list(said.missed),
        },
        "measured": {"tokens_per_second": found.measured},
        "expected": {"tokens_per_second": found.expected, "low": found.low, "high": found.high},
        "ratio": found.ratio,
        "verdict": found.verdict,
        "implied_accept_length": found.implied_accept_length,
        "reference": None
        if reference is None
        else {
            "label": reference.label,
            "context_tokens": reference.context,
            "batch": reference.batch,
            "accept_length": reference.accept,
            "tokens_per_second": reference.tokens_per_second,
            "inferred": reference.inferred,
        },
        "factors": msgspec.to_builtins(found.factors),
        "what_if": msgspec.to_builtins(found.what_if),
    }


def lines(profile: Profile, said: Understood, found: Explanation) -> list[str]:
    """The explanation for a terminal of 80 columns."""
    head = f"{SIGN[found.verdict]} {WORDS[found.verdict]}"
    figures = f"{rate(found.measured)} tok/s   expected {rate(found.expected)} ({rate(found.low)} … {rate(found.high)})"
    return [
        f"{head}   {figures}   ratio {found.ratio:.2f}",
        f"  {found.reason}",
        "",
        *_understood(said, found),
        *_factors(profile, found),
        *_implied(profile, found),
        *_what_if(found),
        *_footer(profile, found),
    ]


def _row(title: str, text: str) -> str:
    return f"  {title:<13} {text}"


def _understood(said: Understood, found: Explanation) -> list[str]:
    load = found.load
    parts = []
    if said.prompt_tokens is not None and said.completion_tokens is not None:
        parts.append(f"prompt {said.prompt_tokens}, completion {said.completion_tokens}")
    else:
        parts.append(f"context {range_of(load.begin_context, load.end_context)}")
    parts.append(f"{rate(found.measured)} tok/s")
    if load.accept_length is not None:
        parts.append(f"accept {load.accept_length:g}")
    parts.append(f"batch {load.batch}")
    rows = [_row("understood", ", ".join(parts))]
    rows += [_row("", note) for note in found.assumed]
    if said.missed:
        rows.append(_row("not read", ", ".join(said.missed)))
    return [*rows, ""]


def _factors(profile: Profile, found: Explanation) -> list[str]:
    reference, factors, load = found.reference, found.factors, found.load
    if reference is None:
        return [_row("reference", "none in this profile: nothing to compare with"), ""]
    share = reference.tokens_per_second / (reference.batch if load.scope == "request" else 1)
    inferred = ", inferred" if reference.inferred else ""
    then = profile.step_time.seconds(reference.batch, reference.batch * reference.context)
    contexts = range_of(load.begin_context, load.end_context)
    batch = f"{load.batch}, as then" if load.batch == reference.batch else f"{load.batch}, was {reference.batch}"
    rows = [
        _row("from", f"{rate(share):>6}  {reference.label}{inferred}"),
        _row(
            "accept length",
            f"{factor(factors.accept_length):>6}  {load.accept_length:g}, was {reference.accept:.3g}"
            if load.accept_length is not None
            else f"{'–':>6}  not given: part of unexplained",
        ),
        _row(
            "context",
            f"{factor(factors.context):>6}  {contexts} tokens, was {short(reference.context)}"
            f" · step {milliseconds(found.step_seconds)} ms, was {milliseconds(then)}",
        ),
        _row("batch", f"{factor(factors.batch):>6}  {batch}"),
    ]
    if factors.idle is not None:
        rows.append(_row("idle, prefill", f"{factor(factors.idle):>6}  the share of the time that decodes"))
    rows.append(_row("unexplained", f"{factor(factors.unexplained):>6}"))
    rows.append(_row("to", f"{rate(found.measured):>6}  tok/s"))
    return [*rows, ""]


def _implied(profile: Profile, found: Explanation) -> list[str]:
    text = f"{found.implied_accept_length:.3g} tokens per step would make it exactly as expected"
    curve = profile.accept_curve(found.typical_of) if found.typical_of is not None else None
    if curve is None:
        unusual = "typical of no text that the profile knows" if profile.classes() else None
        return [_row("accept", text), *([_row("", unusual)] if unusual else [])]
    middle = (found.load.begin_context + found.load.end_context) / 2.0
    return [_row("accept", text), _row("", f"typical of {found.typical_of} text ({curve.at(middle).p50:.3g})")]


def _what_if(found: Explanation) -> list[str]:
    width = max((len(what.change) for what in found.what_if), default=0)
    return [
        _row("what if" if index == 0 else "", f"{what.change:<{width}}  {rate(what.tokens_per_second):>6} tok/s")
        for index, what in enumerate(found.what_if)
    ]


def _footer(profile: Profile, found: Explanation) -> list[str]:
    calibrated = "" if profile.calibrated else ", not calibrated: never accuses"
    rows = ["", _row("profile", f"{profile.name}{calibrated}")]
    if found.extrapolated:
        rows.append(_row("", evidence_words(profile, found.load.batch)))
    return rows
