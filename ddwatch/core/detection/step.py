"""Step time of one coupled rank group against the model: is the machine or the software slower than it was?

Two windows look at the same clean lines: blocks of three lines for changes of 15 % and more, blocks of ten seconds for
changes of 10 %. Running faster than expected never counts. Firing needs a sum of block residuals at its threshold,
three slow lines, more than three seconds of traffic since the onset, and that it is still slow: a hiccup is none.
"""

from collections import deque
from itertools import pairwise
from math import log
from statistics import median

from msgspec import Struct

from ddwatch.core.detection.blocks import Line
from ddwatch.core.detection.centre import Centres
from ddwatch.core.detection.climb import SMALLEST_FIT_ERROR, Climb
from ddwatch.core.detection.noise import Noise, SeenNoise
from ddwatch.core.detection.shape import Excess, Shape
from ddwatch.core.detection.suspicion import SHOWN_SECONDS, Phase, Phases, Suspicion
from ddwatch.core.expectation.step_time import StepTime

NAME = "slow-step"
FAST_CHANGE = 1.15
SLOW_CHANGE = 1.10
SLOW_BLOCK_SECONDS = 10.0
FEWEST_SLOW_LINES = 3
LEVEL_MARGIN = 2.5
"""Spreads of a line by which blocks may lie above the newest lines."""
LOOKED_AT = 8
"""Newest lines among which slow ones must agree."""
MANY_SLOW_LINES = 6
"""So many slow lines among them need not agree."""
FIRING_SECONDS = 3.0
"""Traffic since the onset without which nothing fires: longer than a hiccup."""
LONGEST_STEP_OF_TIME = 60.0
"""A pause between two clean lines counts as this much traffic at most."""
KEPT_LINES = 512
"""Lines from before firing that the shape of the excess can be read from."""
STALE_SECONDS = 3600.0
"""Without clean lines for so long a firing suspicion is resolved: nothing speaks for it any more."""
RELEASE_BLOCKS = 2.5
"""Slow-window blocks at the expected speed that it takes to resolve, at least."""
RELEASE_SLOW_SHARE = 0.25
"""A block with more slow lines than this is none at the expected speed, whatever its median."""
PAUSE_SECONDS = 30.0
"""Between two lines where the change began: what is slow since a pause is told as such."""
TUNE_EVERY = 16
"""Lines after which allowance and threshold follow the block rate."""


class Stated(Struct, frozen=True, kw_only=True):
    """What the detector says of itself now."""

    false_alarms_per_day: float
    """At most, on a day of unbroken traffic at the present line rate (block simulation)."""
    spread: float
    """Standard deviation of one line's residual."""
    lag: float
    """Correlation of consecutive lines."""
    fit_error: float
    allowance: float
    """Residual above which the fast window climbs."""
    threshold: float
    lines_to_find: float | None
    """Clean lines that a slowdown of 15 % needs on average where the model is right; None if it cannot be found."""


