"""Compares by itself after every restart seen live: steps before and after, once enough of them are alike."""

from ddwatch.core.comparison.matching import FEWEST_MATCHED
from ddwatch.core.comparison.outcome import SMALLEST_STEP, matched_steps
from ddwatch.core.comparison.sides import Side
from ddwatch.core.comparison.words import percent
from ddwatch.core.history import EventLog
from ddwatch.core.snapshot import Sample

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


class RestartComparison:
    """Takes the clean samples that are judged; keeps those before the last restart and those since."""

    def __init__(self, events: EventLog) -> None:
        """Begins; what it finds goes to the event list."""
        self._events = events
        self._before: Side | None = None
        self._side = Side()
        self._restarted_at: float | None = None
        self._waiting = 0

    def restart(self, at: float, coupled: bool | None) -> None:
        """The server began anew; `coupled` says whether its DP ranks step together now.

        What ran too shortly to be compared does not take the place of what stood before it: a server that is
        restarted three times in a row is compared with how it was before the first time.
        """
        if self._side.clean >= FEWEST_MATCHED:
            self._before = self._side
        self._side = Side(coupled)
        self._restarted_at = at
        self._waiting = 0

    def see(self, sample: Sample) -> None:
        """Takes a sample, and tells once after each restart what it did to the steps."""
        if self._side.see(sample) is None or self._restarted_at is None or self._before is None:
            return
        self._waiting += 1
        if sample.at - self._restarted_at > LONGEST_SECONDS:
            self._restarted_at = None
        elif self._waiting >= EVERY:
            self._waiting = 0
            if self._told(sample.at, self._before):
                self._restarted_at = None

    def _told(self, at: float, before: Side) -> bool:
        steps = matched_steps(before, self._side)
        if steps is None:
            return False
        ratio = steps.ratio
        reach = (ratio.high - ratio.low) / 2.0
        if reach > WIDEST or (reach > NARROW and self._side.clean < MANY_SAMPLES):
            return False
        text = f"since the restart: step time {percent(ratio.value)} ±{reach * 100.0:.1f} at equal batch and context"
        slower = ratio.low > 1.0 + SMALLEST_STEP
        self._events.add(at, "comparison", "notice" if slower else "ok", text)
        return True
