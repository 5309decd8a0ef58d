"""The last minutes of one card in equal steps, small enough to travel with every snapshot."""

from collections import deque

from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import GpuTrend

STEP_SECONDS = 5.0
POINTS = 24
DIGITS = (3, 0, 1, 1)
"""Decimals of utilisation, clock, power and temperature."""

Means = tuple[float | None, ...]
NOTHING: Means = (None, None, None, None)


class Trend:
    """Means per step; a step without a reading stays empty."""

    def __init__(self) -> None:
        self._closed: deque[tuple[int, Means]] = deque(maxlen=POINTS)
        self._step = 0
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._counts = [0, 0, 0, 0]
        self._columns: list[Means] = []

    def see(self, at: float, card: GpuCard) -> None:
        """Takes a reading."""
        step = int(at // STEP_SECONDS)
        if step != self._step:
            self._closed.append((self._step, self._means()))
            self._step = step
            self._sums, self._counts = [0.0] * 4, [0] * 4
            self._columns = self._past()
        values = (card.utilization_ratio, card.sm_clock_hertz, card.power_watts, card.temperature_celsius)
        for place, value in enumerate(values):
            if value is not None:
                self._sums[place] += value
                self._counts[place] += 1

    def view(self) -> GpuTrend:
        """The steps up to the newest reading."""
        newest = self._means()
        if not self._columns:
            return GpuTrend(step_seconds=STEP_SECONDS)
        utilization, clock, power, temperature = (
            (*column, mean) for column, mean in zip(self._columns, newest, strict=True)
        )
        return GpuTrend(
            step_seconds=STEP_SECONDS,
            utilization_ratio=utilization,
            sm_clock_hertz=clock,
            power_watts=power,
            temperature_celsius=temperature,
        )

    def _means(self) -> Means:
        return tuple(
            round(total / count, digits) if count else None
            for total, count, digits in zip(self._sums, self._counts, DIGITS, strict=True)
        )

    def _past(self) -> list[Means]:
        """All steps before the present one, a column per quantity."""
        known = dict(self._closed)
        rows = [known.get(step, NOTHING) for step in range(self._step - POINTS + 1, self._step)]
        return [tuple(row[place] for row in rows) for place in range(4)]
