"""Measures verdicts through the whole pipeline: log text, grammar, monitor, verdict; false alarms, delay, wrong causes.

    python -m tests.bench.detection.bench_pipeline [--hours N] [--trials N] [--full] [--json] [--seed NAME]

Every setting (kind of traffic and witness) is judged by a profile that `ddwatch fit` makes of an earlier part, or by
what a watch over that part learned by itself; --full plays both, for twice the 200 hours of the target, in about an
hour. The default takes some three minutes on one core.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from msgspec import Struct

from ddwatch.core.expecting import Expecting
from tests.bench.detection.bench_detection import poisson_upper, tell, witness
from tests.bench.detection.corpus import Machine, Setting, Slowdown, settings
from tests.bench.detection.stories import START, Change, Story
from tests.bench.detection.trials import CHANGES, quantile
from tests.bench.detection.watched import Watched, fitted, learned, recalled

HOURS, FULL_HOURS = 30.0, 400.0
TRIALS, FULL_TRIALS = 30, 300
DENSE_SHARE = 0.25
"""Part of its hours that a log with a line per step gets: it has forty times the lines."""
EARLIER_SECONDS = {1: 1500.0, 40: 5400.0, 0: 5400.0}
EARLIER_IDLE_FACTOR = 6.0
"""A service that rests most of the time needs a longer earlier part."""
EARLIEST_ONSET, LATEST_ONSET = 300.0, 1500.0
LONGEST_SECONDS = 3600.0
"""A change that is not told this long after it is missed."""
LEAST_SECONDS = 120.0
DRAFTER = "drafter broken"
KINDS: dict[str, Slowdown | None] = {**{change.name: change.slowdown for change in CHANGES}, DRAFTER: None}
TARGET_HOURS = 200.0


class Watch(Struct, frozen=True):
    """A setting and what judges it."""

    setting: Setting
    by: str
    expecting: Callable[[], Expecting]
    texts: frozenset[str]
    """Kinds of text that the earlier part held."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one change."""

    setting: Setting
    by: str
    change: str
    seconds: float | None
    """From the change to the verdict; None where it was not reached."""
    lines: float | None
    """Clean lines or moments intervals of one rank in that time."""
    wrong: tuple[str, ...]
    """Other alarms before it."""
    judged: bool
    """Whether anything was held against the model after the change at all."""


def watches(machine: Machine, seed: str, *, both: bool) -> list[Watch]:
    """Each setting with a model of its earlier part: fitted and learned in turn, or both."""
    found: list[Watch] = []
    for number, setting in enumerate(settings()):
        seconds = EARLIER_SECONDS[setting.interval]
        if setting.traffic.idle_every:
            seconds *= EARLIER_IDLE_FACTOR
        if both or number % 2 == 0:
            story = Story(setting, f"{seed}:earlier", machine)
            expecting = partial(Expecting, given=fitted(story, seconds))
            found.append(Watch(setting, "fitted", expecting, held(story, seconds)))
        if both or number % 2 == 1:
            story = Story(setting, f"{seed}:earlier", machine)
            expecting = partial(recalled, learned(story, seconds))
            found.append(Watch(setting, "learned", expecting, held(story, seconds)))
    return found


def held(story: Story, seconds: float) -> frozenset[str]:
    """The kinds of text of an earlier part; one that had only just begun is none of it."""
    return frozenset(name for since, name in story.texts if since - START < seconds - LEAST_SECONDS)


def false_alarms(known: list[Watch], machine: Machine, seed: str, hours: float) -> dict[str, Any]:
    """Alarms over so many hours of healthy stories."""
    shares = [DENSE_SHARE if one.setting.interval == 1 else 1.0 for one in known]
    counted: Counter[str] = Counter()
    true: Counter[str] = Counter()
    under: Counter[str] = Counter()
    played = 0.0
    for one, share in zip(known, shares, strict=True):
        goal = hours / sum(shares) * share * 3600.0
        story = Story(one.setting, f"{seed}:healthy:{one.by}", machine)
        watched = Watched(one.expecting())
        for at, item in story.play():
            if at - START > goal:
                break
            watched.take(at, item)
        for at, verdict in watched.alarms:
            name: str = verdict.name
            if (name == "down" and story.gone(at)) or (name == "starved" and story.stood_still(at)):
                true[name] += 1
                continue
            # Counted too: text of a kind that nobody has seen yet is no fault.
            name += "" if story.spoke(at) <= one.texts else " on text that was never learned"
            counted[name] += 1
            tell(f"    false alarm: {name}, {one.setting.name}, {one.by}, {at - START:.0f} s: {verdict.sentence}")
        under.update(watched.seconds)
        played += sum(watched.seconds.values()) / 3600.0
        if hours > HOURS:
            tell(f"    {played:.0f} h after {one.setting.name} ({one.by}), {sum(counted.values())} false alarms")
    total = sum(counted.values())
    bound = poisson_upper(total) / played * TARGET_HOURS
    tell(
        f"false alarms: {total} in {played:.0f} h of stories ({dict(counted) or 'none'}); 95 % upper bound {bound:.2f} "
        f"in {TARGET_HOURS:.0f} h; true ones beside them: {dict(true) or 'none'}"
    )
    hours_under = {name: round(seconds / 3600.0, 1) for name, seconds in under.most_common()}
    tell(f"hours under each verdict: {', '.join(f'{name} {value}' for name, value in hours_under.items())}")
    return {"hours": played, "alarms": dict(counted), "true": dict(true), "bound": bound, "under": hours_under}


