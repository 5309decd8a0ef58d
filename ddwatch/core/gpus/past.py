"""The last readings of one card, bounded: what it did just now, what it did while it was at work, and its trend."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddwatch.core.gpus.normal import Normal
from ddwatch.core.gpus.reasons import BAD
from ddwatch.core.gpus.trend import Trend
from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import GpuTrend

WINDOW = 10
"""Readings that a condition is reached from."""
BUSY = 0.5
"""Utilisation from which a card is at work."""
BUSY_READINGS = 5
"""Readings in a row after which it has been at work long enough for clocks and link to have risen."""
ENOUGH = 5
"""Readings under load without which nothing is said about clocks or link."""
LIMIT_CHANGED = 0.05
"""A power limit that moved by more than this makes another card of it."""
BREAK_SECONDS = 30.0
BREAK_READINGS = 5.0
"""After a silence this long, and this many times as long as usual, the windows begin anew."""

Quantity = Callable[[GpuCard], float | None]


class Seen(NamedTuple):
    """A reading and when it was taken."""

    at: float
    card: GpuCard


class CardPast:
    """One card."""

    def __init__(self, at: float, card: GpuCard) -> None:
        self.first = card
        """The first reading: what had been counted before the watch began."""
        self.recent: deque[Seen] = deque(maxlen=WINDOW)
        self.busy: deque[Seen] = deque(maxlen=WINDOW)
        self.sm_clock = Normal()
        self.memory_clock = Normal()
        self._busy_in_a_row = 0
        self._pace = 0.0
        self._trend = Trend()
        self.at = at
        self.card = card
        self.see(at, card)

    def see(self, at: float, card: GpuCard) -> None:
        """Takes the next reading."""
        gap = at - self.at
        if gap > max(BREAK_SECONDS, BREAK_READINGS * self._pace):
            self.recent.clear()
            self.busy.clear()
            self._busy_in_a_row = 0
        self._pace = gap
        if card.lost is None and self.first.lost is not None:
            self.first = card
        if self._limit_changed(card):
            self.sm_clock.reset()
            self.memory_clock.reset()
        self.at, self.card = at, card
        self.recent.append(Seen(at, card))
        busy = card.utilization_ratio is not None and card.utilization_ratio >= BUSY
        self._busy_in_a_row = self._busy_in_a_row + 1 if busy else 0
        if self.loaded:
            self.busy.append(Seen(at, card))
        self._trend.see(at, card)

    @property
    def loaded(self) -> bool | None:
        """Whether it has been at work for some seconds; None where utilisation is not reported."""
        if self.card.lost is not None or self.card.utilization_ratio is None:
            return None
        return self._busy_in_a_row >= BUSY_READINGS

    @property
    def resting(self) -> bool:
        """Whether none of the last readings found it at work; a short pause between two requests is no rest."""
        newest = list(self.recent)[-BUSY_READINGS:]
        ratios = [seen.card.utilization_ratio for seen in newest]
        return all(ratio is not None and ratio < BUSY for ratio in ratios)

    def learn(self) -> None:
        """Takes the newest reading as normal; call it only while nothing is wrong with the card."""
        if self.loaded and not (self.card.reasons or 0) & BAD:
            self.sm_clock.learn(self.card.sm_clock_hertz)
            self.memory_clock.learn(self.card.memory_clock_hertz)

    def under_load(self, quantity: Quantity, share: float = 0.5) -> float | None:
        """What a quantity does not exceed in this share of the last readings under load (0.5: their lower median).

        None without enough of them, or at rest.
        """
        if not self.loaded:
            return None
        values = sorted(value for seen in self.busy if (value := quantity(seen.card)) is not None)
        return values[int(share * (len(values) - 1))] if len(values) >= ENOUGH else None

    def since(self, holds: Callable[[GpuCard], bool]) -> float:
        """When a condition began, as far as the window reaches."""
        seen: Sequence[Seen] = self.busy if self.loaded else self.recent
        return next((item.at for item in seen if holds(item.card)), self.at)

    def trend(self) -> GpuTrend:
        """The last minutes in steps."""
        return self._trend.view()

    def _limit_changed(self, card: GpuCard) -> bool:
        before, after = self.card.power_limit_watts, card.power_limit_watts
        return before is not None and after is not None and abs(after - before) > LIMIT_CHANGED * before
