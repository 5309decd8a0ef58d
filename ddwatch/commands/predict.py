"""`ddwatch predict`: tokens per second for a context, or seconds for a request, as the profile expects them."""

import argparse
import math
import sys
from typing import Any

import msgspec

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expectation.predict import AcceptChoice, Prediction, choose_accept, predict
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import duration, milliseconds, rate, readable, short
from ddwatch.profiles.shelf import Shelf

SCHEMA = "ddwatch.predict/1"
MOST_TOKENS = 100_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--context", type=tokens, metavar="N", help="tokens of one request (its prompt with --output)")
    parser.add_argument("--output", type=tokens, metavar="N", help="completion tokens: predicts a whole request")
    parser.add_argument("--accept", type=positive, metavar="A", help="accept length, tokens per step")
    parser.add_argument(
        "--class", dest="text_class", metavar="C", help="text class of the profile, in place of --accept"
    )
    parser.add_argument("--batch", type=tokens, default=1, metavar="B", help="running requests, all alike (default: 1)")
    parser.add_argument("--profile", metavar="P", help="name or file (default: your newest, else the built-in one)")
    parser.add_argument("--sweep", action="store_true", help="a table over contexts")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def tokens(text: str) -> int:
    """A whole number of at least 1, perhaps with k or M behind; raises ArgumentTypeError on anything else."""
    scale = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        value = float(text[:-1] if scale > 1 else text) * scale
    except ValueError:
        value = math.nan
    if not 1 <= value <= MOST_TOKENS or value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_TOKENS}")
    return int(value)


def positive(text: str) -> float:
    """A finite number above zero; raises ArgumentTypeError on anything else."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Prints the prediction; raises CommandFailed when there is no such profile or class."""
    if arguments.context is None and not arguments.sweep:
        raise CommandFailed("ddwatch predict: --context N is needed, or --sweep for a table", Exit.USAGE)
    if arguments.accept is not None and arguments.text_class is not None:
        raise CommandFailed("ddwatch predict: --accept and --class exclude each other", Exit.USAGE)
    profile = Shelf().load(arguments.profile)
    limit, end = profile.context_limit(), (arguments.context or 0) + (arguments.output or 0)
    if limit is not None and end > limit:
        raise CommandFailed(f"ddwatch predict: {end} tokens are beyond the model's limit of {limit}", Exit.USAGE)
    accept = choose_accept(profile, accept=arguments.accept, text_class=arguments.text_class)
    if accept is None:
        raise CommandFailed(_no_accept(profile, arguments.text_class), Exit.USAGE)
    one = (
        predict(profile, context=arguments.context, output=arguments.output, batch=arguments.batch, accept=accept)
        if arguments.context is not None
        else None
    )
    rows = sweep(profile, arguments.output, arguments.batch, accept) if arguments.sweep else []
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(document(profile, one, rows)).decode() + "\n")
        return Exit.OK
    lines = _lines(profile, one, accept) if one is not None else [_conditions(rows[0], accept), _origin(profile)]
    if rows:
        lines += ["", *_table(rows)]
    sys.stdout.write(readable("\n".join(lines) + "\n", sys.stdout.encoding))
    return Exit.OK


def _no_accept(profile: Profile, text_class: str | None) -> str:
    known = ", ".join(curve.text_class for curve in profile.accept)
    if text_class is None:
        return f"ddwatch predict: profile {profile.name} knows no accept length: add --accept A"
    if not known:
        return f"ddwatch predict: profile {profile.name} knows no text class: use --accept A"
    return f"ddwatch predict: profile {profile.name} has no class {text_class!r}; it has {known}"


def sweep(profile: Profile, output: int | None, batch: int, accept: AcceptChoice) -> list[Prediction]:
    """Predictions over doubling contexts, to one octave beyond the evidence."""
    totals = [region.total_context[1] for region in profile.evidence.regions] or [131_072.0]
    most = 2.0 * max(totals) / batch
    longest = min(profile.context_limit() or MOST_TOKENS, MOST_TOKENS) - (output or 0)
    contexts = [64]
    while contexts[-1] * 2 <= min(most, longest):
        contexts.append(contexts[-1] * 2)
    return [predict(profile, context=context, output=output, batch=batch, accept=accept) for context in contexts]


