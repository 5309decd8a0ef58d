"""Pools neighbouring samples of one rank: total tokens over total time, so that no single step speaks for a second."""

from collections.abc import Sequence

from msgspec.structs import replace

from ddwatch.core.snapshot import Sample


def _weighted(pairs: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0 else None


def pooled(samples: Sequence[Sample]) -> Sample:
    """The newest sample with the means of all of them; one sample is returned as it is.

    Throughput is tokens over time (a mean weighted by each sample's time), step time a mean weighted by steps, accept
    length a mean weighted by steps and batch.

    Args:
        samples: of one rank, oldest first, at least one.
    """
    newest = samples[-1]
    if len(samples) == 1:
        return newest
    steps = [float(sample.steps or 1) for sample in samples]
    times = [weight * (sample.step_seconds or 0.0) for sample, weight in zip(samples, steps, strict=True)]
    rates = [(sample.throughput, time) for sample, time in zip(samples, times, strict=True) if time > 0]
    if not rates:
        rates = [(sample.throughput, 1.0) for sample in samples]
    return replace(
        newest,
        throughput=_weighted(rates),
        step_seconds=_weighted([(s.step_seconds, w) for s, w in zip(samples, steps, strict=True)]),
        accept_length=_weighted([(s.accept_length, w * (s.batch or 1)) for s, w in zip(samples, steps, strict=True)]),
        flags=tuple(dict.fromkeys(flag for sample in samples for flag in sample.flags)),
    )
