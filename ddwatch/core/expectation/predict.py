"""What a load or a request should see: tokens per second and seconds, with a band, and whether it is a guess.

For a load: tokens/s = batch x accept length / T(batch, total context). For a request of p prompt and n completion
tokens: n / (prefill + integral of T(c) / A(c) dc for c = p ... p + n), because its context grows while it runs.
"""

from math import exp, log

from msgspec import Struct

from ddwatch.core.expectation.accept import OVERALL, AcceptCurve
from ddwatch.core.expectation.profile import Band, Profile
from ddwatch.core.snapshot import Expected

DECILE_TO_TWENTIETH = 1.645 / 1.2816
"""How much further out the 5 % quantile of a normal lies than the 10 % quantile."""
PARTS = 24
"""Stretches of a request over which the accept length of a class is taken as constant."""


class AcceptChoice(Struct, frozen=True, kw_only=True):
    """Which accept length a prediction uses, and who said so."""

    length: float | None = None
    """One number for all contexts."""
    curve: AcceptCurve | None = None
    """The curve of a text class, where no number was given."""
    origin: str
    """For the operator: `given`, `class reasoning`, `overall`, `the reference's`."""

    def at(self, context: float) -> float:
        """Accept length at a context."""
        if self.length is not None:
            return self.length
        return self.curve.at(context).p50 if self.curve is not None else 1.0

    def margin(self, context: float) -> tuple[float, float]:
        """Width of the accept length below and above its middle, as logarithms, nine of ten windows inside."""
        if self.length is not None or self.curve is None:
            return 0.0, 0.0
        point = self.curve.at(context)
        below = log(point.p50 / point.p10) * DECILE_TO_TWENTIETH if point.p10 else 0.0
        above = log(point.p90 / point.p50) * DECILE_TO_TWENTIETH if point.p90 else 0.0
        return below, above

    def covers(self, context: float) -> bool:
        """Whether accept length is known at this context."""
        return self.length is not None or self.curve is None or self.curve.covers(context)


def choose_accept(profile: Profile, *, accept: float | None, text_class: str | None) -> AcceptChoice | None:
    """The accept length to predict with: the given one, the class's, the overall curve, or the reference's.

    None when the profile knows no such class, or nothing about accept lengths.
    """
    if accept is not None:
        return AcceptChoice(length=accept, origin="given")
    if text_class is not None:
        curve = profile.accept_curve(text_class)
        return (
            AcceptChoice(curve=curve, origin="overall" if text_class == OVERALL else f"class {text_class}")
            if curve is not None
            else None
        )
    overall = profile.accept_curve(OVERALL)
    if overall is not None:
        return AcceptChoice(curve=overall, origin="overall")
    if profile.references:
        return AcceptChoice(length=profile.references[0].accept, origin="the reference's")
    return None


class Prediction(Struct, frozen=True, kw_only=True):
    """What should be seen."""

    context_tokens: int
    output_tokens: int | None
    batch: int
    accept_length: float
    step_seconds: float
    """At that context, or the mean over the request."""
    tokens_per_second: float
    """Of all running requests together; of one request when a request is asked for."""
    low: float
    high: float
    extrapolated: bool
    seconds: float | None = None
    """How long the request takes."""
    prefill_seconds: float | None = None
    """Of it, for its prompt; None when the profile does not know."""


def widened(band: Band, margin: tuple[float, float]) -> Band:
    """A band on the rate that also holds the spread of the accept length (independent, so added in quadrature)."""
    low = (log(band.low) ** 2 + margin[0] ** 2) ** 0.5
    high = (log(band.high) ** 2 + margin[1] ** 2) ** 0.5
    return Band(exp(-low), exp(high))


def predict(
    profile: Profile, *, context: int, output: int | None = None, batch: int = 1, accept: AcceptChoice
) -> Prediction:
    """Predicts a load of `batch` requests at `context` tokens each, or a request that begins there.

    Args:
        profile: the model.
        context: tokens of one request, at least 1; the prompt when `output` is given.
        output: completion tokens of the request, at least 1; None for a load.
        batch: running requests, all of them alike.
        accept: the accept length to use.
    """
    end = context + (output or 0)
    step = profile.step_time.mean_seconds(batch, batch * context, batch * end)
    middle = (context + end) / 2.0
    band = widened(profile.band(), accept.margin(middle))
    extrapolated = not (profile.covers(batch, batch * context) and profile.covers(batch, batch * end))
    if output is None:
        length = accept.at(context)
        rate = batch * length / step
        return Prediction(
            context_tokens=context,
            output_tokens=None,
            batch=batch,
            accept_length=length,
            step_seconds=step,
            tokens_per_second=rate,
            low=rate * band.low,
            high=rate * band.high,
            extrapolated=extrapolated,
        )
    decode = _decode_seconds(profile, context, end, batch, accept)
    prefill = context / profile.prefill_tokens_per_second if profile.prefill_tokens_per_second else None
    seconds = decode + (prefill or 0.0)
    return Prediction(
        context_tokens=context,
        output_tokens=output,
        batch=batch,
        accept_length=output * step / decode,
        step_seconds=step,
        tokens_per_second=output / seconds,
        low=output / (decode / band.low + (prefill or 0.0)),
        high=output / (decode / band.high + (prefill or 0.0)),
        extrapolated=extrapolated,
        seconds=seconds,
        prefill_seconds=prefill,
    )


def _decode_seconds(profile: Profile, start: int, end: int, batch: int, accept: AcceptChoice) -> float:
    """Integral of T(c) / A(c) dc: exact in T, and in A where that is one number."""
    if accept.length is not None:
        return (end - start) * profile.step_time.mean_seconds(batch, batch * start, batch * end) / accept.length
    total = 0.0
    width = (end - start) / PARTS
    for part in range(PARTS):
        low, high = start + part * width, start + (part + 1) * width
        step = profile.step_time.mean_seconds(batch, batch * low, batch * high)
        total += width * step / accept.at((low + high) / 2.0)
    return total


def expected_now(
    profile: Profile,
    *,
    batch: int,
    total_context: float,
    accept_length: float,
    shared: tuple[float, float] | None = None,
) -> Expected:
    """The model's value at an observed load and accept length, for the snapshot.

    Args:
        profile: the model.
        batch: running requests of this rank.
        total_context: their context tokens.
        accept_length: as observed.
        shared: largest batch and total context among the ranks that step together with this one.
    """
    load = shared if shared is not None else (batch, total_context)
    step = profile.step_time.seconds(*load)
    rate = batch * accept_length / step
    band = profile.band()
    return Expected(
        profile=profile.name,
        tokens_per_second=rate,
        low=rate * band.low,
        high=rate * band.high,
        step_seconds=step,
        extrapolated=not profile.covers(*load),
    )