class StepDetector:
    """Judges the lines of one group. Told every time, it asks no clock; the same lines give the same answers."""

    def __init__(self, model: StepTime, noise: Noise, *, group: str | None = None) -> None:
        self._stated = noise
        self._seen = SeenNoise(noise)
        self._group = group
        self._fast = Climb(
            change=FAST_CHANGE, block_seconds=0.0, fewest_blocks=2.0, largest_share=2.0, assumed_seconds=0.15
        )
        self._slow = Climb(
            change=SLOW_CHANGE,
            block_seconds=SLOW_BLOCK_SECONDS,
            fewest_blocks=3.0,
            largest_share=0.67,
            assumed_seconds=SLOW_BLOCK_SECONDS,
        )
        self._phases = Phases()
        self._lines: deque[Line] = deque(maxlen=KEPT_LINES)
        self._centres = Centres()
        self._excess = Excess(model)
        self._tick = 0.0
        self._at: float | None = None
        self._last_at = 0.0
        self._since_tuned = 0
        self._relief = 0.0
        self._lines_before = 0
        self._pause: float | None = None
        self._fit_error = 0.0
        self._tune(0.0)

    def use(self, model: StepTime, noise: Noise) -> None:
        """Judges by a model that has learned more; what is suspected stays."""
        self._stated = noise
        self._seen.noise = Noise(max(noise.spread, self._seen.noise.spread), max(noise.lag, self._seen.noise.lag))
        self._excess.use(model)
        self._centres = Centres()
        self._tune(self._fit_error)

    def _tune(self, fit_error: float) -> None:
        self._since_tuned = 0
        self._fit_error = fit_error
        for climb in (self._fast, self._slow):
            climb.tune(fit_error, self._seen.noise)

    def restart(self, at: float) -> None:
        """A new process: what was seen of the old one says nothing about it."""
        self._phases.end(at, "restart")
        self._forget()

    def change_witness(self) -> None:
        """The lines to come are of another provenance: they share no block and no sum with those before."""
        if self._phases.phase == "pending":
            self._phases.end(self._last_at, "")
        self._fast.clear()
        self._slow.clear()
        self._seen.clear()
        self._lines.clear()

    def _forget(self) -> None:
        self._fast.clear()
        self._slow.clear()
        self._seen.clear()
        self._lines.clear()
        self._excess.clear()
        self._relief = 0.0
        self._at = None

    def see(
        self,
        at: float,
        step_seconds: float,
        expected_seconds: float,
        *,
        batch: float,
        total_context: float,
        fit_error: float,
    ) -> None:
        """Takes the next clean line inside the evidence.

        Args:
            at: its place on the timeline; may jump either way.
            step_seconds: measured.
            expected_seconds: by the model at the same load.
            batch: running requests that the model was asked at.
            total_context: tokens that the model was asked at.
            fit_error: of the model around there, relative.
        """
        if self._at is not None:
            if self._expired(at):
                self._phases.end(self._last_at + STALE_SECONDS, "no traffic")
                self._forget()
            elif at > self._at:
                self._tick += min(at - self._at, LONGEST_STEP_OF_TIME)
        self._at = self._last_at = at
        raw = log(step_seconds / expected_seconds)
        residual = raw - self._centres.at(batch, total_context, max(fit_error, SMALLEST_FIT_ERROR))
        line = Line(at, self._tick, residual, step_seconds, expected_seconds, batch, total_context)
        self._since_tuned += 1
        # A change that is not suspected yet must not pass for noise.
        still = not self._phases.open and self._fast.sum == 0.0 and self._slow.sum == 0.0
        if still:
            self._centres.see(batch, total_context, raw)
        measured = still and self._seen.see(residual, self._stated)
        if measured or self._since_tuned >= TUNE_EVERY or fit_error != self._fit_error:
            self._tune(fit_error)
        self._phases.fade(at)
        self._lines.append(line)
        self._fast.add(line)
        closed = self._slow.add(line)
        if self._phases.phase == "firing":
            if not self._odd(line):
                self._excess.add(line)
            if closed is not None:
                self._relieve(closed.value)
        else:
            self._suspect(line)

    def _expired(self, now: float) -> bool:
        return self._phases.phase == "firing" and now - self._last_at > STALE_SECONDS

    def _odd(self, line: Line) -> bool:
        """Whether a line stands far off its neighbours: a hiccup, not the change."""
        recent = [self._lines[i].residual for i in range(max(0, len(self._lines) - 5), len(self._lines))]
        return abs(line.residual - median(recent)) > max(0.1, 4.0 * self._seen.noise.spread)

    def _suspect(self, line: Line) -> None:
        climbs = (self._fast, self._slow)
        if self._phases.phase == "pending" and all(climb.quiet for climb in climbs):
            self._phases.end(line.at, "")
            return
        if self._phases.phase != "pending":
            suspecting = [climb for climb in climbs if climb.suspects]
            if suspecting:
                self._phases.pend(line.at, suspecting[0].began(line).at)
            return
        newest = [
            self._lines[i].residual for i in range(max(0, len(self._lines) - FEWEST_SLOW_LINES), len(self._lines))
        ]
        now = median(newest)
        level = now + LEVEL_MARGIN * self._seen.noise.spread
        for climb in climbs:
            began = climb.began(line)
            if (
                now > climb.allowance
                and climb.slow_lines >= FEWEST_SLOW_LINES
                and line.tick - began.tick > FIRING_SECONDS
                and climb.reached(level)
                and self._agree(began, climb.allowance)
            ):
                self._fire(line, began)
                return

    def _agree(self, began: Line, allowance: float) -> bool:
        """Whether three of the newest slow lines tell the same change: two hiccups and a chance line do not."""
        recent = [self._lines[i] for i in range(max(0, len(self._lines) - LOOKED_AT), len(self._lines))]
        slow = [one.residual for one in recent if one.residual > allowance and one.tick >= began.tick]
        if len(slow) >= MANY_SLOW_LINES:
            return True
        middle, edge = median(slow) if slow else 0.0, max(0.05, 4.0 * self._seen.noise.spread)
        return sum(abs(residual - middle) <= edge for residual in slow) >= FEWEST_SLOW_LINES

    def _fire(self, line: Line, began: Line) -> None:
        self._phases.fire(line.at)
        self._phases.since = began.at
        self._relief = 0.0
        self._excess.clear()
        born_so = self._lines[0].tick >= began.tick
        self._lines_before = 0 if born_so else sum(one.tick <= began.tick for one in self._lines)
        kept = [one for one in self._lines if one.tick > began.tick or born_so]
        # The block that the change begins in may have begun before it.
        around = [one for one in self._lines if one.tick <= began.tick][-FEWEST_SLOW_LINES - 1 :] + kept[:1]
        pause = max((after.at - before.at for before, after in pairwise(around)), default=0.0)
        self._pause = pause if pause >= PAUSE_SECONDS else None
        middle = median(one.residual for one in kept) if kept else 0.0
        edge = max(0.1, 4.0 * self._seen.noise.spread)
        for one in kept:
            if abs(one.residual - middle) <= edge:
                self._excess.add(one)

    def _relieve(self, value: float) -> None:
        """A downward sum over slow-window blocks, with its reference halfway between fit error and allowance."""
        reference = (self._slow.error + self._slow.allowance) / 2.0
        if self._slow.slow_share > RELEASE_SLOW_SHARE:
            self._relief = 0.0
            return
        self._relief = max(0.0, self._relief + reference - max(value, 0.0))
        if self._relief >= RELEASE_BLOCKS * reference and value < reference:
            self._phases.end(self._last_at, "back to expected")
            self._relief = 0.0
            self._fast.clear()
            self._slow.clear()

    def shape(self) -> Shape | None:
        """How the excess of a firing suspicion is made up."""
        return self._excess.shape(self._seen.noise, self._fast.error)

    def stated(self) -> Stated:
        """Its false-alarm rate and what it rests on."""
        gain = log(FAST_CHANGE) - self._fast.allowance
        return Stated(
            false_alarms_per_day=self._fast.false_alarms_per_day() + self._slow.false_alarms_per_day(),
            spread=self._seen.noise.spread,
            lag=self._seen.noise.lag,
            fit_error=self._fast.error,
            allowance=self._fast.allowance,
            threshold=self._fast.height,
            lines_to_find=self._fast.blocks.typical * self._fast.height / gain + 1.0 if gain > 0.0 else None,
        )

    @property
    def suspicious(self) -> bool:
        """Whether nothing should be learned now."""
        return self._phases.open

    def _course(self, now: float) -> tuple[Phase | None, float, str]:
        """The phase to report, when it was reached, and why it is over."""
        if self._expired(now):
            reached = self._last_at + STALE_SECONDS
            return ("resolved" if now - reached <= SHOWN_SECONDS else None), reached, "no traffic"
        return self._phases.shown(now), self._phases.reached, self._phases.because

    def phase(self, now: float) -> Phase | None:
        """How far the suspicion is, at less cost than `state`."""
        return self._course(now)[0]

    def state(self, now: float) -> Suspicion | None:
        """What is suspected at this instant; asking changes nothing."""
        phase, reached, because = self._course(now)
        if phase is None:
            return None
        shape = self.shape() if phase != "pending" else None
        strength = max(self._fast.sum / self._fast.height, self._slow.sum / self._slow.height)
        evidence: dict[str, float | int | str | None] = {
            "fit_error": self._fast.error,
            "false_alarms_per_day": self.stated().false_alarms_per_day,
        }
        if shape is None:
            what = "steps slower than expected"
            return Suspicion(
                name=NAME,
                phase=phase,
                since=self._phases.since,
                reached=reached,
                strength=strength,
                what=what,
                because=because,
                evidence=evidence,
                group=self._group,
            )
        evidence.update(
            form=shape.form,
            offset_seconds=shape.offset_seconds,
            offset_error_seconds=shape.offset_error,
            factor=shape.factor,
            factor_error=shape.factor_error,
            lowest_context_tokens=shape.contexts[0],
            highest_context_tokens=shape.contexts[1],
            lines=shape.lines,
            lines_before=self._lines_before,
            pause_seconds=self._pause,
        )
        return Suspicion(
            name=NAME,
            phase=phase,
            since=self._phases.since,
            reached=reached,
            strength=strength,
            what=shape.what,
            where=shape.where,
            because=because,
            evidence=evidence,
            group=self._group,
        )
