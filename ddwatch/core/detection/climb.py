"""One window of the step detector: a sum of block residuals that climbs only while steps are too slow."""

from collections import deque
from math import log
from statistics import fmean

from ddwatch.core.detection.blocks import Block, Blocks, Line
from ddwatch.core.detection.noise import Noise
from ddwatch.core.detection.thresholds import block_noise, run_length, threshold

HOURS_BETWEEN = 5000.0
"""Hours of unbroken traffic for each false alarm of one window at most, while the model errs by its whole fit error."""
SMALLEST_BLOCK_SPREAD = 0.008
"""However many lines a block has: slow swings of a healthy machine do not average out."""
SMALLEST_FIT_ERROR = 0.015
ERROR_MULTIPLE = 3.0
"""A change smaller than this many fit errors cannot be promised."""
STEEPEST = log(1.35)
STEEPEST_SPREADS = 4.0
"""A block counts as this slow at most, or as so many of its spreads above the allowance."""
SMALLEST_MARGIN = 1.0
"""Spreads of a block between fit error and allowance at least: in loud traffic a smaller change cannot be promised."""
PENDING_SHARE = 0.5
FORGOTTEN_SHARE = 0.25
LEVEL_BLOCKS = 12
LEVEL_SHARE = 0.85
"""The mean of the newest blocks reaches this share of the change that is looked for."""
KEPT_BLOCKS = 256
CEILING = 2.0
"""The sum stops at this multiple of its threshold, so that it comes down soon after the change is over."""


class Climb:
    """A one-sided CUSUM (Page 1954) over blocks, with its allowance and threshold."""

    __slots__ = (
        "_assumed_seconds",
        "_fewest",
        "_largest_share",
        "_promise",
        "_seconds",
        "_slow_here",
        "_sought",
        "_steepest",
        "_values",
        "allowance",
        "between",
        "block_spread",
        "blocks",
        "error",
        "height",
        "onset",
        "slow_lines",
        "slow_share",
        "sum",
        "value",
    )

    def __init__(
        self,
        *,
        change: float,
        block_seconds: float,
        fewest_blocks: float,
        largest_share: float,
        assumed_seconds: float,
    ) -> None:
        """Takes the change that it promises to find.

        Args:
            change: as a ratio, 1.15 for 15 %.
            block_seconds: a block spans at least this.
            fewest_blocks: a change of just that size needs at least so many blocks.
            largest_share: one block brings this share of the threshold at most.
            assumed_seconds: between blocks, until it is known.
        """
        self._promise = self._sought = log(change)
        self._fewest = fewest_blocks
        self._largest_share = largest_share
        self._steepest = STEEPEST
        self._assumed_seconds = assumed_seconds
        self._seconds: float | None = None
        self.blocks = Blocks(block_seconds)
        self.sum = 0.0
        self.onset: Line | None = None
        """The last line before the sum began to climb."""
        self.value: float | None = None
        """The newest closed block."""
        self.slow_lines = 0
        """Lines above the allowance since the sum began to climb."""
        self._values: deque[float] = deque(maxlen=KEPT_BLOCKS)
        """Blocks since the sum began to climb."""
        self.slow_share = 0.0
        """Share of the newest closed block's lines above the allowance: a median hides up to a half."""
        self._slow_here = 0
        self.error = SMALLEST_FIT_ERROR
        self.allowance = self._promise / 2.0
        self.height = self._promise
        self.block_spread = 0.02
        self.between = 0.0

    def clear(self) -> None:
        """Starts anew."""
        self.blocks.clear()
        self.sum = 0.0
        self.onset = None
        self.value = None
        self.slow_lines = 0
        self.slow_share = 0.0
        self._slow_here = 0
        self._values.clear()

    @property
    def block_seconds(self) -> float:
        """Traffic seconds per block."""
        return self._assumed_seconds if self._seconds is None else self._seconds

    def tune(self, error: float, noise: Noise) -> None:
        """Sets allowance and threshold for a fit error and the noise of lines."""
        self.error = max(error, SMALLEST_FIT_ERROR)
        share, self.between = block_noise(noise.lag, self.blocks.typical)
        self.block_spread = max(share * noise.spread, SMALLEST_BLOCK_SPREAD)
        promise = max(
            self._promise, ERROR_MULTIPLE * self.error, self.error + SMALLEST_MARGIN * 2.0 * self.block_spread
        )
        self._sought = promise
        self.allowance = (self.error + promise) / 2.0
        blocks = HOURS_BETWEEN * 3600.0 / self.block_seconds
        chance = threshold(blocks, self._margin, self.between) * self.block_spread
        self.height = max(chance, self._fewest * (promise - self.allowance))
        steepest = max(STEEPEST, self.allowance + STEEPEST_SPREADS * self.block_spread)
        self._steepest = min(steepest, self.allowance + self._largest_share * self.height)

    @property
    def _margin(self) -> float:
        return (self.allowance - self.error) / self.block_spread

    def false_alarms_per_day(self) -> float:
        """Expected number on a day of unbroken traffic at the present block rate, at most."""
        between = run_length(self.height / self.block_spread, self._margin, self.between)
        return 86400.0 / self.block_seconds / between

    def add(self, line: Line) -> Block | None:
        """Takes the next line; returns the block that it closes."""
        before = self.blocks.before
        if line.residual > self.allowance:
            self.slow_lines += 1
            self._slow_here += 1
        block = self.blocks.add(line)
        if block is None:
            return None
        if before is not None:
            seconds = max(block.last.tick - before.tick, 0.01)
            self._seconds = seconds if self._seconds is None else self._seconds + 0.05 * (seconds - self._seconds)
        self.value = block.value
        self.slow_share, self._slow_here = self._slow_here / block.lines, 0
        if self.sum == 0.0:
            self.onset = block.before or block.first
        self._values.append(block.value)
        climbed = min(block.value, self._steepest) - self.allowance
        self.sum = min(max(0.0, self.sum + climbed), CEILING * self.height)
        if self.sum == 0.0:
            self.onset = None
            self.slow_lines = 0
            self._values.clear()
        return block

    def began(self, now: Line) -> Line:
        """The last line before the change that it suspects (its first line ever where there is none before)."""
        if self.onset is not None:
            return self.onset
        return self.blocks.before or self.blocks.first or now

    @property
    def suspects(self) -> bool:
        """Whether the sum, or what the open block would make of it, is half way up."""
        if self.sum >= PENDING_SHARE * self.height:
            return True
        open_value = self.blocks.provisional()
        if open_value is None:
            return False
        return self.sum + min(open_value, self._steepest) - self.allowance >= PENDING_SHARE * self.height

    @property
    def quiet(self) -> bool:
        """Whether the sum is low enough to forget a suspicion."""
        return self.sum < FORGOTTEN_SHARE * self.height and not self.suspects

    def reached(self, level: float) -> bool:
        """Whether it is slow enough for long enough.

        The newest block must still be slow, the newest few must lie near the change that is looked for (a sum also
        climbs slowly on half of it, which a warm day can bring), and the sum must stand at its threshold also when no
        block since the onset counts for more than the level that the newest lines have: what is over by now does not
        add to what is not.
        """
        if self.sum < self.height or self.value is None or self.value <= self.allowance:
            return False
        most, total = min(level, self._steepest), 0.0
        values = [min(value, most) for value in self._values]
        for value in values:
            total = max(0.0, total + value - self.allowance)
        return total >= self.height and fmean(values[-LEVEL_BLOCKS:]) >= LEVEL_SHARE * self._sought
