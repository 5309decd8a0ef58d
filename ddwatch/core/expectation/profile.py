"""A profile: a fitted model of one service, with its identity, its evidence and what a human remembers of it."""

from math import exp
from typing import NamedTuple

from msgspec import Struct

from ddwatch.core.expectation.accept import OVERALL, AcceptCurve
from ddwatch.core.expectation.identity import (
    Difference,
    Identity,
    Scalar,
    identity_differences,
    judged_differences,
)
from ddwatch.core.expectation.step_time import Region, StepTime, covers, fit_error_at

PROFILE_SCHEMA = 1
DEFAULT_BAND = (0.75, 1.35)
"""Ratio band of a profile without residuals: wide, because nothing is known about its error."""


class Figure(Struct, frozen=True, kw_only=True):
    """One figure that went into the profile by hand, with where it came from."""

    step_seconds: float
    context: float
    batch: int = 1
    provenance: str
    fitted: bool = True
    """False for a figure that is kept but contradicts the others."""
    note: str | None = None


class Evidence(Struct, frozen=True, kw_only=True):
    """What the profile rests on."""

    samples: int
    contexts: tuple[float, ...] = ()
    """Smallest and largest total context, or the contexts measured at."""
    batches: tuple[int, ...] = ()
    provenance: str
    source: str | None = None
    created: str | None = None
    """ISO 8601 with offset."""
    regions: tuple[Region, ...] = ()
    figures: tuple[Figure, ...] = ()


class Residuals(Struct, frozen=True, kw_only=True):
    """Quantiles of ln(measured / expected step time) over clean samples that the fit had not seen."""

    p01: float
    p05: float
    p25: float
    p50: float
    p75: float
    p95: float
    p99: float


class Reference(Struct, frozen=True, kw_only=True):
    """Conditions that a human remembers."""

    label: str
    context: float
    batch: int = 1
    accept: float
    tokens_per_second: float
    inferred: bool = False
    """Whether some of it was worked out afterwards."""
    note: str | None = None


class Band(NamedTuple):
    """Bounds on measured / expected tokens per second; nine of ten clean samples lie inside."""

    low: float
    high: float


class Profile(Struct, frozen=True, kw_only=True):
    """Everything that expectation, explanation and judgement need."""

    name: str
    calibrated: bool
    """Whether it was fitted on clean samples of the service itself; an uncalibrated profile never pages."""
    note: str | None = None
    identity: Identity = Identity()
    judged: dict[str, Scalar] = {}
    evidence: Evidence
    step_time: StepTime
    residuals: Residuals | None = None
    stated_band: Band | None = None
    """Takes the place of residuals where there are none."""
    lag1: float | None = None
    """Autocorrelation of consecutive residuals."""
    fit_error: float | None = None
    """How well the curve meets 95 % of the evidence (relative)."""
    prefill_tokens_per_second: float | None = None
    accept: tuple[AcceptCurve, ...] = ()
    references: tuple[Reference, ...] = ()

    def band(self) -> Band:
        """The ratio band; 1 always lies in it."""
        if self.stated_band is not None:
            return self.stated_band
        if self.residuals is not None:
            return Band(min(1.0, exp(-self.residuals.p95)), max(1.0, exp(-self.residuals.p05)))
        return Band(*DEFAULT_BAND)

    def covers(self, batch: float, total_context: float) -> bool:
        """Whether the evidence reaches this load (see step_time.covers)."""
        return covers(self.evidence.regions, batch, total_context)

    def fit_error_at(self, batch: float, total_context: float) -> float | None:
        """Fit error of the evidence around this load; the profile's own where regions do not say."""
        local = fit_error_at(self.evidence.regions, batch, total_context)
        return local if local is not None else self.fit_error

    def context_limit(self) -> int | None:
        """The longest context that the service takes, where its arguments said so."""
        limit = self.judged.get("context_length")
        return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None

    def classes(self) -> tuple[str, ...]:
        """Names of the text classes, the overall curve not among them."""
        return tuple(one.text_class for one in self.accept if one.text_class != OVERALL)

    def accept_curve(self, text_class: str) -> AcceptCurve | None:
        """The curve of a class, or `overall`."""
        return next((one for one in self.accept if one.text_class == text_class), None)

    def matches(self, identity: Identity, judged: dict[str, Scalar] | None = None) -> tuple[Difference, ...]:
        """In what a running service differs. A difference of kind `identity` means: this is not its profile."""
        return (
            *identity_differences(self.identity, identity),
            *(judged_differences(self.judged, judged) if judged is not None else ()),
        )


class Problem(NamedTuple):
    """Why a text is not a profile."""

    key: str
    """The offending key (`step_time.coefficients[3]`); empty when it is about the whole text."""
    what: str

    def sentence(self) -> str:
        """For the operator."""
        return f"{self.key}: {self.what}" if self.key else self.what
