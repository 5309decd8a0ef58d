"""Writes a profile as its TOML text, for people to read and for `read_profile` to read back equal."""

import json
from collections.abc import Iterable, Sequence

from ddwatch.core.expectation.accept import AcceptCurve
from ddwatch.core.expectation.profile import PROFILE_SCHEMA, Evidence, Profile, Reference, Residuals

Value = str | int | float | bool | Sequence[int] | Sequence[float]


def _text(value: str) -> str:
    # A JSON string is a TOML basic string once its surrogate pairs are written as one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return repr(value)


def _value(value: Value) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return _number(value)
    return "[" + ", ".join(_number(item) for item in value) + "]"


def _lines(pairs: Iterable[tuple[str, Value | None]]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in pairs if value is not None]


def _key(name: str) -> str:
    plain = name and all(c.isascii() and (c.isalnum() or c in "_-") for c in name)
    return name if plain else _text(name)


def _evidence(evidence: Evidence) -> list[str]:
    lines = [
        "",
        "[evidence]",
        *_lines(
            [
                ("samples", evidence.samples),
                ("contexts", evidence.contexts),
                ("batches", evidence.batches),
                ("provenance", evidence.provenance),
                ("source", evidence.source),
                ("created", evidence.created),
            ]
        ),
    ]
    for region in evidence.regions:
        lines += [
            "",
            "[[evidence.region]]",
            *_lines(
                [
                    ("batch", region.batch),
                    ("total_context", region.total_context),
                    ("samples", region.samples),
                    ("fit_error", region.fit_error),
                ]
            ),
        ]
    for figure in evidence.figures:
        lines += [
            "",
            "[[evidence.figure]]",
            *_lines(
                [
                    ("step_seconds", figure.step_seconds),
                    ("context", figure.context),
                    ("batch", figure.batch),
                    ("provenance", figure.provenance),
                    ("fitted", figure.fitted),
                    ("note", figure.note),
                ]
            ),
        ]
    return lines


def _step_time(profile: Profile) -> list[str]:
    step_time = profile.step_time
    lines = [
        "",
        "# coefficients: seconds at the smallest load, then seconds per request between batch_knots,",
        "# then seconds per token between context_knots (total context of all running requests)",
        "[step_time]",
        *_lines(
            [
                ("span", step_time.span),
                ("batch_knots", step_time.batch.knots),
                ("context_knots", step_time.context.knots),
                ("coefficients", (step_time.constant, *step_time.batch.slopes, *step_time.context.slopes)),
                ("band", tuple(profile.stated_band) if profile.stated_band is not None else None),
                ("lag1_autocorrelation", profile.lag1),
                ("local_fit_error", profile.fit_error),
            ]
        ),
    ]
    if profile.residuals is not None:
        residuals = profile.residuals
        lines += [
            "",
            "# of ln(measured / expected step time)",
            "[step_time.residual_quantiles]",
            *_lines([(name, getattr(residuals, name)) for name in Residuals.__struct_fields__]),
        ]
    return lines


def _accept(curve: AcceptCurve) -> list[str]:
    columns: list[tuple[str, Value | None]] = [
        ("class", curve.text_class),
        ("context", [point.context for point in curve.points]),
    ]
    for name in ("p1", "p10", "p50", "p90", "samples"):
        column = [getattr(point, name) for point in curve.points]
        columns.append((name, None if any(value is None for value in column) else column))
    return ["", "[[accept]]", *_lines(columns)]


def _reference(reference: Reference) -> list[str]:
    return [
        "",
        "[[reference]]",
        *_lines(
            [
                ("label", reference.label),
                ("context", reference.context),
                ("batch", reference.batch),
                ("accept", reference.accept),
                ("tokens_per_second", reference.tokens_per_second),
                ("inferred", reference.inferred),
                ("note", reference.note),
            ]
        ),
    ]


def write_profile(profile: Profile) -> str:
    """The TOML document of DESIGN.md section 7."""
    identity = profile.identity
    known = [(name, getattr(identity, name)) for name in identity.__struct_fields__]
    lines = [
        *_lines(
            [
                ("schema", PROFILE_SCHEMA),
                ("name", profile.name),
                ("calibrated", profile.calibrated),
                ("note", profile.note),
                ("prefill_tokens_per_second", profile.prefill_tokens_per_second),
            ]
        ),
        "",
        "[identity]",
        *_lines(known),
        "",
        "[judged]",
        *(f"{_key(name)} = {_value(value)}" for name, value in profile.judged.items()),
        *_evidence(profile.evidence),
        *_step_time(profile),
    ]
    for curve in profile.accept:
        lines += _accept(curve)
    for reference in profile.references:
        lines += _reference(reference)
    return "\n".join(lines) + "\n"
