"""Lines of a service whose true step time has another form than the model, for tests of the detectors."""

from collections.abc import Callable, Iterator
from math import exp, sqrt
from random import Random

from ddwatch.core.detection.noise import Noise
from ddwatch.core.detection.step import StepDetector
from ddwatch.core.detection.suspicion import Phase
from ddwatch.core.expectation.curve import Curve
from ddwatch.core.expectation.step_time import StepTime
from ddwatch.core.snapshot import Sample
from ddwatch.demo.physics import text_class

MODEL = StepTime(constant=0.024, batch=Curve((1.0, 16.0), (0.0016,)), context=Curve((0.0, 40000.0), (1.4e-6,)))
"""What ddwatch has learned."""

START = 1_777_636_800.0


def truth(batch: float, total: float) -> float:
    """A smooth curve that the model meets within about two percent."""
    return MODEL.seconds(batch, total) * (1.0 + 0.015 * (total / 20000.0 - 0.5))


Slow = Callable[[float, float, float], float]
"""Healthy seconds, total context, seconds since the change -> seconds."""


class Lines:
    """Feeds one detector line by line; `at` moves as the steps do."""

    def __init__(
        self,
        *,
        steps: int = 40,
        spread: float = 0.02,
        lag: float = 0.3,
        seed: int = 1,
        contexts: tuple[float, float] = (2000.0, 18000.0),
        start: float = START,
        noise: Noise | None = None,
    ) -> None:
        self.random = Random(seed)
        self.detector = StepDetector(MODEL, noise if noise is not None else Noise(spread, lag))
        self.at = start
        self.steps = steps
        self.contexts = contexts
        self.total = contexts[0]
        self.batch = 1
        self.slow: Slow | None = None
        self.changed_at = start
        self.lines = 0
        self.phases: list[Phase | None] = []
        """The phase after every line, equal neighbours once."""
        self._spread, self._lag = spread, lag
        self._level = 0.0

    def change(self, slow: Slow | None) -> None:
        """From the next line on."""
        self.slow, self.changed_at, self.lines = slow, self.at, 0

    def line(self, extra: float = 0.0) -> None:
        """One line, `extra` seconds longer than its steps."""
        low, high = self.contexts
        self.total = low if self.total > high else self.total + 4.0 * self.steps * self.batch
        seconds = truth(self.batch, self.total)
        if self.slow is not None:
            seconds = self.slow(seconds, self.total, self.at - self.changed_at)
        self._level = self._lag * self._level + sqrt(1.0 - self._lag**2) * self.random.gauss(0.0, 1.0)
        seconds = seconds * exp(self._spread * self._level) + extra / self.steps
        self.at += seconds * self.steps
        self.lines += 1
        self.detector.see(
            self.at,
            seconds,
            MODEL.seconds(self.batch, self.total),
            batch=self.batch,
            total_context=self.total,
            fit_error=0.01,
        )
        self._remember()

    def _remember(self) -> None:
        phase = self.detector.phase(self.at)
        if not self.phases or self.phases[-1] != phase:
            self.phases.append(phase)

    def play(self, lines: int) -> None:
        """So many lines."""
        for _ in range(lines):
            self.line()

    def play_seconds(self, seconds: float) -> None:
        """So many seconds of traffic."""
        end = self.at + seconds
        while self.at < end:
            self.line()

    def until_firing(self, seconds: float = 1800.0) -> int | None:
        """Lines since the change until it fires; None if it does not."""
        end = self.at + seconds
        while self.at < end:
            self.line()
            if self.phases[-1] == "firing":
                return self.lines
        return None


def factor(ratio: float) -> Slow:
    """Every step takes this many times as long."""
    return lambda healthy, total, seconds: healthy * ratio


def accept_samples(
    random: Random, mean: float, lines: int, *, start: float = START, steps: int = 40, dp_rank: int | None = None
) -> Iterator[Sample]:
    """Clean samples whose accept length scatters as that of geometric acceptance does, 50 ms of each step apart."""
    text = text_class("text", mean)
    for number in range(lines):
        length = sum(text.draw(random) for _ in range(steps)) / steps
        yield Sample(
            at=start + 0.05 * steps * number,
            dp_rank=dp_rank,
            batch=1,
            total_context_tokens=4000,
            context_tokens=4000.0,
            accept_length=round(length, 2),
            throughput=round(length / 0.03, 2),
            step_seconds=0.03,
        )
