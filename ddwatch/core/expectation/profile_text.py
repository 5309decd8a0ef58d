"""Reads a profile from its TOML text: a profile, or every problem with the key that it is about."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import cast, get_args

from ddwatch.core.expectation.accept import AcceptCurve, AcceptPoint
from ddwatch.core.expectation.curve import Curve
from ddwatch.core.expectation.identity import Identity
from ddwatch.core.expectation.keys import Keys
from ddwatch.core.expectation.profile import (
    PROFILE_SCHEMA,
    Band,
    Evidence,
    Figure,
    Problem,
    Profile,
    Reference,
    Residuals,
)
from ddwatch.core.expectation.step_time import Region, StepTime
from ddwatch.core.snapshot import Span

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

LARGEST_TEXT = 1_000_000
SPANS: tuple[str, ...] = get_args(Span)
QUANTILE_NAMES = ("p1", "p10", "p50", "p90")


def read_profile(text: str) -> Profile | tuple[Problem, ...]:
    """Reads the TOML document of DESIGN.md section 7; never raises on any text."""
    if len(text) > LARGEST_TEXT:
        return (Problem("", f"not a profile: longer than {LARGEST_TEXT} characters"),)
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())[:160]
        return (Problem("", f"not TOML: {said}"),)
    problems: list[Problem] = []
    keys = Keys(table, "", problems)
    version = keys.whole("schema", least=1, required=True)
    if version is not None and version != PROFILE_SCHEMA:
        return (Problem("schema", f"this profile has schema {version}, this ddwatch reads schema {PROFILE_SCHEMA}"),)
    if version is None and not keys.holds("step_time"):
        return (Problem("", "not a profile: neither schema nor step_time"),)
    profile = _profile(keys)
    keys.nothing_else()
    if profile is None or problems:
        return tuple(problems) or (Problem("", "not a profile"),)
    return profile


def _profile(keys: Keys) -> Profile | None:
    name = keys.text("name", required=True)
    calibrated = keys.truth("calibrated", required=True)
    note = keys.text("note")
    identity = _identity(keys.table("identity"))
    judged = keys.table("judged").scalars()
    evidence = _evidence(keys.table("evidence", required=True))
    measured = keys.table("step_time", required=True)
    step_time = _step_time(measured)
    residuals = _residuals(measured)
    band = _band(measured)
    lag1 = measured.number("lag1_autocorrelation", least=-1.0, most=1.0)
    fit_error = measured.number("local_fit_error", least=0.0)
    measured.nothing_else()
    prefill = keys.number("prefill_tokens_per_second", above=0.0)
    accept = tuple(one for table in keys.tables("accept") if (one := _accept(table)) is not None)
    references = tuple(ref for table in keys.tables("reference") if (ref := _reference(table)) is not None)
    names = [one.text_class for one in accept]
    for index, text_class in enumerate(names):
        if text_class in names[:index]:
            keys.problem(f"accept[{index}].class", f"{text_class!r} is there twice")
    if calibrated and residuals is None:
        keys.problem("step_time.residual_quantiles", "missing, and a calibrated profile needs them")
    if name is None or calibrated is None or evidence is None or step_time is None:
        return None
    return Profile(
        name=name,
        calibrated=calibrated,
        note=note,
        identity=identity,
        judged=judged,
        evidence=evidence,
        step_time=step_time,
        residuals=residuals,
        stated_band=band,
        lag1=lag1,
        fit_error=fit_error,
        prefill_tokens_per_second=prefill,
        accept=accept,
        references=references,
    )


def _identity(keys: Keys) -> Identity:
    identity = Identity(
        model=keys.text("model"),
        draft_model=keys.text("draft_model"),
        gpu=keys.text("gpu"),
        gpu_count=keys.whole("gpu_count", least=1),
        tp=keys.whole("tp", least=1),
        dp=keys.whole("dp", least=1),
        ep=keys.whole("ep", least=1),
        quantization=keys.text("quantization"),
        algorithm=keys.text("algorithm"),
        tree_budget=keys.whole("tree_budget", least=1),
        block_size=keys.whole("block_size", least=1),
    )
    keys.nothing_else()
    return identity


def _evidence(keys: Keys) -> Evidence | None:
    samples = keys.whole("samples", required=True)
    contexts = keys.numbers("contexts", least=0.0)
    batches = keys.numbers("batches", least=1.0)
    provenance = keys.text("provenance", required=True)
    source, created = keys.text("source"), keys.text("created")
    regions = tuple(one for table in keys.tables("region") if (one := _region(table)) is not None)
    figures = tuple(fig for table in keys.tables("figure") if (fig := _figure(table)) is not None)
    keys.nothing_else()
    if samples is None or provenance is None:
        return None
    return Evidence(
        samples=samples,
        contexts=contexts or (),
        batches=tuple(int(batch) for batch in batches or ()),
        provenance=provenance,
        source=source,
        created=created,
        regions=regions,
        figures=figures,
    )


def _span_of(keys: Keys, key: str, least: float) -> tuple[float, float] | None:
    bounds = keys.numbers(key, least=least, required=True)
    if bounds is None:
        return None
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        keys.problem(key, "must be two numbers, the smaller first")
        return None
    return bounds[0], bounds[1]


def _region(keys: Keys) -> Region | None:
    batch = _span_of(keys, "batch", 1.0)
    total = _span_of(keys, "total_context", 0.0)
    samples = keys.whole("samples", required=True)
    error = keys.number("fit_error", least=0.0)
    keys.nothing_else()
    if batch is None or total is None or samples is None:
        return None
    return Region(batch=(int(batch[0]), int(batch[1])), total_context=total, samples=samples, fit_error=error)


def _figure(keys: Keys) -> Figure | None:
    step = keys.number("step_seconds", above=0.0, required=True)
    context = keys.number("context", least=0.0, required=True)
    batch = keys.whole("batch", least=1)
    provenance = keys.text("provenance", required=True)
    fitted, note = keys.truth("fitted"), keys.text("note")
    keys.nothing_else()
    if step is None or context is None or provenance is None:
        return None
    return Figure(
        step_seconds=step,
        context=context,
        batch=1 if batch is None else batch,
        provenance=provenance,
        fitted=fitted is not False,
        note=note,
    )


def _step_time(keys: Keys) -> StepTime | None:
    span = keys.text("span", required=True)
    if span is not None and span not in SPANS:
        keys.problem("span", f"must be one of {', '.join(SPANS)}")
        span = None
    batch_knots = keys.numbers("batch_knots", least=1.0, ascending=True) or ()
    context_knots = keys.numbers("context_knots", least=0.0, ascending=True) or ()
    coefficients = keys.numbers("coefficients", least=0.0, required=True)
    if coefficients is None or span is None:
        return None
    ramps = max(0, len(batch_knots) - 1), max(0, len(context_knots) - 1)
    if len(coefficients) != 1 + sum(ramps):
        keys.problem(
            "coefficients",
            f"must be {1 + sum(ramps)} numbers: the constant, {ramps[0]} batch ramps, {ramps[1]} context ramps",
        )
        return None
    step_time = StepTime(
        span=cast("Span", span),
        constant=coefficients[0],
        batch=Curve(batch_knots, coefficients[1 : 1 + ramps[0]]),
        context=Curve(context_knots, coefficients[1 + ramps[0] :]),
    )
    if step_time.seconds(1.0, 1.0) <= 0.0:
        keys.problem("coefficients", "must give a step time above zero at the smallest load")
        return None
    return step_time


def _residuals(keys: Keys) -> Residuals | None:
    if not keys.holds("residual_quantiles"):
        return None
    table = keys.table("residual_quantiles")
    names = Residuals.__struct_fields__
    values = [table.number(name, required=True) for name in names]
    table.nothing_else()
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    for i in range(1, len(known)):
        if known[i] < known[i - 1]:
            table.problem(names[i], f"must not be below {names[i - 1]}")
            return None
    return Residuals(**dict(zip(names, known, strict=True)))


def _band(keys: Keys) -> Band | None:
    band = keys.numbers("band", above=0.0)
    if band is None:
        return None
    if len(band) != 2 or not band[0] <= 1.0 <= band[1]:
        keys.problem("band", "must be two ratios, one at or below 1 and one at or above 1")
        return None
    return Band(*band)


def _accept(keys: Keys) -> AcceptCurve | None:
    text_class = keys.text("class", required=True)
    keys.text("note")
    contexts = keys.numbers("context", above=0.0, required=True, ascending=True)
    columns = {name: keys.numbers(name, above=0.0, required=name == "p50") for name in QUANTILE_NAMES}
    samples = keys.numbers("samples", least=0.0)
    keys.nothing_else()
    if text_class is None or contexts is None or columns["p50"] is None:
        return None
    if not contexts:
        keys.problem("context", "must not be empty")
        return None
    for name, column in [*columns.items(), ("samples", samples)]:
        if column is not None and len(column) != len(contexts):
            keys.problem(name, f"must be {len(contexts)} numbers, one per context")
            return None
    points = []
    for i, context in enumerate(contexts):
        row = {name: column[i] for name, column in columns.items() if column is not None}
        if not _orderly(keys, row, i):
            return None
        count = int(samples[i]) if samples is not None else None
        points.append(AcceptPoint(context=context, samples=count, **row))
    return AcceptCurve(text_class=text_class, points=tuple(points))


def _orderly(keys: Keys, row: dict[str, float], index: int) -> bool:
    known = list(row.items())
    for (before, low), (name, high) in pairwise(known):
        if high < low:
            keys.problem(f"{name}[{index}]", f"must not be below {before}")
            return False
    return True


def _reference(keys: Keys) -> Reference | None:
    label = keys.text("label", required=True)
    context = keys.number("context", above=0.0, required=True)
    batch = keys.whole("batch", least=1)
    accept = keys.number("accept", above=0.0, required=True)
    rate = keys.number("tokens_per_second", above=0.0, required=True)
    inferred, note = keys.truth("inferred"), keys.text("note")
    keys.nothing_else()
    if label is None or context is None or accept is None or rate is None:
        return None
    return Reference(
        label=label,
        context=context,
        batch=1 if batch is None else batch,
        accept=accept,
        tokens_per_second=rate,
        inferred=inferred is True,
        note=note,
    )


def sentence(problems: Sequence[Problem]) -> str:
    """All problems in one sentence, the first three by name."""
    named = "; ".join(problem.sentence() for problem in problems[:3])
    rest = len(problems) - 3
    return f"{named}; and {rest} more" if rest > 0 else named
