"""Compares the two witnesses of one rank, log lines and decode moments, over the same stretch of steps."""

import math
from statistics import median

from msgspec import Struct

from ddwatch.core.snapshot import Sample

FEWEST_LINES = 3
"""Clean lines that a stretch must hold to be compared."""
COMPARISONS = 7
"""Stretches whose median decides."""
TOLERANCE = {"step time": 0.10, "accept length": 0.05}
"""Relative difference beyond what rounding, window ends and 15-step refresh explain."""


class Disagreement(Struct, frozen=True):
    """The witnesses differ: the median ratio of log to moments over the last stretches."""

    quantity: str
    log: float
    moments: float
    ratio: float


class Agreement:
    """The running comparison of one rank."""

    def __init__(self) -> None:
        self._lines: list[Sample] = []
        self._ratios: dict[str, list[float]] = {quantity: [] for quantity in TOLERANCE}

    def line(self, sample: Sample) -> None:
        """Takes a log sample; one contaminated line spoils its stretch only for itself."""
        if sample.clean:
            self._lines.append(sample)
            del self._lines[:-1000]

    def moments(self, sample: Sample) -> Disagreement | None:
        """Takes the moments of the stretch that ends here; says so when the witnesses have come to differ."""
        lines, self._lines = self._lines, []
        if not sample.clean or len(lines) < FEWEST_LINES:
            return None
        for quantity in TOLERANCE:
            log = _mean([_value(line, quantity) for line in lines])
            told = _value(sample, quantity)
            if log is None or told is None or log <= 0 or told <= 0:
                continue
            ratios = self._ratios[quantity]
            ratios.append(log / told)
            del ratios[:-COMPARISONS]
            if len(ratios) == COMPARISONS and abs(math.log(median(ratios))) > TOLERANCE[quantity]:
                return Disagreement(quantity, log, told, median(ratios))
        return None


def _value(sample: Sample, quantity: str) -> float | None:
    return sample.step_seconds if quantity == "step time" else sample.accept_length


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
