"""Finds figures with their units in free text, in a pasted decode line, and in a benchmark's summary table.

Every pattern is bounded and free of nested repetition, so reading takes time linear in the text.
"""

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

NUMBER = (
    r"(?<![\w.,])(-?(?:\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,9})?|\d{1,6},\d{1,2}|\d{1,15}(?:\.\d{1,9})?))(?![.,]?\d)"
    r"[ ]?([kKmM](?![a-zA-Z]))?"
)
"""Digits with thousands separators, a decimal comma or a decimal point, whole, and perhaps k or M behind."""
TOKENS = r"(?:tokens?|toks?|tks?|t)\b"
PER_SECOND = r"(?:(?:tokens?|toks?|tks?|t)[ ]?(?:/|per|p)[ ]?(?:seconds?|secs?|s)\b|tps\b)"
IS = r"[\"']?[ ]{0,12}(?:[:=]|is|of|was)?[ ]{0,40}"
MULTIPLES = {"k": 1e3, "m": 1e6}


class Found(Struct, kw_only=True):
    """Figures as they stand in the text, not yet checked."""

    kind: Literal["text", "decode-line", "usage-json", "benchmark"] = "text"
    scope: Literal["request", "service"] = "request"
    rate: float | None = None
    prompt: float | None = None
    completion: float | None = None
    context: float | None = None
    seconds: float | None = None
    prefill_seconds: float | None = None
    accept: float | None = None
    batch: float | None = None
    notes: list[str] = []
    missed: list[str] = []


def number(digits: str, suffix: str | None = None) -> float:
    """The value of a number as people write it: 3,239 or 5.9k or 32,2."""
    whole, comma, rest = digits.rpartition(",")
    plain = f"{whole}.{rest}" if comma and len(rest) < 3 and rest.isdigit() else digits.replace(",", "")
    return float(plain) * MULTIPLES.get((suffix or "").lower(), 1.0)


def _first(name: str) -> Callable[[Found, re.Match[str]], bool]:
    def take(found: Found, match: re.Match[str]) -> bool:
        if getattr(found, name) is not None:
            return False
        setattr(found, name, number(match[1], match[2]))
        return True

    return take


def _milliseconds(name: str) -> Callable[[Found, re.Match[str]], bool]:
    def take(found: Found, match: re.Match[str]) -> bool:
        if getattr(found, name) is not None:
            return False
        scale = 1e-3 if match[3].lower().startswith("m") else 1.0
        setattr(found, name, number(match[1], match[2]) * scale)
        return True

    return take


def _pair(found: Found, match: re.Match[str]) -> bool:
    if found.prompt is not None or found.completion is not None:
        return False
    found.prompt, found.completion = number(match[1], match[2]), number(match[3], match[4])
    found.notes.append(f"{match[1]}{match[2] or ''}/{match[3]}{match[4] or ''} taken as prompt/completion")
    return True


def _per_token(found: Found, match: re.Match[str]) -> bool:
    value = number(match[1], match[2])
    if found.rate is not None or value <= 0.0:
        return False
    found.rate = 1000.0 / value
    found.notes.append(f"{match[1]} ms per token are {found.rate:.4g} tok/s")
    return True


def _minutes(found: Found, match: re.Match[str]) -> bool:
    if found.seconds is not None:
        return False
    found.seconds = float(match[1]) * 60.0 + float(match[2])
    return True


def _rate(found: Found, match: re.Match[str]) -> bool:
    if found.rate is not None:
        found.missed.append(f"a second rate, {match[0].strip()}")
        return True
    found.rate = number(match[1], match[2])
    return True


def _no_number(found: Found, match: re.Match[str]) -> bool:
    found.missed.append(f"a rate of {match[1]}")
    return True


def _skip(_found: Found, _match: re.Match[str]) -> bool:
    return True


SECOND = r"(seconds?|secs?|s|ms|milliseconds?)\b"
PROMPT = r"(?:prompt|input|prefill(?:ed)?)"
COMPLETION = r"(?:completion|output|generated?|generation|new|decoded?)"

