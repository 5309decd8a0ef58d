"""The clock that a card keeps under load, learned while nothing is wrong and then held, so that a decline shows."""

from bisect import insort

ENOUGH = 60
"""Readings under load after which there is a normal: a minute at one reading a second."""
FROZEN = 600
"""Readings after which it is no longer changed: ten minutes under load see prefill as well as decode."""
DROP = 0.10
"""A normal is left only by more than this share."""
LOW_QUANTILE = 0.05


class Normal:
    """Learns one quantity of one card."""

    def __init__(self) -> None:
        self._sorted: list[float] = []

    @property
    def value(self) -> float | None:
        """The median under load, None before there is enough of it."""
        return self._sorted[len(self._sorted) // 2] if len(self._sorted) >= ENOUGH else None

    def learn(self, value: float | None) -> None:
        """Takes a reading under load, with nothing wrong."""
        if value is not None and len(self._sorted) < FROZEN:
            insort(self._sorted, value)

    def threshold(self) -> float | None:
        """Below this the normal is left: by more than DROP, and by more than it moved while it was learned."""
        median = self.value
        if median is None:
            return None
        return min((1.0 - DROP) * median, self._sorted[int(LOW_QUANTILE * len(self._sorted))])

    def reset(self) -> None:
        """Begins anew, because the card was told to run otherwise."""
        self._sorted.clear()
