"""Compares by itself after every restart seen live: steps before and after, once enough of them are alike."""

from typing import NamedTuple

from ddwatch.core.comparison.matching import FEWEST_MATCHED
from ddwatch.core.comparison.outcome import SMALLEST_STEP, matched_steps
from ddwatch.core.comparison.sides import Side
from ddwatch.core.comparison.words import percent
from ddwatch.core.snapshot import Sample, Severity

EVERY = 25
"""Clean samples between two looks."""
NARROW = 0.02
"""An interval that reaches no further than this to either side is told at once."""
MANY_SAMPLES = 400
"""After so many clean samples an interval is told however wide it is."""
WIDEST = 0.15
"""An interval that reaches further than this tells nothing and waits for more."""
LONGEST_SECONDS = 1800.0
"""After this long it is no longer news."""


class Finding(NamedTuple):
    """What is posted."""

    severity: Severity
    text: str


class RestartComparison:
    """Takes the clean samples that are judged; keeps those before the last restart and those since."""

    def __init__(self) -> None:
        self._before: Side | None = None
        self._side = Side()
        self._restarted_at: float | None = None
        self._waiting = 0

    def restart(self, at: float, coupled: bool | None = None) -> None:
        """The server began anew.

        What ran too shortly to be compared does not take the place of what stood before it: a server that is
        restarted three times in a row is compared with how it was before the first time.
        """
        if self._side.clean >= FEWEST_MATCHED or self._before is None:
            self._before = self._side
        self._side = Side(coupled)
        self._restarted_at = at
        self._waiting = 0

    def see(self, sample: Sample) -> Finding | None:
        """Takes a sample; returns what is to be told, once after each restart."""
        if self._side.see(sample) is None or self._restarted_at is None:
            return None
        if sample.at - self._restarted_at > LONGEST_SECONDS:
            self._restarted_at = None
            return None
        self._waiting += 1
        if self._waiting < EVERY:
            return None
        self._waiting = 0
        finding = self._finding()
        if finding is not None:
            self._restarted_at = None
        return finding

    def _finding(self) -> Finding | None:
        steps = matched_steps(self._before, self._side) if self._before is not None else None
        if steps is None:
            return None
        ratio = steps.ratio
        reach = (ratio.high - ratio.low) / 2.0
        if reach > WIDEST or (reach > NARROW and self._side.clean < MANY_SAMPLES):
            return None
        slower = ratio.low > 1.0 + SMALLEST_STEP
        text = f"since the restart: step time {percent(ratio.value)} ±{reach * 100.0:.1f} at equal batch and context"
        return Finding("notice" if slower else "ok", text)
