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
"""Without a before, waiting for this share of the step is worth saying."""


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


def _middle(waits: Sequence[Wait]) -> tuple[float, float, float]:
    return (
        median(one.step_seconds for one in waits),
        median(one.forward_seconds for one in waits),
        median(one.seconds for one in waits),
    )


def waiting(since: float, waits: Sequence[Wait]) -> tuple[str, str] | None:
    """What step and forward times say of steps that are slow since a moment: a cause and what to do; None for nothing.

    Args:
        since: onset of the slow steps, seconds since the epoch.
        waits: stretches, oldest first.
    """
    after = [one for one in waits if one.at > since + STRETCH_SECONDS][-LATELY:]
    before = [one for one in waits if one.at <= since][-LATELY:]
    if not after:
        return None
    step, forward, wait = _middle(after)
    if len(before) < FEWEST_BEFORE:
        if wait < max(LEAST_SECONDS, BOUND_SHARE * step):
            return None
        return f"CPU-bound: the GPU waits {_ms(wait)} of each {_ms(step)} step", CPU
    _, forward_before, wait_before = _middle(before)
    longer, more = wait - wait_before, forward - forward_before
    if max(longer, more) < max(LEAST_SECONDS, LEAST_SHARE * step):
        return None
    if longer >= more:
        return f"CPU-bound: the GPU waits {_ms(wait)} of each step ({_ms(wait_before)} before)", CPU
    return f"the GPU's own forward pass takes {_ms(forward)} ({_ms(forward_before)} before); the CPU is not it", GPU


CPU = "look at the scheduler's CPU: py-spy top --pid PID; one core at 100 %, or taken by others, makes the GPU wait"
GPU = "look at the cards: clocks, throttling and links under load (GPU panel, nvidia-smi -q -d PERFORMANCE)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
