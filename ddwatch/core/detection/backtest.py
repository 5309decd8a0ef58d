"""How the detectors would have done on a recording: changes injected at random clean places, and what fired anyway.

The caller fits the profile on the earlier part and hands in the later one. Everything is seeded: the same recording
gives the same figures.
"""

from collections.abc import Callable, Sequence
from math import comb, exp, lgamma, log

import msgspec
from msgspec import Struct

from ddwatch.core.detection.together import Detectors
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import Sample

TRIALS = 30
WARM_SAMPLES = 300
"""Samples before the injection that a trial begins with."""
LONGEST_SECONDS = 1800.0
"""A change that is not found after so much time is missed."""
RAMP_SECONDS = 300.0
CONFIDENCE = 0.95
BROKEN_ACCEPT = 1.15
LONGEST_PAUSE = 60.0


class Restarted(Struct, frozen=True):
    """A new process in the recording."""

    at: float
    engine: str | None = None


Item = Sample | Restarted


class Change(Struct, frozen=True, kw_only=True):
    """What is injected."""

    name: str
    finds: str
    """The suspicion that is right."""
    factor: float = 1.0
    offset_seconds: float = 0.0
    ramp_seconds: float = 0.0
    """The factor grows from 1 over so long."""
    context_share: float = 0.0
    """Share of the model's cost of context that is added to every step: a steeper slope."""
    accept_length: float | None = None


CHANGES: tuple[Change, ...] = (
    Change(name="10 % slower", finds="slow-step", factor=1.10),
    Change(name="15 % slower", finds="slow-step", factor=1.15),
    Change(name="30 % slower", finds="slow-step", factor=1.30),
    Change(name="+30 ms per step", finds="slow-step", offset_seconds=0.030),
    Change(name="context costs twice", finds="slow-step", context_share=1.0),
    Change(name="ramp to 25 % in 5 min", finds="slow-step", factor=1.25, ramp_seconds=RAMP_SECONDS),
    Change(name="drafter broken", finds="low-accept", accept_length=BROKEN_ACCEPT),
)


class Interval(Struct, frozen=True):
    """A figure with its 95 % confidence interval."""

    value: float
    low: float
    high: float | None
    """None when so few trials bound it from below only."""


class Found(Struct, frozen=True, kw_only=True):
    """What came of one kind of change."""

    change: Change
    trials: int
    found: int
    wrong: int
    """Trials in which another suspicion fired first."""
    lines: Interval | None
    """Clean samples from the change to firing, median; None when nothing was found."""
    seconds: Interval | None


class Backtest(Struct, frozen=True, kw_only=True):
    """The figures of one recording."""

    samples: int
    judged: int
    hours: float
    """Hours of judged traffic."""
    incidents: dict[str, int]
    """What fired with nothing injected, by name."""
    false_per_day: Interval | None
    """If all of that was false; None without judged traffic."""
    found: tuple[Found, ...]


class _Dice:
    """A small multiplicative generator (Park and Miller 1988), so that the core needs no other randomness."""

    def __init__(self, seed: int) -> None:
        self._state = seed % 2147483646 + 1

    def below(self, limit: int) -> int:
        self._state = self._state * 48271 % 2147483647
        return self._state % limit


def poisson_interval(count: int, exposure: float) -> Interval:
    """Rate of so many events in an exposure, with the exact interval."""
    tail = (1.0 - CONFIDENCE) / 2.0

    def at_most(mean: float, events: int) -> float:
        if mean <= 0.0:
            return 1.0
        return sum(exp(-mean + k * log(mean) - lgamma(k + 1)) for k in range(events + 1))

    low = 0.0 if count == 0 else _solved(lambda mean: 1.0 - at_most(mean, count - 1) - tail, 10.0 * count + 20.0)
    high = _solved(lambda mean: tail - at_most(mean, count), 10.0 * count + 20.0)
    return Interval(count / exposure, low / exposure, high / exposure)


def _solved(rising: Callable[[float], float], most: float) -> float:
    """Where a rising function crosses zero."""
    low, high = 0.0, most
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)
    return high


