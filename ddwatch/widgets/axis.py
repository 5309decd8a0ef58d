"""Axes that hold still: round limits that include zero, changed rarely and never because of noise."""

import math
from bisect import bisect_left
from datetime import datetime, timedelta, tzinfo

ROUND = (1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
"""The limits of one decade; every one halves to a number that is short to write."""

HEADROOM = 1.1
"""A new limit leaves this much room above the peak, so that the next larger sample does not move it again."""

SHRINK = 0.4
"""The axis shrinks only when the peak has fallen below this share of its limit."""

TIME_STEPS = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600)
"""Distances of the time ticks in seconds."""


def round_up(value: float) -> float:
    """The smallest round limit that is not below `value`, which must be positive."""
    decade = 10.0 ** math.floor(math.log10(value))
    for _ in range(2):
        steps = [step * decade for step in ROUND]
        position = bisect_left(steps, value * (1 - 1e-12))
        if position < len(steps):
            return steps[position]
        decade *= 10
    return decade


def limit(previous: float | None, peak: float | None, floor: float) -> float:
    """The upper end of an axis from zero.

    Args:
        previous: the limit that is on the screen now.
        peak: the largest value that should be inside; None without any.
        floor: the smallest limit that makes sense for the quantity, itself round.
    """
    if peak is None or peak <= 0:
        return previous if previous is not None else floor
    if previous is not None and SHRINK * previous <= peak <= previous:
        return previous
    return max(floor, round_up(peak * HEADROOM))


def label(value: float) -> str:
    """A tick's label of at most four cells: 0, 0.5, 75, 150, 1.5k."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def time_ticks(start: float, end: float, zone: tzinfo, room: int) -> list[tuple[float, str]]:
    """Round local times inside `start` … `end`, at most `room` of them, with their labels."""
    if room < 1 or end <= start:
        return []
    step = next((step for step in TIME_STEPS if (end - start) / step <= room), TIME_STEPS[-1])
    pattern = "%H:%M:%S" if step < 60 else "%H:%M"
    moment = datetime.fromtimestamp(start, zone)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    passed = (moment - midnight).total_seconds()
    first = midnight + timedelta(seconds=math.ceil(passed / step) * step)
    ticks: list[tuple[float, str]] = []
    at = first.timestamp()
    while at <= end and len(ticks) < room:
        ticks.append((at, datetime.fromtimestamp(at, zone).strftime(pattern)))
        at += step
    return ticks