def trial(one: Watch, machine: Machine, seed: str, name: str) -> Outcome:
    """One change at a random moment of a story."""
    right = "low-accept" if name == DRAFTER else "slow-step"
    change = Change(KINDS[name], START + 60.0 + Random(f"{seed}:onset").uniform(EARLIEST_ONSET, LATEST_ONSET))
    story = Story(one.setting, seed, machine, change)
    watched = Watched(one.expecting())
    clean = judged = 0
    for at, item in story.play():
        if not story.changed(at):
            clean, judged = watched.clean, watched.judged_seconds
        elif at - change.at > LONGEST_SECONDS:
            break
        watched.take(at, item)
        if watched.alarms and watched.alarms[-1][1].name == right:
            break
    told = next((at for at, verdict in watched.alarms if verdict.name == right), None)
    wrong = [
        verdict.name
        for at, verdict in watched.alarms
        if not (verdict.name == "down" and story.gone(at)) and not (verdict.name == "starved" and story.stood_still(at))
        if verdict.name != right or at < change.at
    ]
    found = told is not None and told >= change.at
    return Outcome(
        setting=one.setting,
        by=one.by,
        change=name,
        seconds=told - change.at if told is not None and found else None,
        lines=(watched.clean - clean) / one.setting.traffic.ranks if found else None,
        wrong=tuple(wrong),
        judged=watched.judged_seconds > judged,
    )


def delays(known: list[Watch], machine: Machine, seed: str, trials: int) -> tuple[list[Outcome], dict[str, Any]]:
    """Changes of each kind, going round through settings."""
    outcomes: list[Outcome] = []
    order = Random(f"{seed}:order").sample(known, len(known))
    for number in range(trials):
        change = tuple(KINDS)[(number + number // len(order)) % len(KINDS)]
        one = order[number % len(order)]
        outcomes.append(trial(one, machine, f"{seed}:trial{number}", change))
        outcome = outcomes[-1]
        if outcome.wrong or (outcome.judged and outcome.seconds is None):
            what = f"wrong {outcome.wrong}" if outcome.wrong else "missed"
            tell(f"    {what}: {change}, {one.setting.name}, {one.by}, seed {seed}:trial{number}")
    tell(f"{'change':24}{'witness':18}{'found':>9}{'lines':>8}{'p90':>8}{'seconds':>9}{'p90':>9}")
    table: dict[str, Any] = {}
    for change_name in KINDS:
        for name in ("log, interval 1", "log, interval 40", "moments, 2 s", "all"):
            group = [
                one
                for one in outcomes
                if one.change == change_name and one.judged and name in (witness(one.setting), "all")
            ]
            if not group:
                continue
            lines = [one.lines for one in group if one.lines is not None]
            seconds = [one.seconds for one in group if one.seconds is not None]
            figures = {
                "trials": len(group),
                "found": len(seconds),
                "lines_median": median(lines) if lines else None,
                "lines_p90": quantile(lines, 0.9) if lines else None,
                "seconds_median": median(seconds) if seconds else None,
                "seconds_p90": quantile(seconds, 0.9) if seconds else None,
            }
            table[f"{change_name}, {name}"] = figures
            told = "".join(
                f"{'–' if figures[key] is None else f'{figures[key]:.1f}':>{width}}"
                for key, width in (("lines_median", 8), ("lines_p90", 8), ("seconds_median", 9), ("seconds_p90", 9))
            )
            tell(f"{change_name:24}{name:18}{len(seconds):>4}/{len(group):<4}{told}")
    outside = sum(not one.judged for one in outcomes)
    tell(f"{outside} of {len(outcomes)} trials outside the evidence all the time: not judged, by design")
    return outcomes, table


def main() -> int:
    """Prints the tables; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="more hours and trials")
    parser.add_argument("--hours", type=float, help="hours of healthy stories")
    parser.add_argument("--trials", type=int, help="changes for the worse")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument("--seed", default="pipeline", help="other stories")
    arguments = parser.parse_args()
    began = perf_counter()
    machine, seed = Machine(), str(arguments.seed)
    hours = arguments.hours or (FULL_HOURS if arguments.full else HOURS)
    trials = arguments.trials or (FULL_TRIALS if arguments.full else TRIALS)
    known = watches(machine, seed, both=bool(arguments.full))
    tell(f"{len(known)} watches over {len(settings())} settings, models made in {perf_counter() - began:.0f} s")
    false = false_alarms(known, machine, seed, hours)
    outcomes, table = delays(known, machine, seed, trials)
    judged = [one for one in outcomes if one.judged]
    missed = sum(one.seconds is None for one in judged)
    wrong = sum(bool(one.wrong) for one in judged)
    met = {
        f"at most 1 false alarm in {TARGET_HOURS:.0f} h": sum(false["alarms"].values())
        <= max(1.0, false["hours"] / TARGET_HOURS),
        f"at most 1 of 300 missed ({missed} of {len(judged)})": missed * 300 <= max(len(judged), 300),
        f"no wrong cause ({wrong} of {len(judged)})": wrong == 0,
    }
    for target, holds in met.items():
        tell(f"{'met   ' if holds else 'MISSED'}  {target}")
    tell(f"{perf_counter() - began:.0f} s")
    if arguments.json:
        tell(json.dumps({"delays": table, "false_alarms": false, "targets": met}))
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
