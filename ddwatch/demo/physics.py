"""The truth of the simulated service: step times, accept lengths and prefill times, free of any clock.

The step times are those of the founding incident (DESIGN.md section 5.7); tests compare what ddwatch reads
in the simulated log with the functions here.
"""

import math
from bisect import bisect_left
from random import Random

from msgspec import Struct

STEP_KNOTS: tuple[tuple[float, float], ...] = ((64, 0.029), (1024, 0.034), (3072, 0.065), (5500, 0.144))
"""Step time of one request in seconds over its context in tokens: measured points, joined by straight lines."""

BATCH_KNOTS: tuple[tuple[float, float], ...] = (
    (1, 0.0),
    (2, 0.004),
    (4, 0.010),
    (8, 0.018),
    (16, 0.030),
    (24, 0.040),
    (32, 0.048),
)
"""Seconds that a batch adds to the step of one request: steep while new experts are touched, flatter afterwards."""

GRAPH_SIZES: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 24, 32)
"""Captured batch sizes; a batch in between is padded up to the next one, which makes stairs in step time."""

NOISE_SIGMA = 0.03
"""Standard deviation of ln(step time / truth)."""
NOISE_MEMORY = 0.3
"""Lag-1 autocorrelation of that noise."""

BLOCK_SIZE = 16
"""Drafter width: the most tokens that one step can commit for a request."""
TREE_BUDGET = 32
"""Draft nodes that one verify checks for a request; the printed accept rate divides by them."""


def _joined(knots: tuple[tuple[float, float], ...], x: float) -> float:
    """Linear interpolation; constant before the first knot, on along the last slope behind the last one."""
    if x <= knots[0][0]:
        return knots[0][1]
    index = min(bisect_left([knot for knot, _ in knots], x), len(knots) - 1)
    (x0, y0), (x1, y1) = knots[index - 1], knots[index]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def padded(batch: int) -> int:
    """The captured size that a batch runs in; above the largest one it runs as it is, without a graph."""
    index = bisect_left(GRAPH_SIZES, batch)
    return GRAPH_SIZES[index] if index < len(GRAPH_SIZES) else batch


def step_seconds(batch: int, total_context_tokens: float) -> float:
    """Mean duration of one draft + verify step, in seconds, before noise."""
    return _joined(STEP_KNOTS, total_context_tokens) + _joined(BATCH_KNOTS, padded(batch))


def prefill_seconds(new_tokens: int, context_tokens: int) -> float:
    """Duration of one prefill pass over `new_tokens` behind `context_tokens` already in the cache."""
    return 0.06 + new_tokens / 4200 + new_tokens * (context_tokens + new_tokens / 2) / 9e8


class Noise:
    """Multiplicative noise with a short memory: ln(factor) is an AR(1) process around zero."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._innovation = NOISE_SIGMA * math.sqrt(1 - NOISE_MEMORY**2)
        self._level = random.gauss(0, NOISE_SIGMA)

    def factor(self) -> float:
        """The factor of the next step."""
        self._level = NOISE_MEMORY * self._level + self._random.gauss(0, self._innovation)
        return math.exp(self._level)


class TextClass(Struct, frozen=True):
    """A kind of text and how far the drafter gets on it.

    Each draft is accepted with the same chance, independently, until the first miss (the model behind the
    expected accept length of speculative decoding, Leviathan et al. 2023), so the accept length is geometric,
    cut at the block size.
    """

    name: str
    chance: float
    block_size: int = BLOCK_SIZE

    @property
    def mean(self) -> float:
        """Mean accept length, bonus token included: the sum of chance^k for k = 0 .. block size - 1."""
        return sum(self.chance**k for k in range(self.block_size))

    @property
    def variance(self) -> float:
        """Variance of the accept length of one step."""
        second = sum((2 * k + 1) * self.chance**k for k in range(self.block_size))
        return second - self.mean**2

    def draw(self, random: Random) -> int:
        """The accept length of one request in one step: 1 to the block size."""
        roll = random.random()
        if roll <= self.chance ** (self.block_size - 1):
            return self.block_size
        return 1 + int(math.log(roll) / math.log(self.chance))


def text_class(name: str, mean: float, block_size: int = BLOCK_SIZE) -> TextClass:
    """The class whose accept length has this mean; `mean` lies strictly between 1 and the block size."""
    if not 1 < mean < block_size:
        raise ValueError(f"a mean accept length lies between 1 and the block size {block_size}, not {mean}")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if TextClass(name, middle, block_size).mean < mean:
            low = middle
        else:
            high = middle
    return TextClass(name, (low + high) / 2, block_size)


PREDICTABLE = text_class("predictable", 7.4)
CODE = text_class("code", 5.2)
REASONING = text_class("reasoning", 2.9)
TEXT_CLASSES: tuple[TextClass, ...] = (PREDICTABLE, CODE, REASONING)
