"""Compares the two witnesses of one rank, log lines and decode moments, over the same stretch of steps."""

import math
from statistics import median

from msgspec import Struct

from ddwatch.core.snapshot import Sample

FEWEST_LINES = 3
"""Clean lines that a stretch must hold to be compared."""
FEWEST_STEPS = 150
"""Steps that a stretch must hold: the moments end up to fifteen steps before the lines do, and those differ."""
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
        self._told: list[Sample] = []
        self._ratios: dict[str, list[float]] = {quantity: [] for quantity in TOLERANCE}

    def line(self, sample: Sample) -> None:
        """Takes a log sample; one contaminated line spoils its stretch only for itself."""
        if sample.clean:
            self._lines.append(sample)
            del self._lines[:-1000]

    def moments(self, sample: Sample) -> Disagreement | None:
        """Takes the moments of the stretch that ends here; says so when the witnesses have come to differ."""
        if not sample.clean:
            self._lines, self._told = [], []
            return None
        self._told.append(sample)
        # A source that does not count its steps is compared reading by reading.
        if sum(FEWEST_STEPS if one.steps is None else one.steps for one in self._told) < FEWEST_STEPS:
            return None
        lines, self._lines = self._lines, []
        readings, self._told = self._told, []
        if len(lines) < FEWEST_LINES:
            return None
        for quantity in TOLERANCE:
            log = _mean([(_value(line, quantity), _weight(line, quantity)) for line in lines])
            told = _mean([(_value(one, quantity), _weight(one, quantity) * (one.steps or 1)) for one in readings])
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


def _weight(sample: Sample, quantity: str) -> float:
    """A step counts once; an accept length counts once per request."""
    batch = sample.mean_batch or sample.batch
    return 1.0 if quantity == "step time" or not batch else float(batch)


def _mean(values: list[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0 else None
