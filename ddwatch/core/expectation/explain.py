"""Explains one measured speed: is it what this load should give, and which factor separates it from memory."""

from typing import Literal

from msgspec import Struct

from ddwatch.core.expectation.accept import OVERALL, AcceptCurve, is_usual, typical_class
from ddwatch.core.expectation.factors import Factors, Load, factor_split, mean_step
from ddwatch.core.expectation.pasted import Understood
from ddwatch.core.expectation.predict import AcceptChoice, widened
from ddwatch.core.expectation.profile import Band, Profile, Reference
from ddwatch.core.expectation.wording import short

LOW_ACCEPT = 1.3
"""Below this the drafter is hardly worth its time (DESIGN.md section 6)."""

ExplainVerdict = Literal["as-expected", "slow-step", "low-accept", "learning"]


class WhatIf(Struct, frozen=True):
    """What the rate would be if one thing were different and all else, the unexplained included, as it is."""

    change: str
    tokens_per_second: float


class Explanation(Struct, frozen=True, kw_only=True):
    """The answer."""

    measured: float
    load: Load
    assumed: tuple[str, ...]
    """What was not said and had to be taken for granted."""
    step_seconds: float
    """The model's mean step time over the load."""
    expected: float
    low: float
    high: float
    ratio: float
    verdict: ExplainVerdict
    reason: str
    """One sentence: why this verdict."""
    extrapolated: bool
    implied_accept_length: float
    """The accept length that makes the measured rate exactly what the model expects."""
    typical_of: str | None
    """The text class whose usual accept length is nearest to it."""
    reference: Reference | None
    factors: Factors
    what_if: tuple[WhatIf, ...]


class Incomplete(Struct, frozen=True):
    """What is missing before anything can be explained."""

    missing: str
    """For the operator: `how long the context was: add --context N`."""


def explain(
    profile: Profile,
    said: Understood,
    *,
    accept: float | None = None,
    context: int | None = None,
    batch: int | None = None,
) -> Explanation | Incomplete:
    """Explains what was pasted.

    Args:
        profile: the model.
        said: what the paste says.
        accept: accept length that the operator adds; it overrides the paste, as do the next two.
        context: tokens of one request.
        batch: running requests.
    """
    if said.tokens_per_second is None:
        return Incomplete("a rate (32.2 tok/s) or the tokens generated and the seconds they took")
    contexts = (context, context) if context is not None else said.contexts()
    if contexts is None:
        return Incomplete("how long the context was: add --context N")
    limit = profile.context_limit()
    if limit is not None and contexts[1] > limit:
        return Incomplete(f"a context that the model can have: {contexts[1]} tokens are beyond its limit of {limit}")
    load = Load(
        batch=batch or said.batch or 1,
        begin_context=float(contexts[0]),
        end_context=float(contexts[1]),
        accept_length=accept if accept is not None else said.accept_length,
        scope=said.scope,
    )
    assumed = list(said.notes)
    if batch is None and said.batch is None:
        assumed.append("batch 1: nothing else was running")
    elif load.batch > 1 and said.scope == "request":
        assumed.append(f"{said.tokens_per_second:.4g} tok/s is the rate of one request among {load.batch} alike")
    return _explained(profile, load, said.tokens_per_second, _decode_share(said), assumed)


def _decode_share(said: Understood) -> float | None:
    """Share of the time that was decoding, where the rate spans the prefill too and both times are known."""
    if said.seconds is None or said.prefill_seconds is None or said.prefill_seconds >= said.seconds:
        return None
    if said.scope == "request" and not said.derived:
        return None
    return (said.seconds - said.prefill_seconds) / said.seconds


