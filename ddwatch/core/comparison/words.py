"""The one sentence of a comparison: what the restart did to each step, and what separates both rates."""

from collections.abc import Sequence

from ddwatch.core.comparison.matching import Interval
from ddwatch.core.comparison.outcome import Comparison, Figures, Shares
from ddwatch.core.expectation.wording import factor, milliseconds, range_of, rate

SAME_RATE = 0.05
"""Rates closer than this are not told apart in the sentence, and no factor closer to 1."""


def percent(change: float) -> str:
    """A ratio as a signed percentage: -0.4 %, +15 %, +115 %."""
    value = (change - 1.0) * 100.0
    text = f"{value:+.1f}" if abs(value) < 99.95 else f"{value:+.0f}"
    return f"{'+0.0' if text == '-0.0' else text} %"


def interval(ratio: Interval) -> str:
    """A ratio and its interval: -0.4 % (-1.9 … +1.1 %)."""
    return f"{percent(ratio.value)} ({percent(ratio.low).removesuffix(' %')} … {percent(ratio.high)})"


def load_words(side: Figures) -> str:
    """Where a side was: batch 1 at 1.9k … 2.75k tokens."""
    if side.batches is None or side.total_context_tokens is None:
        return "nothing"
    first, last = side.batches
    batches = f"batch {first}" if first == last else f"batch {first} … {last}"
    return f"{batches} at {range_of(*side.total_context_tokens)} tokens in total"


def sentence(found: Comparison, cause: str, changed: Sequence[str] | None) -> str:
    """What a person takes home.

    Args:
        found: the comparison.
        cause: what lies between both sides: `the restart`, or `what happened at 12:00:00`.
        changed: what differs in the arguments, in words; None where that is not known.
    """
    if found.step_seconds is None:
        text = f"{cause} cannot be judged: {found.reason}"
        if found.before.clean and found.after.clean:
            text += f" (before: {load_words(found.before)}; after: {load_words(found.after)})"
        return text
    step = found.step_seconds
    text = f"{cause} changed step time by {interval(step.ratio)} at equal batch and context"
    extra = milliseconds(abs(step.difference.value))
    match found.outcome:
        case "slower":
            text += f": each step takes {extra} ms longer, {_suspect(changed)}"
        case "faster":
            text += f": each step takes {extra} ms less"
        case _ if step.ratio.low > 1.0 or step.ratio.high < 1.0 or step.ratio.low < 0.9 or step.ratio.high > 1.1:
            text += f": {_undecided(step.ratio)}"
        case _:
            text += f": {_acquitted(changed)}"
    rates = _rates(found)
    return f"{text}; {rates}" if rates else text


def _suspect(changed: Sequence[str] | None) -> str:
    if changed is None:
        return "what changed is not known"
    return "by the new flags or by what else changed with them" if changed else "and no flag has changed"


def _acquitted(changed: Sequence[str] | None) -> str:
    return "the new flags are not the cause" if changed else "the steps are as fast as before"


def _undecided(ratio: Interval) -> str:
    if ratio.low > 1.0 or ratio.high < 1.0:
        return "too little to matter"
    return "too few samples to tell more"


def _rates(found: Comparison) -> str:
    """What separates the rates of both sides."""
    old, new, parts = found.before.tokens_per_second, found.after.tokens_per_second, found.shares
    if old is None or new is None or parts is None:
        return ""
    named = [f"{name} {factor(value)}" for name, value in factors(parts) if abs(value - 1.0) > SAME_RATE]
    if abs(parts.ratio - 1.0) <= SAME_RATE or not named:
        return f"tokens/s stayed at {rate(new)}" if abs(parts.ratio - 1.0) <= SAME_RATE else ""
    way = "fall" if parts.ratio < 1.0 else "rise"
    together = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"the {way} from {rate(old)} to {rate(new)} tok/s is {together}"


def factors(parts: Shares) -> list[tuple[str, float]]:
    """The factors by name; context and batch as one where they cannot be told apart."""
    if parts.context is None or parts.batch is None:
        load = [("context and batch", parts.load)]
    else:
        load = [("context", parts.context), ("batch", parts.batch)]
    return [("accept length", parts.accept_length), *load, ("step time", parts.step_time)]
