"""Compares the two witnesses of one rank, log lines and decode moments, over the same stretch of steps."""

import math
from statistics import median

from msgspec import Struct

from ddwatch.core.snapshot import Sample

FEWEST_LINES = 3
"""Clean lines that a stretch must hold to be compared."""
FEWEST_STEPS = 150
"""Steps that a stretch must hold: the moments end up to fifteen steps before the lines do, and those differ."""
LONGEST_STEP = 2.0
"""Seconds; SGLang leaves longer steps out of its moments."""
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


class Ratios:
    """The ratio of two witnesses over stretches: a single one proves nothing, the median of several does."""

    def __init__(self) -> None:
        self._kept: list[float] = []

    def add(self, ratio: float, tolerance: float) -> float | None:
        """Takes the ratio of one stretch; returns the median once it lies beyond the tolerance (relative)."""
        self._kept.append(ratio)
        del self._kept[:-COMPARISONS]
        middle = median(self._kept)
        return middle if len(self._kept) == COMPARISONS and abs(math.log(middle)) > tolerance else None

    def clear(self) -> None:
        """Forgets all stretches."""
        self._kept.clear()


class Agreement:
    """The running comparison of one rank."""

    def __init__(self) -> None:
        self._lines: list[Sample] = []
        self._told: list[Sample] = []
        self._ratios = {quantity: Ratios() for quantity in TOLERANCE}

    def line(self, sample: Sample) -> None:
        """Takes a log sample; one contaminated line spoils its stretch only for itself."""
        if sample.clean and (sample.step_seconds or 0.0) < LONGEST_STEP:
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
            ratio = self._ratios[quantity].add(log / told, TOLERANCE[quantity])
            if ratio is not None:
                return Disagreement(quantity, log, told, ratio)
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
