"""Reads what people paste about a speed: a client's footer, a log line, usage JSON, a benchmark's summary.

Says what it understood and what it did not; guesses nothing silently. Never raises on any text.
"""

from math import isfinite
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.expectation.pasted_json import read_json
from ddwatch.core.expectation.pasted_text import Found, read_summary, read_words

LONGEST = 65_536
"""Characters that are looked at."""
MOST_TOKENS = 100_000_000
FASTEST = 1_000_000.0
LONGEST_SECONDS = 10_000_000.0

Scope = Literal["request", "service"]
"""Whose rate it is: of one request, or of all running ones together."""


class Understood(Struct, frozen=True, kw_only=True):
    """What a pasted text says; None where it says nothing."""

    kind: Literal["text", "decode-line", "usage-json", "benchmark"] = "text"
    scope: Scope = "request"
    tokens_per_second: float | None = None
    derived: bool = False
    """Whether the rate was worked out from tokens and seconds."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    context_tokens: int | None = None
    """Of one request, where the text gives one context instead of a prompt and a completion."""
    seconds: float | None = None
    prefill_seconds: float | None = None
    accept_length: float | None = None
    batch: int | None = None
    notes: tuple[str, ...] = ()
    """How ambiguous things were taken."""
    missed: tuple[str, ...] = ()
    """What was there but not understood or not possible."""

    def sentence(self) -> str:
        """What was understood and what was not, in one sentence."""
        parts = []
        for value, unit in (
            (self.prompt_tokens, "prompt tokens"),
            (self.completion_tokens, "completion tokens"),
            (self.context_tokens, "tokens of context"),
        ):
            if value is not None:
                parts.append(f"{value} {unit}")
        if self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:.4g} tok/s")
        if self.seconds is not None:
            parts.append(f"{self.seconds:.4g} s")
        if self.accept_length is not None:
            parts.append(f"accept length {self.accept_length:g}")
        if self.batch is not None:
            parts.append(f"batch {self.batch}")
        understood = "understood " + ", ".join(parts) if parts else "understood nothing"
        return understood + (f"; not understood: {', '.join(self.missed)}" if self.missed else "")

    def contexts(self) -> tuple[int, int] | None:
        """Context of one request at its begin and end; None where it is not known."""
        if self.context_tokens is not None:
            return self.context_tokens, self.context_tokens
        if self.prompt_tokens is not None and self.completion_tokens is not None:
            return max(1, self.prompt_tokens), max(1, self.prompt_tokens) + self.completion_tokens
        if self.prompt_tokens is not None:
            return max(1, self.prompt_tokens), max(1, self.prompt_tokens)
        return None


def understand(text: str) -> Understood:
    """Reads a pasted text; what is missing stays None, what makes no sense is named in `missed`."""
    shortened = text[:LONGEST].strip()
    found = _found(shortened)
    if len(text) > LONGEST:
        found.missed.append(f"everything after {LONGEST} characters")
    return _derived(_checked(found))


def _found(text: str) -> Found:
    if text[:1] in ("{", "["):
        found = read_json(text)
        if found is not None:
            return found
    summary = read_summary(text)
    return summary if summary is not None else read_words(text)


def _checked(found: Found) -> Understood:
    """Keeps what is possible, and says of the rest that it is not."""
    missed = list(found.missed)

    def count(name: str, value: float | None, least: int) -> int | None:
        if value is None:
            return None
        if not isfinite(value) or not least <= value <= MOST_TOKENS:
            missed.append(f"{name} of {value:g}")
            return None
        return round(value)

    def amount(name: str, value: float | None, most: float, unit: str) -> float | None:
        if value is None:
            return None
        if not isfinite(value) or not 0.0 < value <= most:
            missed.append(f"{name} of {value:g}{unit}")
            return None
        return value

    rate = amount("a rate", found.rate, FASTEST, " tok/s")
    prompt = count("a prompt", found.prompt, 0)
    completion = count("a completion", found.completion, 1)
    return Understood(
        kind=found.kind,
        scope=found.scope,
        tokens_per_second=rate,
        prompt_tokens=prompt,
        completion_tokens=completion,
        context_tokens=count("a context", found.context, 1),
        seconds=amount("a duration", found.seconds, LONGEST_SECONDS, " s"),
        prefill_seconds=amount("a prefill time", found.prefill_seconds, LONGEST_SECONDS, " s"),
        accept_length=amount("an accept length", found.accept, 1000.0, ""),
        batch=count("a batch", found.batch, 1),
        notes=tuple(found.notes),
        missed=tuple(missed[:8]),
    )


def _derived(said: Understood) -> Understood:
    """Works out the rate where tokens and seconds are given, and says when three figures disagree."""
    if said.completion_tokens is None or said.seconds is None or said.scope != "request":
        return said
    rate = said.completion_tokens / said.seconds
    if said.tokens_per_second is None:
        note = f"{said.completion_tokens} tokens in {said.seconds:.4g} s are {rate:.4g} tok/s, prefill included"
        return replace(said, tokens_per_second=rate, derived=True, notes=(*said.notes, note))
    if abs(rate / said.tokens_per_second - 1.0) > 0.1:
        decode = said.seconds - (said.prefill_seconds or 0.0)
        if decode > 0.0 and abs(said.completion_tokens / decode / said.tokens_per_second - 1.0) <= 0.1:
            return said
        note = (
            f"{said.completion_tokens} tokens in {said.seconds:.4g} s would be {rate:.4g} tok/s, not "
            f"{said.tokens_per_second:.4g}: the stated rate is used"
        )
        return replace(said, notes=(*said.notes, note))
    return said
