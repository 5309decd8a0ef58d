"""Prints how well the fit meets truths of other functional forms, for many seeds, against the stated targets.

Run `python -m tests.bench.expectation.bench_fit_targets [SEEDS]`. Each row is one truth over all seeds: 3 % noise, two
text classes, batches 1 to 16, the log's two decimals. The two last truths do not add up over batch and context, so
no sum of ramps can meet them everywhere: they show what the fit error then says.
"""

import math
import random
import sys
import time
from statistics import median

from ddwatch.core.expectation.quantiles import quantile
from ddwatch.core.expectation.retention import Observation, Retention
from ddwatch.core.expectation.step_fit import fit_step_time, ratio_band
from ddwatch.core.expectation.step_time import covers
from tests.core.expectation.worlds import GRAPHS, TRUTHS, Truth, World, padded, world

LINES = (900, 6000)
"""Clean lines of a short log and of a longer one."""
HELD_OUT = 2000


def per_request(batch: int, total: float) -> float:
    """Attention like a power of each request's own context."""
    return 0.018 + 0.020 * (1.0 - math.exp(-padded(batch) / 5.0)) + 0.0008 * batch * math.pow(total / batch / 1e3, 1.2)


def multiplied(batch: int, total: float) -> float:
    """Every part of the step grows with context."""
    return (0.018 + 0.020 * (1.0 - math.exp(-padded(batch) / 5.0))) * (1.0 + math.pow(total / 60_000.0, 1.1))


def with_outliers(item: Observation, draw: random.Random) -> Observation:
    """One line in twenty takes three times as long."""
    if draw.random() > 0.05:
        return item
    return Observation(batch=item.batch, total_context=item.total_context, step_seconds=3.0 * item.step_seconds)


class Row:
    """What was found for one truth."""

    def __init__(self) -> None:
        self.medians: list[float] = []
        self.tails: list[float] = []
        self.inside = 0
        self.asked = 0
        self.errors: list[float] = []
        self.seconds: list[float] = []
        self.accused_outside = 0

    def add(self, service: World, lines: int, outliers: bool) -> None:
        """Fits one seeded log and tests it on fresh samples of the same service."""
        kept = Retention()
        for _ in range(lines):
            item = service.observation()
            kept.add(with_outliers(item, service.random) if outliers else item)
        begin = time.perf_counter()
        fit = fit_step_time(list(kept), GRAPHS)
        self.seconds.append(time.perf_counter() - begin)
        low, high = ratio_band(fit.residual_quantiles[1], fit.residual_quantiles[5])
        misses = sorted(
            abs(fit.step_time.seconds(batch, total) / service.truth(batch, total) - 1.0)
            for batch, total in (service.load() for _ in range(1000))
            if covers(fit.regions, batch, total)
        )
        self.medians.append(quantile(misses, 0.5))
        self.tails.append(quantile(misses, 0.95))
        self.errors.append(fit.fit_error)
        for _ in range(HELD_OUT):
            item = service.observation()
            ratio = fit.step_time.seconds(item.batch, item.total_context) / item.step_seconds
            self.asked += 1
            self.inside += low <= ratio <= high
        reach = 1.25 * service.batches[1] * service.contexts[1]
        self.accused_outside += sum(
            covers(fit.regions, batch, total)
            for batch, total in ((1, 1.1 * reach), (16, 1.1 * reach), (21, 20_000.0), (64, 9e6), (1, 20.0))
        )

    def words(self) -> str:
        """The row as printed, percents."""
        return (
            f"{100 * median(self.medians):6.2f} {100 * max(self.medians):6.2f}   "
            f"{100 * median(self.tails):6.2f} {100 * max(self.tails):6.2f}   {100 * self.inside / self.asked:6.1f}   "
            f"{100 * median(self.errors):6.2f}   {self.accused_outside:7d}   {1e3 * median(self.seconds):6.0f}"
        )


def say(line: str) -> None:
    """One line of the table, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Prints the table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    truths: tuple[Truth, ...] = (*TRUTHS, multiplied, per_request)
    say(f"{seeds} seeds each; targets inside the evidence: misfit median <= 3 %, p95 <= 5 %, 87-93 % in the band,")
    say("nothing judged outside. The two last truths are not sums of batch and context.\n")
    say("                                 misfit median    misfit p95      in     stated   judged       ms")
    say("truth         lines outliers      mid  worst      mid  worst    band      error   outside   per fit")
    for truth in truths:
        for lines in LINES:
            for outliers in (False, True):
                row = Row()
                for seed in range(seeds):
                    row.add(world(truth, 100 + seed), lines, outliers)
                say(f"{truth.__name__:12} {lines:6d} {'5 %' if outliers else '-':>8}   {row.words()}")


if __name__ == "__main__":
    main()
