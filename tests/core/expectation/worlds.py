"""Synthetic services whose true step time has another form than the model: smooth in context, saturating, stairs."""

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from ddwatch.core.expectation.retention import Observation
from ddwatch.core.snapshot import Flag, Sample

GRAPHS = (1, 2, 4, 8, 12, 16)
NOISE = 0.03
CLASSES = {"predictable": 7.4, "reasoning": 2.9}


def padded(batch: int) -> int:
    """The captured graph that a batch runs in."""
    return next(size for size in GRAPHS if size >= batch)


def power(batch: int, total: float) -> float:
    """Attention like a power of total context, cost of experts saturating with the padded batch."""
    return 0.018 + 0.020 * (1.0 - math.exp(-padded(batch) / 5.0)) + 0.050 * math.pow(total / 40_000.0, 1.25)


def logarithmic(batch: int, total: float) -> float:
    """Concave in context, hyperbolic in the padded batch."""
    return 0.020 + 0.030 * padded(batch) / (padded(batch) + 6.0) + 0.020 * math.log1p(total / 4_000.0)


def logistic(batch: int, total: float) -> float:
    """A kernel switch: cheap at first, then steep, then flat again."""
    return (
        0.020 + 0.030 * padded(batch) / (padded(batch) + 6.0) + 0.080 / (1.0 + math.exp((40_000.0 - total) / 9_000.0))
    )


def steep(batch: int, total: float) -> float:
    """Attention that grows much faster than context."""
    return 0.025 + 0.015 * (1.0 - math.exp(-padded(batch) / 4.0)) + 0.115 * math.pow(total / 88_000.0, 1.6)


Truth = Callable[[int, float], float]
TRUTHS: tuple[Truth, ...] = (power, logarithmic, logistic, steep)


class World(NamedTuple):
    """One service: its truth, and a seeded stream of what its log says."""

    truth: Truth
    random: random.Random
    batches: tuple[int, int] = (1, 16)
    contexts: tuple[float, float] = (200.0, 16_000.0)

    def load(self) -> tuple[int, float]:
        """A batch and a total context, contexts per request spread evenly over their logarithm."""
        low, high = self.contexts
        context = math.exp(self.random.uniform(math.log(low), math.log(high)))
        batch = self.random.randint(*self.batches)
        return batch, float(int(batch * context))

    def accept(self, text_class: str) -> float:
        """Accept length of a window of that text, as printed."""
        return round(CLASSES[text_class] * math.exp(self.random.gauss(0.0, 0.08)), 2)

    def observation(self, noise: float = NOISE) -> Observation:
        """One clean window: accept length and throughput with the log's two decimals."""
        batch, total = self.load()
        text_class = self.random.choice(sorted(CLASSES))
        accept = self.accept(text_class)
        step = self.truth(batch, total) * math.exp(self.random.gauss(0.0, noise))
        throughput = round(batch * accept / step, 2)
        return Observation(
            batch=batch,
            total_context=total,
            step_seconds=batch * accept / throughput,
            accept_length=accept,
            throughput=throughput,
            own_batch=batch,
            context_tokens=total / batch,
            text_class=text_class,
        )

    def sample(self, at: float, batch: int, total: float, flags: tuple[Flag, ...] = (), slower: float = 1.0) -> Sample:
        """One window at a given load."""
        accept = self.accept("reasoning")
        step = slower * self.truth(batch, total) * math.exp(self.random.gauss(0.0, NOISE))
        throughput = round(batch * accept / step, 2)
        return Sample(
            at=at,
            batch=batch,
            total_context_tokens=int(total),
            context_tokens=total / batch,
            accept_length=accept,
            throughput=throughput,
            step_seconds=batch * accept / throughput,
            flags=flags,
        )


def world(truth: Truth, seed: int) -> World:
    """A seeded world."""
    return World(truth, random.Random(seed))


def log_lines(service: World, stretches: int, lines: int = 12) -> list[str]:
    """A log of that many stretches at one batch each, every one begun by a prefill that spoils its first line."""
    found = ["[2026-05-01 00:00:00] The server is fired up and ready to roll!"]
    second = 0.0
    for _ in range(stretches):
        batch, total = service.load()
        text_class = service.random.choice(sorted(CLASSES))
        found.append(
            f"{_stamp(second)} Prefill batch, #new-seq: {batch}, #new-token: {int(total)}, #cached-token: 0, "
            "token usage: 0.01, #running-req: 0, #queue-req: 0,"
        )
        for line in range(lines):
            accept = service.accept(text_class)
            total += batch * accept
            step = service.truth(batch, total) * math.exp(service.random.gauss(0.0, NOISE))
            second += step
            throughput = batch * accept / step * (0.5 if line == 0 else 1.0)
            found.append(
                f"{_stamp(second)} Decode batch, #running-req: {batch}, #token: {int(total)}, token usage: 0.01, "
                f"accept len: {accept:.2f}, accept rate: 0.09, cuda graph: True, "
                f"gen throughput (token/s): {throughput:.2f}, #queue-req: 0"
            )
        second += 1.0
    return found


def _stamp(second: float) -> str:
    whole = int(second)
    return f"[2026-05-01 {whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02} TP0]"
