"""A seeded corpus of clean and contaminated samples: a service whose truth has another form than ddwatch's model.

The true step time is a sum of powers of batch and total context with graph stairs; the model is piecewise linear.
Lines are means over windows of steps; noise is AR(1) over lines, with single hiccups of two seconds. Figures are
rounded as SGLang prints them.
"""

import math
from collections.abc import Callable, Iterator
from random import Random

from msgspec import Struct

from ddwatch.core.expectation.fit import Gathering, Refusal, fit_profile
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import Flag, Sample

Slowdown = Callable[[float, float, int, float], float]
"""Healthy seconds, traffic seconds since the change, batch, total context -> seconds."""

STAIRS = (1, 2, 4, 8, 12, 16, 24, 32)


class Machine(Struct, frozen=True, kw_only=True):
    """The true cost of a step."""

    base: float = 0.021
    batch_cost: float = 0.0046
    batch_power: float = 0.72
    context_cost: float = 4.2e-7
    context_power: float = 1.13

    def seconds(self, batch: int, total_context: float) -> float:
        """Step time before noise."""
        padded = next((size for size in STAIRS if size >= batch), batch)
        context = self.context_cost * math.pow(total_context, self.context_power)
        return self.base + self.batch_cost * math.pow(padded, self.batch_power) + context


class Traffic(Struct, frozen=True, kw_only=True):
    """What is asked of the service."""

    name: str
    users: tuple[int, int] = (1, 2)
    """Fewest and most requests at once; drawn anew now and then."""
    prompt: tuple[int, int] = (200, 4000)
    completion: tuple[int, int] = (300, 2500)
    prefill_share: float = 0.0
    """Share of lines that hold a foreign prefill."""
    idle_every: float = 0.0
    """Traffic seconds between idle stretches; 0 means never."""
    restart_every: float = 0.0
    ranks: int = 1
    swing_every: float = 120.0
    """Traffic seconds between changes of the number of users."""


TRAFFIC: tuple[Traffic, ...] = (
    Traffic(name="nominal", users=(1, 4)),
    Traffic(name="context-growth", users=(1, 1), prompt=(500, 2000), completion=(8000, 30000)),
    Traffic(name="workload-shift", users=(1, 8), prompt=(100, 12000), completion=(100, 6000), swing_every=600.0),
    Traffic(name="prefill-heavy", users=(2, 6), prompt=(2000, 12000), prefill_share=0.5),
    Traffic(name="batch-swings", users=(1, 16), swing_every=40.0),
    Traffic(name="idle-bursts", users=(1, 3), idle_every=45.0),
    Traffic(name="restarts", users=(1, 4), restart_every=900.0),
    Traffic(name="dp-ranks", users=(1, 4), ranks=4),
)


class Setting(Struct, frozen=True, kw_only=True):
    """One service under one kind of traffic, as one kind of witness sees it."""

    traffic: Traffic
    interval: int
    """Decode steps per line; 0 stands for moments polled every two seconds."""
    spread: float
    """Standard deviation of ln(line / truth)."""
    lag: float

    @property
    def name(self) -> str:
        """For tables."""
        witness = "moments" if self.interval == 0 else f"interval {self.interval}"
        return f"{self.traffic.name}, {witness}"


class _Request:
    __slots__ = ("context", "left")

    def __init__(self, context: float, left: float) -> None:
        self.context = context
        self.left = left


class _Rank:
    __slots__ = ("before", "flags", "requests", "users")

    def __init__(self) -> None:
        self.requests: list[_Request] = []
        self.users = 1
        self.before: int | None = None
        self.flags: set[Flag] = {"first"}


class Restart(Struct, frozen=True):
    """The process was started anew here."""

    at: float


