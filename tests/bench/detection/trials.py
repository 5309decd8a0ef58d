"""Plays one trial: a healthy service that becomes slow at a random clean place, and what the detector says of it."""

import math
from collections.abc import Sequence
from random import Random

from msgspec import Struct

from ddwatch.core.detection.step_watch import StepWatch
from ddwatch.core.detection.suspicion import Suspicion
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import Sample
from tests.bench.detection.corpus import Machine, Restart, Service, Setting, Slowdown

LONGEST_SECONDS = 1800.0
"""Traffic seconds after which a change counts as missed."""


class Change(Struct, frozen=True):
    """A way to become slower."""

    name: str
    slowdown: Slowdown


def factor(ratio: float) -> Slowdown:
    """Every step takes this many times as long."""
    return lambda healthy, seconds, batch, total: healthy * ratio


def offset(extra: float) -> Slowdown:
    """Every step takes so many seconds more."""
    return lambda healthy, seconds, batch, total: healthy + extra


def steeper(machine: Machine, ratio: float) -> Slowdown:
    """The cost of context is multiplied."""
    return lambda healthy, seconds, batch, total: (
        healthy + (ratio - 1.0) * machine.context_cost * total**machine.context_power
    )


def ramp(ratio: float, length: float) -> Slowdown:
    """Grows from nothing to a factor over so many seconds of traffic."""
    return lambda healthy, seconds, batch, total: healthy * (1.0 + (ratio - 1.0) * min(1.0, seconds / length))


CHANGES: tuple[Change, ...] = (
    Change("x1.10", factor(1.10)),
    Change("x1.15", factor(1.15)),
    Change("x1.30", factor(1.30)),
    Change("+30.8 ms", offset(0.0308)),
    Change("ramp to x1.25 in 5 min", ramp(1.25, 300.0)),
)


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a trial."""

    setting: str
    change: str
    found: bool
    lines: float | None
    """Clean lines (rounds, for coupled ranks) from the change to firing."""
    pending_lines: float | None
    """... to the first suspicion."""
    seconds: float | None
    """Traffic seconds from the change to firing."""
    judged_seconds: float | None
    """... of judged lines only: what is outside the evidence, or contaminated, tells the detector nothing."""
    judged: int
    """Judged lines after the change; 0 where its whole stretch lay outside the evidence."""
    false_before: int
    """Incidents before the change."""
    suspicion: Suspicion | None
    fit_error: float
    lag: float
    onset_error: float | None
    """Estimated less true onset, seconds."""


class Watching:
    """Feeds a watch and counts its incidents."""

    def __init__(self, profile: Profile) -> None:
        self.watch = StepWatch(profile)
        self.firing = False
        self.incidents = 0
        self.judged = 0
        self.judged_seconds = 0.0
        self._before = 0.0

    def see(self, item: Sample | Restart) -> Suspicion | None:
        """Takes the next item; returns a suspicion at the moment it fires."""
        if isinstance(item, Restart):
            self.watch.restart(item.at)
            self.firing = False
            return None
        self.watch.see(item)
        if self.watch.standing == "judged":
            self.judged += 1
            self.judged_seconds += min(max(item.at - self._before, 0.0), 60.0)
        self._before = item.at
        if not self.watch.suspicious:
            self.firing = False
            return None
        if self.firing:
            return None
        told = self.watch.suspicions(item.at)[0]
        if told.phase != "firing":
            return None
        self.firing = True
        self.incidents += 1
        return told


def trial(setting: Setting, profile: Profile, machine: Machine, change: Change, seed: str) -> Outcome:
    """One change at a random place."""
    service = Service(setting, seed, machine)
    watching = Watching(profile)
    random = Random(f"{seed}:place")
    for item in service.play(random.randint(40, 400)):
        watching.see(item)
    false_before = watching.incidents
    service.slow_down(change.slowdown)
    began, began_at = service.busy, service.at
    judged, judged_seconds = watching.judged, watching.judged_seconds
    pending: float | None = None
    told: Suspicion | None = None
    while told is None and service.busy - began < LONGEST_SECONDS:
        for item in service.play(1):
            told = watching.see(item) or told
            if pending is None and watching.watch.suspicious:
                pending = (watching.judged - judged) / setting.traffic.ranks
    found = told is not None
    return Outcome(
        setting=setting.name,
        change=change.name,
        found=found,
        lines=(watching.judged - judged) / setting.traffic.ranks if found else None,
        pending_lines=pending,
        seconds=service.busy - began if found else None,
        judged_seconds=watching.judged_seconds - judged_seconds if found else None,
        judged=watching.judged - judged,
        false_before=false_before,
        suspicion=told,
        fit_error=max((state.fit_error for state in watching.watch.stated()), default=math.nan),
        lag=max((state.lag for state in watching.watch.stated()), default=math.nan),
        onset_error=None if told is None else told.since - began_at,
    )


def quantile(values: Sequence[float], share: float) -> float:
    """A plain quantile; NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan
