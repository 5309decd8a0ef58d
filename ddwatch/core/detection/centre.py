"""Where the healthy residuals of a load lie when the model is too slow there, within the model's own fit error.

A model that expects steps three percent too long hides three percent of a slowdown. Quiet lines show that, load by
load (a load that is new takes the mean over all), and the correction never exceeds the fit error. Only a negative
centre counts: a machine that drifts cannot teach that slow is normal, and nothing here makes the detector patient.
"""

from ddwatch.core.expectation.retention import Bucket, bucket

NEEDED_LINES = 40
"""Quiet lines at a load before its centre counts."""
MEMORY_LINES = 400
"""The centre is a mean over about so many lines."""
MOST_LOADS = 256
LARGEST_RESIDUAL = 0.1
"""Single lines count as this far off at most."""


class Centres:
    """A running mean of quiet residuals for each load and for all, bounded."""

    __slots__ = ("_all", "_loads")

    def __init__(self) -> None:
        self._loads: dict[Bucket, tuple[int, float]] = {}
        self._all = (0, 0.0)

    def at(self, batch: float, total_context: float, fit_error: float) -> float:
        """The centre to judge from: between minus the fit error and zero."""
        count, mean = self._loads.get(bucket(batch, total_context), (0, 0.0))
        if count < NEEDED_LINES:
            count, mean = self._all
        if count < NEEDED_LINES:
            return 0.0
        return max(-fit_error, min(0.0, mean))

    def see(self, batch: float, total_context: float, residual: float) -> None:
        """Takes a quiet line."""
        key = bucket(batch, total_context)
        count, mean = self._loads.get(key, (0, 0.0))
        if not count and len(self._loads) >= MOST_LOADS:
            return
        bounded = min(max(residual, -LARGEST_RESIDUAL), LARGEST_RESIDUAL)
        self._loads[key] = _joined(count, mean, bounded)
        self._all = _joined(*self._all, bounded)


def _joined(count: int, mean: float, value: float) -> tuple[int, float]:
    count += 1
    return count, mean + (value - mean) / min(count, MEMORY_LINES)
