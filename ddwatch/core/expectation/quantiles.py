"""Order statistics for fitting and judging: quantiles, a robust spread, and memory from one sample to the next."""

from collections.abc import Iterable, Sequence

NORMAL_MAD = 1.4826
"""Standard deviation over median absolute deviation of normal noise."""
WINSOR_SPREADS = 3.0
"""What lies further off than this counts as lying there."""


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of values in ascending order, linear between neighbours (Hyndman and Fan type 7).

    Raises ValueError when there is no value.
    """
    if not ordered:
        raise ValueError("no values")
    place = share * (len(ordered) - 1)
    below = int(place)
    if below >= len(ordered) - 1:
        return ordered[-1]
    part = place - below
    return ordered[below] * (1.0 - part) + ordered[below + 1] * part


def middle(values: Iterable[float]) -> float:
    """Median; raises ValueError when there is no value."""
    return quantile(sorted(values), 0.5)


def spread(values: Sequence[float]) -> float:
    """Standard deviation of the bulk: the scaled median absolute deviation from the median."""
    centre = middle(values)
    return NORMAL_MAD * middle(abs(value - centre) for value in values)


def huber_weight(residual: float, tolerance: float) -> float:
    """Weight of one residual in a Huber fit: 1 inside the tolerance, falling with the distance outside."""
    distance = abs(residual)
    return 1.0 if distance <= tolerance else tolerance / distance


def winsorised(values: Sequence[float]) -> list[float]:
    """The values less their median, none further off than three deviations of the bulk; as they are without one."""
    centre = middle(values)
    edge = WINSOR_SPREADS * spread(values)
    if edge <= 0.0:
        return [value - centre for value in values]
    return [min(max(value - centre, -edge), edge) for value in values]


def lag_one(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Autocorrelation from pairs of consecutive residuals; None for fewer than 20 pairs or constant ones.

    Winsorised: one step of two seconds among steps of thirty milliseconds would outweigh all the others.
    """
    if len(pairs) < 20:
        return None
    size = len(pairs)
    before, after = winsorised([a for a, _ in pairs]), winsorised([b for _, b in pairs])
    first, second = sum(before) / size, sum(after) / size
    across = sum((a - first) * (b - second) for a, b in zip(before, after, strict=True))
    own = sum((a - first) ** 2 for a in before) * sum((b - second) ** 2 for b in after)
    if own <= 0.0:
        return None
    return max(-1.0, min(1.0, across / float(own**0.5)))