def _explained(profile: Profile, load: Load, measured: float, idle: float | None, assumed: list[str]) -> Explanation:
    step = mean_step(profile, load, load.batch)
    requests = load.batch if load.scope == "service" else 1
    per_token = step / requests / (idle or 1.0)
    implied = measured * per_token
    middle = (load.begin_context + load.end_context) / 2.0
    typical = typical_class(profile.accept, middle, implied)
    usual = typical is not None and is_usual(typical, middle, implied)
    choice = _accept_choice(profile, load, typical, usual)
    band = widened(profile.band(), choice.margin(middle)) if choice is not None else profile.band()
    length = choice.at(middle) if choice is not None else implied
    expected = length / per_token
    ratio = measured / expected
    reference = profile.references[0] if profile.references else None
    factors = factor_split(profile, reference, load, measured, idle) if reference is not None else Factors()
    covered = all(
        profile.covers(load.batch, load.batch * context) for context in (load.begin_context, load.end_context)
    )
    verdict, reason = _verdict(profile, load, choice, band, ratio, covered)
    return Explanation(
        measured=measured,
        load=load,
        assumed=tuple(assumed),
        step_seconds=step,
        expected=expected,
        low=expected * band.low,
        high=expected * band.high,
        ratio=ratio,
        verdict=verdict,
        reason=reason,
        extrapolated=not covered,
        implied_accept_length=implied,
        typical_of=typical.text_class if typical is not None and usual else None,
        reference=reference,
        factors=factors,
        what_if=_what_if(profile, load, measured, reference, step),
    )


def _accept_choice(profile: Profile, load: Load, typical: AcceptCurve | None, usual: bool) -> AcceptChoice | None:
    """The given accept length, else that of the class that the rate is usual for, of all text, or of the nearest."""
    if load.accept_length is not None:
        return AcceptChoice(length=load.accept_length, origin="given")
    overall = profile.accept_curve(OVERALL)
    if typical is not None and (usual or overall is None):
        return AcceptChoice(curve=typical, origin=f"class {typical.text_class}")
    return AcceptChoice(curve=overall, origin="overall") if overall is not None else None


def _verdict(
    profile: Profile, load: Load, choice: AcceptChoice | None, band: Band, ratio: float, covered: bool
) -> tuple[ExplainVerdict, str]:
    if not covered:
        return "learning", "outside evidence: this context or batch was never seen, so it is a guess"
    if choice is None:
        return "learning", "the accept length is not known: add --accept A"
    given = load.accept_length is not None
    if ratio < band.low:
        if not profile.calibrated:
            return "learning", "slower than the profile says, but it is not calibrated: fit one from your log"
        if not given:
            return "learning", "slower than any known text: the step or the accept length; add --accept A to tell"
        return "slow-step", f"the step takes {1.0 / ratio:.2f} times what this context and batch should cost"
    if given and load.accept_length is not None and load.accept_length < LOW_ACCEPT and _speculates(profile):
        return "low-accept", f"the step is as expected, but only {load.accept_length:g} tokens are accepted per step"
    if not given:
        text = (
            "the text is usual" if choice.origin == OVERALL else f"the text is {choice.origin.removeprefix('class ')}"
        )
        return "as-expected", f"if {text}; add --accept A to be sure"
    if ratio > band.high:
        return "as-expected", "faster than the profile says, which is never held against a service"
    return "as-expected", "this is what the context, the batch and the accept length give"


def _speculates(profile: Profile) -> bool:
    lengths = [point.p50 for curve in profile.accept for point in curve.points]
    return any(length >= LOW_ACCEPT for length in lengths)


def _what_if(
    profile: Profile, load: Load, measured: float, reference: Reference | None, step: float
) -> tuple[WhatIf, ...]:
    lines: list[WhatIf] = []
    if reference is not None and load.accept_length is not None:
        lines.append(
            WhatIf(
                f"accept length {reference.accept:.3g} as in the reference",
                measured * reference.accept / load.accept_length,
            )
        )
    if reference is not None:
        there = profile.step_time.seconds(load.batch, load.batch * reference.context)
        lines.append(WhatIf(f"context {short(reference.context)} as in the reference", measured * step / there))
    fixed = profile.step_time.seconds(load.batch, 0.0)
    if step > fixed:
        lines.append(WhatIf("context cost halved", measured * step / (fixed + (step - fixed) / 2.0)))
    return tuple(lines)
