"""How long the GPU waits in each step, and whether that is what made the steps slow: the CPU's share of a slow step."""

from collections import deque
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

STRETCH_SECONDS = 10.0
"""Readings within this time are one stretch."""
STRETCHES_KEPT = 720
"""Two hours of traffic."""
FEWEST_BEFORE = 3
LATELY = 30
"""Stretches on either side of an onset that are looked at."""
LEAST_SECONDS = 0.001
LEAST_SHARE = 0.05
"""A growth below both of these explains nothing."""
BOUND_SHARE = 0.2
"""Without a before and an expected time, waiting for this share of the step is worth saying."""
MOST_OF_IT, LITTLE_OF_IT = 0.5, 0.25
"""Shares of the excess: a wait that explains so much is the cause, one that explains no more than that is not it."""


class Wait(Struct, frozen=True):
    """One stretch of steady decoding: the whole step beside the GPU's part of it."""

    at: float
    """Its end."""
    step_seconds: float
    forward_seconds: float

    @property
    def seconds(self) -> float:
        """How long the GPU waits in each step."""
        return max(0.0, self.step_seconds - self.forward_seconds)


class Waits:
    """Collects pairs of step and forward time into stretches."""

    def __init__(self) -> None:
        self._open: list[tuple[float, float]] = []
        self._began = 0.0
        self._kept: deque[Wait] = deque(maxlen=STRETCHES_KEPT)
        self._all: tuple[Wait, ...] = ()

    def add(self, at: float, step_seconds: float, forward_seconds: float) -> None:
        """Takes a step time and the forward time of the same seconds."""
        if self._open and at - self._began >= STRETCH_SECONDS:
            self.close(at)
        if not self._open:
            self._began = at
        self._open.append((step_seconds, forward_seconds))

    def close(self, at: float) -> None:
        """Ends the open stretch: what comes next is of another load or process."""
        if self._open:
            steps, forwards = zip(*self._open, strict=True)
            self._kept.append(Wait(at, median(steps), median(forwards)))
            self._all = tuple(self._kept)
            self._open = []

    def all(self) -> tuple[Wait, ...]:
        """The stretches that have ended, oldest first."""
        return self._all


def waiting(since: float, waits: Sequence[Wait], factor: float | None = None) -> tuple[str, str] | None:
    """What step and forward times say of steps that are slow since a moment: a cause and what to do; None for nothing.

    The context moves step and forward time alike, so only what the GPU waits is compared: with what it waited before,
    and with how much longer the steps are than they should be.

    Args:
        since: onset of the slow steps, seconds since the epoch.
        waits: stretches, oldest first.
        factor: measured over expected step time, where that is known.
    """
    after = [one for one in waits if one.at > since + STRETCH_SECONDS][-LATELY:]
    before = [one.seconds for one in waits if one.at <= since][-LATELY:]
    if not after:
        return None
    step, wait = median(one.step_seconds for one in after), median(one.seconds for one in after)
    known = len(before) >= FEWEST_BEFORE
    longer = wait - median(before) if known else wait
    excess = step * (1.0 - 1.0 / factor) if factor is not None and factor > 1.0 else None
    least = max(LEAST_SECONDS, (LEAST_SHARE if known else BOUND_SHARE) * step)
    if longer >= (least if excess is None else max(LEAST_SECONDS, MOST_OF_IT * excess)):
        then = f"each step ({_ms(median(before))} before)" if known else f"each {_ms(step)} step"
        return f"CPU-bound: the GPU waits {_ms(wait)} of {then}", CPU
    if excess is not None and excess >= LEAST_SECONDS and longer < LITTLE_OF_IT * excess:
        return f"the GPU's own forward pass takes longer: it waits only {_ms(wait)} of each {_ms(step)} step", GPU
    return None


CPU = "look at the scheduler's CPU: py-spy top --pid PID; one core at 100 %, or taken by others, makes the GPU wait"
GPU = "look at the cards: clocks, throttling and links under load (GPU panel, nvidia-smi -q -d PERFORMANCE)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
