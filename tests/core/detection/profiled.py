"""A learned profile, and samples that are so many times slower than it expects."""

from collections.abc import Iterator
from math import exp
from random import Random

from ddwatch.core.expectation.profile import Evidence, Profile, Residuals
from ddwatch.core.expectation.step_time import Region
from ddwatch.core.snapshot import Flag, Provenance, Sample, Span
from tests.core.detection.traffic import MODEL

PROFILE = Profile(
    name="learned",
    calibrated=True,
    evidence=Evidence(
        samples=500,
        provenance="log",
        regions=(Region(batch=(1, 8), total_context=(1000.0, 20000.0), samples=500, fit_error=0.01),),
    ),
    step_time=MODEL,
    residuals=Residuals(p01=-0.05, p05=-0.035, p25=-0.014, p50=0.0, p75=0.014, p95=0.035, p99=0.05),
    lag1=0.3,
    fit_error=0.01,
)


def sample(
    at: float,
    ratio: float,
    *,
    total: int = 6000,
    dp_rank: int | None = None,
    batch: int = 1,
    flags: tuple[Flag, ...] = (),
    provenance: Provenance = "log",
    span: Span = "step",
    carried: tuple[int, int] | None = None,
    engine: str | None = None,
) -> Sample:
    """A sample whose step takes `ratio` times the model's; `carried` is the load that the shared step has to carry."""
    load = carried if carried is not None else (batch, total)
    seconds = MODEL.seconds(*load) * ratio
    return Sample(
        at=at,
        engine=engine,
        dp_rank=dp_rank,
        batch=batch,
        total_context_tokens=total,
        context_tokens=total / batch,
        accept_length=3.0,
        throughput=3.0 * batch / seconds,
        step_seconds=seconds,
        flags=flags,
        provenance=provenance,
        span=span,
    )


def ratios(ratio: float, count: int, seed: int = 1) -> Iterator[float]:
    """Ratios with two percent of noise."""
    random = Random(seed)
    for _ in range(count):
        yield ratio * exp(0.02 * random.gauss(0.0, 1.0))
