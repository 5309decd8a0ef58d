"""On the simulated service's log, through grammar and positions, the detectors stay silent until it is really slow."""

from collections.abc import Callable, Iterator
from datetime import timezone
from functools import cache
from typing import NamedTuple

import msgspec
import pytest

from ddwatch.core.detection.accept import AcceptDetector
from ddwatch.core.detection.progress import Progress
from ddwatch.core.detection.step_watch import StepWatch
from ddwatch.core.expectation.fit import Gathering, fit_profile
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.grammar import LogReader
from ddwatch.core.positions import Positions
from ddwatch.core.records import Record, ServerStart
from ddwatch.core.snapshot import Sample
from ddwatch.demo.scenarios import generate, scenario
from tests.core.detection.traffic import START

Alter = Callable[[Sample], Sample]


def records(name: str, seed: int, seconds: float, interval: int) -> Iterator[Record]:
    """What the grammar reads of a story's log."""
    reader = LogReader(timezone.utc, START)
    lead = scenario(name).lead
    for number, (at, line) in enumerate(generate(name, seed, START, lead + seconds, interval=interval), start=1):
        yield from reader.read(line.encode(), at, number)


@cache
def learned(name: str, interval: int, seconds: float) -> Profile:
    """A profile from one run of the story."""
    gathering, positions = Gathering(), Positions()
    for record in records(name, 1, seconds, interval):
        if isinstance(record, ServerStart):
            gathering.cut()
        sample = positions.see(record)
        if sample is not None:
            gathering.see(sample)
    profile = fit_profile(gathering.observations(), name=name, samples=gathering.samples, pairs=gathering.pairs())
    assert isinstance(profile, Profile)
    return profile


class Told(NamedTuple):
    """What the detectors said."""

    fired: set[str]
    judged: int
    lines_to_fire: int | None
    """Clean lines from the first altered sample to firing."""


def watched(name: str, interval: int, seconds: float, alter: Alter | None = None, after: int = 100) -> Told:
    """Plays another run of the story past all detectors; `alter` holds from the given judged sample on."""
    profile = learned(name, interval, seconds)
    positions, progress = Positions(), Progress()
    steps, accept = StepWatch(profile), AcceptDetector(profile.accept, block_size=16)
    fired: set[str] = set()
    judged = altered = 0
    lines_to_fire: int | None = None
    for record in records(name, 2, seconds, interval):
        state = progress.state(record.at)
        if state is not None and state.phase == "firing":
            fired.add(state.name)
        progress.see(record)
        if isinstance(record, ServerStart):
            steps.restart(record.at)
            accept.restart(record.at)
        sample = positions.see(record)
        if sample is None:
            continue
        if alter is not None and judged >= after and sample.clean:
            sample = alter(sample)
            altered += 1
        steps.see(sample)
        accept.see(sample)
        judged += steps.standing == "judged"
        if steps.suspicious or accept.suspicious:
            now = [
                one.name
                for one in (*steps.suspicions(sample.at), *accept.suspicions(sample.at))
                if one.phase == "firing"
            ]
            if now and lines_to_fire is None and altered:
                lines_to_fire = altered
            fired.update(now)
            if alter is not None and now:
                break
    return Told(fired, judged, lines_to_fire)


def slower(ratio: float) -> Alter:
    """Every step takes this many times as long."""

    def altered(sample: Sample) -> Sample:
        assert sample.step_seconds is not None and sample.throughput is not None
        return msgspec.structs.replace(
            sample, step_seconds=sample.step_seconds * ratio, throughput=sample.throughput / ratio
        )

    return altered


@pytest.mark.parametrize(
    ("name", "interval", "seconds"),
    [
        ("steady", 40, 1800.0),
        ("founding", 1, 300.0),
        ("founding", 40, 900.0),
        ("idle", 1, 600.0),
        ("restart", 1, 400.0),
    ],
)
def test_a_healthy_story_fires_nothing(name: str, interval: int, seconds: float) -> None:
    told = watched(name, interval, seconds)

    assert told.fired - {"silent"} == set()
    assert told.judged >= 100


def test_chunked_prefill_shows_starved_and_nothing_that_pages() -> None:
    assert watched("prefill", 1, 600.0).fired <= {"starved", "silent"}


def test_ranks_that_sleep_and_wake_fire_nothing() -> None:
    told = watched("dp", 1, 60.0)

    assert told.fired == set()
    assert told.judged >= 1000


@pytest.mark.parametrize(("ratio", "lines"), [(1.15, 12), (1.30, 5)])
def test_a_slower_machine_is_found_soon_and_by_its_right_name(ratio: float, lines: int) -> None:
    told = watched("steady", 40, 1800.0, slower(ratio))

    assert told.fired == {"slow-step"}
    assert told.lines_to_fire is not None and told.lines_to_fire <= lines


def test_a_broken_drafter_is_found_and_the_machine_is_not_blamed() -> None:
    def broken(sample: Sample) -> Sample:
        assert sample.step_seconds is not None and sample.batch is not None
        return msgspec.structs.replace(sample, accept_length=1.15, throughput=sample.batch * 1.15 / sample.step_seconds)

    assert watched("steady", 40, 1800.0, broken).fired == {"low-accept"}