def _row(prediction: Prediction) -> dict[str, Any]:
    return {
        "context_tokens": prediction.context_tokens,
        "output_tokens": prediction.output_tokens,
        "batch": prediction.batch,
        "accept_length": prediction.accept_length,
        "step_seconds": prediction.step_seconds,
        "extrapolated": prediction.extrapolated,
        "expected": {
            "tokens_per_second": prediction.tokens_per_second,
            "low": prediction.low,
            "high": prediction.high,
        },
    }


def document(profile: Profile, one: Prediction | None, rows: list[Prediction]) -> dict[str, Any]:
    """The JSON document; `sweep` is there only when a table was asked for."""
    found: dict[str, Any] = {"schema": SCHEMA, "profile": profile.name}
    if one is not None:
        found.update(_row(one))
    if rows:
        found["sweep"] = [_row(row) for row in rows]
    return found


def _origin(profile: Profile) -> str:
    """Where the figures are from."""
    return f"profile {profile.name}{'' if profile.calibrated else ', not calibrated'}"


def _conditions(prediction: Prediction, accept: AcceptChoice) -> str:
    """What the figures hold for, and who said which accept length."""
    origin = "" if accept.origin == "given" else f" ({accept.origin})"
    return f"batch {prediction.batch} · accept length {prediction.accept_length:.3g}{origin}"


def _lines(profile: Profile, one: Prediction, accept: AcceptChoice) -> list[str]:
    band = f"({rate(one.low)} … {rate(one.high)})"
    if one.output_tokens is None:
        whole = (
            f" for all {one.batch} together, {rate(one.tokens_per_second / one.batch)} each" if one.batch > 1 else ""
        )
        head = f"{rate(one.tokens_per_second)} tok/s {band}{whole}"
        where = f"at {short(one.context_tokens)} tokens of context · step {milliseconds(one.step_seconds)} ms"
    else:
        seconds = one.seconds if one.seconds is not None else one.output_tokens / one.tokens_per_second
        each = " for each request" if one.batch > 1 else ""
        head = f"{duration(seconds)} · {rate(one.tokens_per_second)} tok/s {band}{each}"
        prefill = f"{duration(one.prefill_seconds)} of it prefill" if one.prefill_seconds else "prefill not included"
        where = (
            f"{short(one.output_tokens)} tokens after a prompt of {short(one.context_tokens)} · "
            f"mean step {milliseconds(one.step_seconds)} ms · {prefill}"
        )
    lines = [head, f"  {where}", f"  {_conditions(one, accept)}"]
    if one.extrapolated:
        lines.append(f"  extrapolated: {evidence_words(profile, one.batch)}")
    end = one.context_tokens + (one.output_tokens or 0)
    if not accept.covers(one.context_tokens) or not accept.covers(end):
        lines.append("  accept length taken from the nearest context where it is known")
    return [*lines, f"  {_origin(profile)}"]


def evidence_words(profile: Profile, batch: int) -> str:
    """How far the profile's evidence reaches, at this batch where it was seen at all."""
    regions = profile.evidence.regions
    if not regions:
        return "the profile names no evidence"
    first = min(region.batch[0] for region in regions)
    last = max(region.batch[1] for region in regions)
    batches = f"batch {first}" if first == last else f"batches {first} to {last}"
    here = [region for region in regions if region.batch[0] <= batch <= region.batch[1]]
    low = min(region.total_context[0] for region in here or regions)
    high = max(region.total_context[1] for region in here or regions)
    where = f"at batch {batch} the evidence is" if here else f"the evidence is {batches},"
    return f"{where} {short(low)} to {short(high)} tokens in total"


def _table(rows: list[Prediction]) -> list[str]:
    timed = rows[0].output_tokens is not None
    lines = [
        f"{'context':>8}  {'step ms':>8}  {'tok/s':>7}  {'low':>7}  {'high':>7}" + ("      seconds" if timed else "")
    ]
    for row in rows:
        line = (
            f"{short(row.context_tokens):>8}  {milliseconds(row.step_seconds):>8}  {rate(row.tokens_per_second):>7}  "
            f"{rate(row.low):>7}  {rate(row.high):>7}"
        )
        if timed:
            line += f"  {duration(row.seconds or 0.0):>11}"
        lines.append(line + ("  extrapolated" if row.extrapolated else ""))
    return lines
