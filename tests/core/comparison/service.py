"""A service with a stated step time whose samples hang together, for both sides of a comparison."""

from collections.abc import Callable
from math import exp, sqrt
from random import Random

from ddwatch.core.comparison.sides import Side
from ddwatch.core.snapshot import Sample
from ddwatch.demo.physics import step_seconds, text_class

Slow = Callable[[float], float]
"""Healthy seconds -> seconds."""


def unchanged(seconds: float) -> float:
    return seconds


class Service:
    """Requests one after another, each from its prompt to its end; time goes on as the steps do."""

    def __init__(self, seed: int, *, spread: float = 0.03, lag: float = 0.3, slow: Slow = unchanged) -> None:
        self.random = Random(seed)
        self.at = 1_777_636_800.0
        self.slow = slow
        self._spread, self._lag = spread, lag
        self._level = self.random.gauss(0.0, 1.0)

    def samples(
        self, lines: int, *, batch: int = 1, contexts: tuple[float, float] = (1500.0, 3000.0), accept: float = 4.0
    ) -> list[Sample]:
        """So many clean lines of one step each."""
        text = text_class("text", accept)
        low, high = contexts
        context = self.random.uniform(low, high)
        found = []
        for _ in range(lines):
            lengths = [text.draw(self.random) for _ in range(batch)]
            length = sum(lengths) / batch
            self._level = self._lag * self._level + sqrt(1.0 - self._lag**2) * self.random.gauss(0.0, 1.0)
            total = context * batch
            seconds = self.slow(step_seconds(batch, total)) * exp(self._spread * self._level)
            self.at += seconds
            found.append(
                Sample(
                    at=self.at,
                    batch=batch,
                    total_context_tokens=int(total),
                    context_tokens=int(total) / batch,
                    accept_length=length,
                    throughput=batch * length / seconds,
                    step_seconds=seconds,
                )
            )
            context += length
            if context > high:
                context = low
        return found


def side(*stretches: list[Sample]) -> Side:
    """One side of a comparison."""
    found = Side()
    for stretch in stretches:
        for sample in stretch:
            found.see(sample)
    return found