class Service:
    """Plays a setting from a seed; `slowdown` takes hold when it is set."""

    def __init__(self, setting: Setting, seed: str, machine: Machine, start: float = 1.7e9) -> None:
        self.setting = setting
        self.random = Random(f"{seed}:{setting.name}")
        self.machine = machine
        self.at = start
        self.busy = 0.0
        """Seconds of traffic so far."""
        self.slowdown: Slowdown | None = None
        self.slow_since = 0.0
        self.accept = 4.0
        self.broken_accept: float | None = None
        """Mean accept length of a broken drafter."""
        self.hiccups = 0.002
        """Chance that a line holds two seconds of nothing."""
        self._level = self.random.gauss(0.0, 1.0)
        self._ranks = [_Rank() for _ in range(setting.traffic.ranks)]
        self._next_swing = 0.0
        self._next_idle = setting.traffic.idle_every or math.inf
        self._next_restart = setting.traffic.restart_every or math.inf

    def slow_down(self, slowdown: Slowdown) -> None:
        """From now on."""
        self.slowdown, self.slow_since = slowdown, self.busy

    def play(self, lines: int) -> Iterator[Sample | Restart]:
        """The next lines of every rank."""
        for _ in range(lines):
            yield from self._line()

    def _line(self) -> Iterator[Sample | Restart]:
        random, traffic = self.random, self.setting.traffic
        if self.busy >= self._next_restart:
            self._next_restart += traffic.restart_every
            self.at += random.uniform(60.0, 600.0)
            self._ranks = [_Rank() for _ in self._ranks]
            for rank in self._ranks:
                rank.flags = {"first", "warming"}
            yield Restart(self.at)
        if self.busy >= self._next_idle:
            self._next_idle = self.busy + random.uniform(0.3, 1.7) * traffic.idle_every
            self.at += random.uniform(5.0, 900.0)
            for rank in self._ranks:
                rank.requests.clear()
                rank.flags |= {"idle"}
        if self.busy >= self._next_swing:
            self._next_swing = self.busy + random.uniform(0.3, 1.7) * traffic.swing_every
            self.accept = random.choice((2.9, 5.2, 7.4))
            for rank in self._ranks:
                rank.users = random.randint(*traffic.users)
        for rank in self._ranks:
            self._admit(rank)
        yield from self._window()

    def _admit(self, rank: _Rank) -> None:
        random, traffic = self.random, self.setting.traffic
        new = 0
        while len(rank.requests) < rank.users:
            prompt = random.uniform(*traffic.prompt)
            rank.requests.append(_Request(prompt, random.uniform(*traffic.completion)))
            new += 1
        if new or random.random() < traffic.prefill_share:
            for other in self._ranks:
                other.flags |= {"prefill"}

    def _window(self) -> Iterator[Sample]:
        random, setting = self.random, self.setting
        batch = max(len(rank.requests) for rank in self._ranks)
        total = max(sum(request.context for request in rank.requests) for rank in self._ranks)
        rough = self.machine.seconds(batch, total)
        steps = setting.interval or max(8, round(2.0 / rough / 15.0) * 15)
        accept = self.accept if self.broken_accept is None else self.broken_accept
        middle = total + batch * accept * steps / 2.0
        healthy = self.machine.seconds(batch, middle)
        seconds = healthy
        if self.slowdown is not None:
            seconds = self.slowdown(healthy, self.busy - self.slow_since, batch, middle)
        self._level = setting.lag * self._level + math.sqrt(1.0 - setting.lag**2) * random.gauss(0.0, 1.0)
        seconds *= math.exp(setting.spread * self._level)
        if random.random() < self.hiccups:
            seconds += 2.0 / steps
        # A prefill inside the window makes it longer; moments leave it out.
        foreign = random.uniform(0.2, 1.5) if setting.interval and "prefill" in self._ranks[0].flags else 0.0
        self.at += seconds * steps + foreign
        self.busy += seconds * steps
        for number, rank in enumerate(self._ranks):
            yield self._sample(number, rank, steps, seconds + foreign / steps, accept)

    def _sample(self, number: int, rank: _Rank, steps: int, seconds: float, mean_accept: float) -> Sample:
        setting = self.setting
        batch = len(rank.requests)
        accept = self._drawn(mean_accept, steps * batch)
        for request in rank.requests:
            request.context += accept * steps
            request.left -= accept * steps
        flags = set(rank.flags)
        if rank.before is not None and rank.before != batch:
            flags.add("batch-changed")
        rank.before = batch
        done = [request for request in rank.requests if request.left <= 0.0]
        total = sum(request.context for request in rank.requests)
        if done:
            flags.add("request-ended")
            rank.requests = [request for request in rank.requests if request.left > 0.0]
        rank.flags = set()
        moments = setting.interval == 0
        throughput = batch * accept / seconds
        if not moments:
            accept, throughput = round(accept, 2), round(throughput, 2)
        return Sample(
            at=self.at,
            dp_rank=number if len(self._ranks) > 1 else None,
            batch=batch,
            total_context_tokens=round(total),
            context_tokens=total / batch,
            accept_length=accept,
            throughput=throughput,
            step_seconds=batch * accept / throughput,
            provenance="moments" if moments else "log",
            flags=tuple(sorted(flags - {"prefill", "idle"} if moments else flags)),
            steps=steps if moments else None,
        )

    def _drawn(self, mean: float, count: int) -> float:
        """Mean of so many accept lengths, each geometric (independent drafts until the first miss)."""
        if count <= 8:
            step = math.log(1.0 - 1.0 / mean) if mean > 1.0 else -math.inf
            drawn = sum(1 + int(math.log(1.0 - self.random.random()) / step) for _ in range(count))
            return min(16.0, drawn / count)
        deviation = math.sqrt(mean * (mean - 1.0) / count)
        return min(16.0, max(1.0, self.random.gauss(mean, deviation)))


def settings() -> tuple[Setting, ...]:
    """Every kind of traffic with every witness; noise goes round."""
    noises = ((0.01, 0.3), (0.03, 0.3), (0.02, 0.6), (0.03, 0.0), (0.015, 0.5), (0.04, 0.3), (0.03, 0.6))
    made: list[Setting] = []
    for traffic in TRAFFIC:
        for interval in (1, 40, 0):
            spread, lag = noises[len(made) % len(noises)]
            made.append(Setting(traffic=traffic, interval=interval, spread=spread, lag=lag))
    return tuple(made)


def learned(setting: Setting, machine: Machine, seed: str, lines: int) -> Profile:
    """A profile fitted to a healthy stretch of that setting."""
    service = Service(setting, f"{seed}:learn", machine)
    gathering = Gathering()
    for item in service.play(lines):
        if isinstance(item, Restart):
            gathering.cut()
        else:
            gathering.see(item)
    profile = fit_profile(
        gathering.observations(),
        name=setting.name,
        samples=gathering.samples,
        pairs=gathering.pairs(),
        graph_sizes=STAIRS,
    )
    if isinstance(profile, Refusal):
        raise ValueError(f"{setting.name}: {profile.sentence}")
    return profile