PATTERNS: tuple[tuple[re.Pattern[str], Callable[[Found, re.Match[str]], bool]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), take)
    for pattern, take in (
        (r"\b\d{4}-\d\d-\d\d\b", _skip),
        (r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,6})?)?\b", _skip),
        (rf"(?:ttft|time to first token|prefill(?: time)?){IS}{NUMBER}[ ]?{SECOND}", _milliseconds("prefill_seconds")),
        (rf"\b(?:spec_?)?acc(?:ept(?:ance|ed)?)?[ _.-]?(?:len(?:gth)?)?\b{IS}{NUMBER}(?![ ]?%)", _first("accept")),
        (rf"{NUMBER}[ ]?{TOKENS}[ ]?(?:/|per)[ ]?(?:step|iteration|round|verify)\b", _first("accept")),
        (rf"{NUMBER}[ ]?{PER_SECOND}", _rate),
        (rf"{NUMBER}[ ]?ms[ ]?(?:/|per)[ ]?{TOKENS}", _per_token),
        (rf"\b(?:tpot|itl){IS}{NUMBER}[ ]?ms\b", _per_token),
        (rf"([+-]?(?:nan|inf(?:inity)?))\b[ ]?{PER_SECOND}", _no_number),
        (rf"\b(?:tok/s|tokens/s|tps|throughput|speed){IS}{NUMBER}(?![ ]?[/\w%])", _rate),
        (
            rf"(?<!/){NUMBER}[ ]?/[ ]?{NUMBER}(?![\w/])(?:[ ]?{TOKENS})?",
            _pair,
        ),
        (rf"\b{PROMPT}(?:[ _]?tokens?)?{IS}{NUMBER}(?![ ]?(?:ms|s|x)\b)", _first("prompt")),
        (rf"{NUMBER}[ ]?{PROMPT}(?:[ _]?tokens?)?\b", _first("prompt")),
        (rf"\b{COMPLETION}(?:[ _]?tokens?)?{IS}{NUMBER}(?![ ]?(?:ms|s|x)\b)", _first("completion")),
        (rf"{NUMBER}[ ]?{COMPLETION}(?:[ _]?tokens?)?\b", _first("completion")),
        (rf"{NUMBER}(?:[ ]?{TOKENS})?(?:[ ]of)?[ ]?(?:ctx|context)\b", _first("context")),
        (rf"\b(?:ctx|context)(?:[ _]?(?:len(?:gth)?|tokens?|size))?{IS}{NUMBER}", _first("context")),
        (rf"\b(?:batch(?:[ _]?size)?|bs|concurrency|running){IS}{NUMBER}", _first("batch")),
        (rf"{NUMBER}[ ]?(?:running|concurrent)\b(?: requests?)?", _first("batch")),
        (r"(?<![\w.,-])(\d{1,6})[ ]?(?:m|min|minutes?)[ ]?(\d{1,2}(?:\.\d{1,6})?)[ ]?(?:s|sec|seconds?)\b", _minutes),
        (rf"{NUMBER}[ ]?{SECOND}(?![ ]?/)", _milliseconds("seconds")),
        (rf"\b(?:at|@)[ ]?{NUMBER}(?:[ ]?{TOKENS})?(?![ ]?[/\w%])", _first("context")),
        (rf"(?<!/){NUMBER}[ ]?{TOKENS}", _first("completion")),
    )
)
LEFT_OVER = re.compile(r"(?<![\w.])-?\d[\d.,/]{0,20}(?:[ ]?[a-zA-Z%/]{1,12})?")
DECODE_LINE = re.compile(r"gen throughput \(token/s\): {0,4}(-?\d{1,12}(?:\.\d{1,6})?)")
DECODE_FIELDS = (
    ("batch", re.compile(r"#running-req: {0,4}(\d{1,7})")),
    ("context", re.compile(r"#(?:full )?token: {0,4}(\d{1,10})")),
    ("accept", re.compile(r"accept len: {0,4}(\d{1,4}(?:\.\d{1,6})?)")),
)


def read_words(text: str) -> Found:
    """Reads free text; figures that no pattern claims are listed as missed."""
    line = DECODE_LINE.search(text)
    if line is not None:
        return _decode_line(text, line)
    found = Found(notes=[], missed=[])
    rest = "".join(character if character.isprintable() else " " for character in text)
    rest = " ".join(rest.split())
    for pattern, take in PATTERNS:
        match = pattern.search(rest)
        tries = 0
        while match is not None and tries < 8:
            tries += 1
            if take(found, match):
                rest = rest[: match.start()] + " ; " + rest[match.end() :]
                match = pattern.search(rest, match.start())
            else:
                match = pattern.search(rest, match.end())
    found.missed += [f"{word[0].strip(' ,./')!r}" for word in LEFT_OVER.finditer(rest)][:6]
    _settle_context(found)
    return found


def _settle_context(found: Found) -> None:
    """One context and a prompt with a completion say the same thing twice; the finer statement is used."""
    if found.context is not None and found.prompt is not None and found.completion is not None:
        found.notes.append(f"context {found.context:g} left aside: prompt and completion say it more exactly")
        found.context = None


def _decode_line(text: str, line: re.Match[str]) -> Found:
    begin = text.rfind("\n", 0, line.start()) + 1
    end = text.find("\n", line.end())
    own = text[begin : end if end >= 0 else len(text)]
    found = Found(kind="decode-line", scope="service", rate=float(line[1]), notes=[], missed=[])
    for name, pattern in DECODE_FIELDS:
        match = pattern.search(own)
        if match is not None:
            setattr(found, name, float(match[1]))
    if found.context is not None and found.batch:
        found.context /= found.batch
        if found.batch > 1:
            found.notes.append(f"{found.context:.0f} tokens of context per request: #token over #running-req")
    found.notes.append("one decode line: the mean of its window, idle time and prefill included")
    if DECODE_LINE.search(text, line.end()) is not None:
        found.missed.append("decode lines after the first")
    return found


WHOLE_NUMBER = re.compile(r"-?\d{1,15}(?:,\d{3}){0,4}(?:\.\d{1,9})?$")
SUMMARY_ROW = re.compile(r"^[ |]{0,8}([A-Za-z][\w /()%.-]{2,60}?):[ ]{1,60}(-?[\d.,]{1,20})[ |]{0,8}$", re.MULTILINE)


def read_summary(text: str) -> Found | None:
    """Reads the table that `sglang.bench_serving` prints; None where the text is none."""
    rows: dict[str, float] = {}
    for match in SUMMARY_ROW.finditer(text):
        if WHOLE_NUMBER.match(match[2]):
            rows.setdefault(match[1].strip().lower(), number(match[2]))
    rate = rows.get("output token throughput (tok/s)")
    if rate is None:
        return None
    return benchmark(
        rate=rate,
        completed=rows.get("successful requests"),
        total_input=rows.get("total input tokens"),
        total_output=rows.get("total generated tokens"),
        concurrency=rows.get("concurrency"),
        accept=rows.get("accept length"),
        first_token_ms=rows.get("mean ttft (ms)"),
        latency_ms=rows.get("mean e2e latency (ms)"),
    )


def benchmark(
    *,
    rate: float | None,
    completed: float | None,
    total_input: float | None,
    total_output: float | None,
    concurrency: float | None,
    accept: float | None,
    first_token_ms: float | None,
    latency_ms: float | None,
) -> Found:
    """The means of a benchmark run as one typical request among others."""
    found = Found(kind="benchmark", scope="service", rate=rate, accept=accept, notes=[], missed=[])
    if completed and total_input is not None and total_output is not None:
        found.prompt, found.completion = total_input / completed, total_output / completed
        found.notes.append("prompt and completion are means over all requests of the run")
    if concurrency is not None:
        found.batch = max(1.0, round(concurrency)) if concurrency > 0.0 else concurrency
        found.notes.append(f"batch is the mean concurrency of the run, {concurrency:.4g}")
    if first_token_ms is not None and latency_ms is not None and latency_ms > first_token_ms > 0.0:
        found.prefill_seconds, found.seconds = first_token_ms / 1e3, latency_ms / 1e3
        found.notes.append("time to the first token counts as prefill, waiting in the queue included")
    return found