def median_interval(values: Sequence[float], missed: int = 0) -> Interval | None:
    """Median with its interval from order statistics; missed trials count as longer than all others."""
    ordered = sorted(values)
    count = len(ordered) + missed
    if not ordered:
        return None
    place = 0
    tail = comb(count, 0) / 2.0**count
    while place < count // 2 and tail + comb(count, place + 1) / 2.0**count <= (1.0 - CONFIDENCE) / 2.0:
        place += 1
        tail += comb(count, place) / 2.0**count
    upper = count - 1 - place
    middle = min(count // 2, len(ordered) - 1)
    return Interval(
        ordered[middle], ordered[min(place, len(ordered) - 1)], ordered[upper] if upper < len(ordered) else None
    )


def altered(sample: Sample, change: Change, seconds: float, profile: Profile) -> Sample:
    """The sample as it would have read so many seconds into the change."""
    step, throughput = sample.step_seconds, sample.throughput
    if step is None or throughput is None:
        return sample
    if change.accept_length is not None:
        if sample.accept_length is None:
            return sample
        return msgspec.structs.replace(
            sample,
            accept_length=change.accept_length,
            throughput=throughput * change.accept_length / sample.accept_length,
        )
    grown = min(1.0, seconds / change.ramp_seconds) if change.ramp_seconds else 1.0
    slower = step * (1.0 + (change.factor - 1.0) * grown) + change.offset_seconds
    slower += change.context_share * profile.step_time.context_seconds(float(sample.total_context_tokens or 0))
    return msgspec.structs.replace(sample, step_seconds=slower, throughput=throughput * step / slower)


class _Play:
    """Detectors over a stretch of the recording."""

    def __init__(self, profile: Profile, coupled: bool | None, block_size: int | None) -> None:
        self.detectors = Detectors(profile, coupled=coupled)
        self.detectors.speculation(block_size)
        self.judged = 0
        self.seconds = 0.0
        self._at: float | None = None
        self._firing: set[str] = set()

    def see(self, item: Item) -> set[str]:
        """Takes the next item; names that fire now and did not before."""
        if isinstance(item, Restarted):
            self.detectors.restarted(item.at, item.engine)
            self._firing.clear()
            return set()
        self.detectors.sample(item)
        if self._at is not None and self.detectors.standing == "judged":
            self.seconds += min(max(item.at - self._at, 0.0), LONGEST_PAUSE)
        self.judged += self.detectors.standing == "judged"
        self._at = item.at
        if not self.detectors.suspicious:
            self._firing.clear()
            return set()
        names = {one.name for one in self.detectors.suspicions(item.at) if one.phase == "firing"}
        new = names - self._firing - {"restarts", "retractions"}
        self._firing = names
        return new


def backtest(
    items: Sequence[Item],
    profile: Profile,
    *,
    changes: Sequence[Change] = CHANGES,
    trials: int = TRIALS,
    coupled: bool | None = None,
    block_size: int | None = None,
    seed: int = 1,
) -> Backtest:
    """Plays the later part of a recording: once as it was, then with each change injected at random clean places.

    Args:
        items: samples (clean and not) and restarts in order, none of which the profile was fitted on.
        profile: fitted on what came before.
        changes: what to inject.
        trials: of each change.
        coupled: whether DP ranks step together.
        block_size: of the drafter, where known.
        seed: of the places.
    """
    plain = _Play(profile, coupled, block_size)
    incidents: dict[str, int] = {}
    places: list[int] = []
    for index, item in enumerate(items):
        for name in plain.see(item):
            incidents[name] = incidents.get(name, 0) + 1
        if isinstance(item, Sample) and plain.detectors.standing == "judged" and not plain.detectors.suspicious:
            places.append(index)
    # The last fifth is left for the change to be found in.
    places = places[: max(1, len(places) * 4 // 5)]
    found: list[Found] = []
    dice = _Dice(seed)
    for change in changes:
        lines: list[float] = []
        seconds: list[float] = []
        wrong = done = 0
        for _ in range(trials if places else 0):
            done += 1
            outcome = _trial(items, places[dice.below(len(places))], change, profile, coupled, block_size)
            if outcome is None:
                continue
            name, took_lines, took_seconds = outcome
            if name != change.finds:
                wrong += 1
                continue
            lines.append(took_lines)
            seconds.append(took_seconds)
        missed = done - len(lines)
        found.append(
            Found(
                change=change,
                trials=done,
                found=len(lines),
                wrong=wrong,
                lines=median_interval(lines, missed),
                seconds=median_interval(seconds, missed),
            )
        )
    days = plain.seconds / 86400.0
    return Backtest(
        samples=sum(isinstance(item, Sample) for item in items),
        judged=plain.judged,
        hours=plain.seconds / 3600.0,
        incidents=incidents,
        false_per_day=poisson_interval(sum(incidents.values()), days) if days > 0.0 else None,
        found=tuple(found),
    )


def _trial(
    items: Sequence[Item], place: int, change: Change, profile: Profile, coupled: bool | None, block_size: int | None
) -> tuple[str, float, float] | None:
    """First name that fires after the change, with the clean samples and seconds that it took; None when none does."""
    play = _Play(profile, coupled, block_size)
    for item in items[max(0, place - WARM_SAMPLES) : place]:
        play.see(item)
    began = items[place].at
    clean = 0
    ranks: set[int | None] = set()
    for item in items[place:]:
        if item.at - began > LONGEST_SECONDS:
            return None
        if isinstance(item, Sample):
            ranks.add(item.dp_rank)
            clean += item.clean
            item = altered(item, change, item.at - began, profile)
        new = play.see(item)
        if new:
            name = change.finds if change.finds in new else min(new)
            return name, clean / max(len(ranks), 1), item.at - began
    return None
