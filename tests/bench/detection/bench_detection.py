"""Measures the detectors: delay, misses, wrong causes and false alarms on a seeded corpus, beside the usual rules.

    python -m tests.bench.detection.bench_detection [--full] [--json] [--seed NAME]

The default takes about two minutes on one core; --full plays the 21,600 block-hours of the target (three quarters of an
hour). River's detectors take part where river is installed; `make bench` brings it.
"""

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from random import Random
from time import perf_counter
from typing import Any

from ddwatch.core.detection.accept import AcceptDetector
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.snapshot import Sample
from tests.bench.detection.corpus import Machine, Restart, Service, Setting, learned, settings
from tests.bench.detection.rivals import rivals
from tests.bench.detection.trials import (
    CHANGES,
    LONGEST_SECONDS,
    Change,
    Outcome,
    Watching,
    factor,
    quantile,
    trial,
)

TRIALS = 300
HOURS = 450.0
FULL_HOURS = 21600.0
DENSE_SHARE = 0.05
"""Part of its hours that a log with a line per step gets: it has forty times the lines."""
RIVAL_TRIALS = 120
PROMISED_ERROR = 0.03
PROMISED_LAG = 0.6
LEARNED_LINES = {1: 12000, 40: 2500, 0: 2500}
TARGETS = {"x1.15": 12.0, "x1.30": 4.0}
"""Clean lines or moments intervals, median."""

Learned = list[tuple[Setting, Profile, list[Sample]]]


def tell(line: str = "") -> None:
    """One line of the tables."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def learn(machine: Machine, seed: str) -> Learned:
    """A profile and a healthy stretch for each setting."""
    known: Learned = []
    for setting in settings():
        profile = learned(setting, machine, seed, LEARNED_LINES[setting.interval])
        service = Service(setting, f"{seed}:healthy", machine)
        healthy = [item for item in service.play(2000) if isinstance(item, Sample)]
        known.append((setting, profile, healthy))
    return known


def promised(outcome: Outcome) -> bool:
    """Whether the targets hold for this trial: the model is good there and the lines do not hang together more."""
    return outcome.fit_error <= PROMISED_ERROR and outcome.lag <= PROMISED_LAG


def run_trials(known: Learned, machine: Machine, seed: str, count: int) -> list[tuple[Setting, Outcome]]:
    """So many trials, going round through settings and changes."""
    outcomes = []
    for number in range(count):
        setting, profile, _ = known[number % len(known)]
        change = CHANGES[(number // len(known)) % len(CHANGES)]
        outcomes.append((setting, trial(setting, profile, machine, change, f"{seed}:trial{number}")))
    return outcomes


def witness(setting: Setting) -> str:
    """What the samples come from."""
    return "moments, 2 s" if setting.interval == 0 else f"log, interval {setting.interval}"


def row(outcomes: Iterable[Outcome]) -> dict[str, float | int]:
    """Figures of one group of trials."""
    group = list(outcomes)
    found = [one for one in group if one.found]
    lines = [one.lines for one in found if one.lines is not None]
    seconds = [one.seconds for one in found if one.seconds is not None]
    onsets = [abs(one.onset_error) for one in found if one.onset_error is not None]
    return {
        "trials": len(group),
        "found": len(found),
        "lines_median": quantile(lines, 0.5),
        "lines_p90": quantile(lines, 0.9),
        "pending_median": quantile([one.pending_lines for one in group if one.pending_lines is not None], 0.5),
        "seconds_median": quantile(seconds, 0.5),
        "seconds_p90": quantile(seconds, 0.9),
        "onset_error_median": quantile(onsets, 0.5),
        "false_before": sum(one.false_before for one in group),
    }


def show_trials(outcomes: list[tuple[Setting, Outcome]]) -> dict[str, Any]:
    """Prints and returns the table of delays."""
    tell(
        f"{'change':24}{'witness':18}{'found':>9}{'lines':>8}{'p90':>7}{'pending':>9}{'seconds':>9}{'p90':>8}{'onset':>8}"
    )
    table: dict[str, Any] = {}
    for change in CHANGES:
        for name in ("log, interval 1", "log, interval 40", "moments, 2 s", "all"):
            group = [
                one for setting, one in outcomes if one.change == change.name and name in (witness(setting), "all")
            ]
            if not group:
                continue
            figures = row(group)
            table[f"{change.name}, {name}"] = figures
            tell(
                f"{change.name:24}{name:18}{figures['found']:>4}/{figures['trials']:<4}{figures['lines_median']:>8.1f}"
                f"{figures['lines_p90']:>7.1f}{figures['pending_median']:>9.1f}{figures['seconds_median']:>9.1f}"
                f"{figures['seconds_p90']:>8.1f}{figures['onset_error_median']:>7.1f}s"
            )
    return table


def run_causes(known: Learned, machine: Machine, seed: str, count: int) -> dict[str, Any]:
    """Trials with a slower step or a broken drafter, by which name fires first."""
    named: Counter[str] = Counter()
    for number in range(count):
        setting, profile, _ = known[number % len(known)]
        random = Random(f"{seed}:cause{number}")
        service = Service(setting, f"{seed}:cause{number}", machine)
        watching = Watching(profile)
        accept = AcceptDetector(profile.accept, block_size=16)
        truth = "slow-step" if number // len(known) % 2 else "low-accept"
        for item in service.play(random.randint(40, 400)):
            watching.see(item)
            if isinstance(item, Sample):
                accept.see(item)
        if truth == "slow-step":
            service.slow_down(factor(random.uniform(1.15, 1.5)))
        else:
            service.broken_accept = random.uniform(1.05, 1.2)
        began, judged, told = service.busy, watching.judged, ""
        while not told and service.busy - began < LONGEST_SECONDS:
            for item in service.play(1):
                if watching.see(item) is not None:
                    told = told or "slow-step"
                if isinstance(item, Restart):
                    accept.restart(item.at)
                    continue
                accept.see(item)
                fired = [one.name for one in accept.suspicions(item.at) if one.phase == "firing"]
                told = told or (fired[0] if fired else "")
        outside = truth == "slow-step" and watching.judged == judged
        named["right" if told == truth else "wrong" if told else "outside" if outside else "missed"] += 1
    tell(
        f"causes: {named['right']} right, {named['wrong']} wrong, {named['missed']} missed, "
        f"{named['outside']} outside the evidence, of {count}"
    )
    return dict(named)


def run_false_alarms(known: Learned, machine: Machine, seed: str, hours: float) -> dict[str, Any]:
    """Incidents of all detectors over so many hours of healthy blocks, half of them under a model that errs."""
    each = hours / (sum(DENSE_SHARE if setting.interval == 1 else 1.0 for setting, _, _ in known))
    found: Counter[str] = Counter()
    played = 0.0
    stated = 0.0
    for setting, profile, _ in known:
        goal = each * (DENSE_SHARE if setting.interval == 1 else 1.0)
        for bias in (1.0, 1.0 + 0.5 * PROMISED_ERROR):
            service = Service(setting, f"{seed}:healthy{bias}", machine)
            service.slow_down(factor(bias))
            watching = Watching(profile)
            accept = AcceptDetector(profile.accept, block_size=16)
            firing: set[str] = set()
            while service.busy < goal * 1800.0:
                for item in service.play(200):
                    if watching.see(item) is not None:
                        found["slow-step"] += 1
                        tell(f"    false alarm: {setting.name}, model {bias - 1.0:+.1%}")
                    if isinstance(item, Restart):
                        accept.restart(item.at)
                        continue
                    accept.see(item)
                    if accept.suspicious or firing:
                        now = {one.name for one in accept.suspicions(item.at) if one.phase == "firing"}
                        found.update(now - firing)
                        firing = now
            played += service.busy / 3600.0
            stated += sum(one.false_alarms_per_day for one in watching.watch.stated()) * service.busy / 86400.0
        if hours > HOURS:
            tell(f"    {played:.0f} block-hours after {setting.name}, {sum(found.values())} false alarms")
    total = sum(found.values())
    tell(
        f"false alarms: {total} in {played:.0f} block-hours ({dict(found) or 'none'}); the detector stated at most "
        f"{stated:.2g}; 95 % upper bound {poisson_upper(total) / played * 21600.0:.1f} in 21,600 h"
    )
    return {"hours": played, "alarms": dict(found), "stated": stated}


def poisson_upper(count: int) -> float:
    """95 % upper bound of a Poisson mean after `count` events (one-sided)."""
    low, high = 0.0, 10.0 * count + 20.0
    for _ in range(80):
        middle = (low + high) / 2.0
        below = sum(math.exp(-middle + k * math.log(middle) - math.lgamma(k + 1)) for k in range(count + 1))
        low, high = (middle, high) if below > 0.05 else (low, middle)
    return high


def run_rivals(known: Learned, machine: Machine, seed: str, count: int, hours: float) -> dict[str, Any]:
    """The usual rules on trials of 15 and 30 % and on healthy hours, in lines of a log at interval 40 and moments."""
    chosen = [one for one in known if one[0].interval != 1]
    slow = [change for change in CHANGES if change.name in TARGETS]
    delays: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    false: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for number in range(count):
        setting, profile, healthy = chosen[number % len(chosen)]
        change: Change = slow[number // len(chosen) % len(slow)]
        others = rivals(healthy)
        watching = Watching(profile)
        service = Service(setting, f"{seed}:rival{number}", machine)
        for item in service.play(300):
            watching.see(item)
            if isinstance(item, Sample):
                for other in others.values():
                    other.see(item)
        service.slow_down(change.slowdown)
        began, lines, waiting = service.busy, 0, {"ddwatch", *others}
        seen[change.name] += 1
        while waiting and service.busy - began < LONGEST_SECONDS / 3.0:
            for item in service.play(1):
                told = watching.see(item) is not None
                if isinstance(item, Restart):
                    continue
                lines += item.clean
                fired = {name for name, other in others.items() if other.see(item)} | ({"ddwatch"} if told else set())
                for name in fired & waiting:
                    delays[name][change.name].append(lines / setting.traffic.ranks)
                waiting -= fired
    names = ["ddwatch", *rivals(chosen[0][2])]
    played = 0.0
    for setting, profile, healthy in chosen:
        others = rivals(healthy)
        watching = Watching(profile)
        service = Service(setting, f"{seed}:rivals", machine)
        while service.busy < hours * 3600.0 / len(chosen):
            for item in service.play(50):
                if watching.see(item) is not None:
                    false["ddwatch"] += 1
                if isinstance(item, Sample):
                    false.update(name for name, other in others.items() if other.see(item))
        played += service.busy / 3600.0
    tell(f"{'rule':20}" + "".join(f"{name + ' found':>14}{'lines':>8}" for name in TARGETS) + f"{'false per day':>16}")
    table: dict[str, Any] = {}
    for name in names:
        line = f"{name:20}"
        figures: dict[str, Any] = {"false_per_day": false[name] / played * 24.0}
        for change_name in TARGETS:
            found = delays[name][change_name]
            figures[change_name] = {"found": len(found), "of": seen[change_name], "lines": quantile(found, 0.5)}
            line += f"{f'{len(found)}/{seen[change_name]}':>14}{quantile(found, 0.5):>8.1f}"
        table[name] = figures
        tell(line + f"{figures['false_per_day']:>16.2f}")
    return table


def verdicts(outcomes: list[tuple[Setting, Outcome]], causes: dict[str, int], false: dict[str, Any]) -> dict[str, bool]:
    """Each target: met or not."""
    inside = [(setting, one) for setting, one in outcomes if promised(one)]
    met: dict[str, bool] = {}
    for change, limit in TARGETS.items():
        lines = [one.lines for _, one in inside if one.change == change and one.lines is not None]
        met[f"{change} within {limit:.0f} lines or intervals (median)"] = quantile(lines, 0.5) <= limit
    tenth = [one.judged_seconds for _, one in inside if one.change == "x1.10" and one.judged_seconds is not None]
    met["x1.10 within 300 s of traffic (median)"] = quantile(tenth, 0.5) <= 300.0
    met["x1.10 within 300 s of traffic (90 %)"] = quantile(tenth, 0.9) <= 300.0
    judged = [one for _, one in outcomes if one.judged]
    missed = sum(not one.found for one in judged)
    met[f"at most 1 of 300 missed ({missed} of {len(judged)})"] = missed * 300 <= max(len(judged), 300)
    met["no wrong cause"] = causes.get("wrong", 0) == 0
    alarms = sum(false["alarms"].values())
    met["at most 39 false alarms in 21,600 block-hours"] = alarms <= 39.0 * false["hours"] / 21600.0
    return met


def main() -> int:
    """Prints the tables; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="21,600 block-hours and three times the trials")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument("--seed", default="corpus", help="another corpus")
    parser.add_argument("--hours", type=float, help="block-hours of healthy traffic")
    arguments = parser.parse_args()
    began = perf_counter()
    machine, seed = Machine(), str(arguments.seed)
    count = TRIALS * (3 if arguments.full else 1)
    hours = arguments.hours or (FULL_HOURS if arguments.full else HOURS)
    known = learn(machine, seed)
    tell(f"{len(known)} settings learned, fit error up to {max(p.fit_error or 0.0 for _, p, _ in known):.1%}")
    outcomes = run_trials(known, machine, seed, count)
    table = show_trials(outcomes)
    causes = run_causes(known, machine, seed, count)
    false = run_false_alarms(known, machine, seed, hours)
    compared = run_rivals(known, machine, seed, RIVAL_TRIALS, 100.0)
    met = verdicts(outcomes, causes, false)
    for target, holds in met.items():
        tell(f"{'met   ' if holds else 'MISSED'}  {target}")
    inside = sum(promised(one) for _, one in outcomes)
    outside = sum(not one.judged for _, one in outcomes)
    tell(f"{inside} of {len(outcomes)} trials inside the promise (fit error <= 3 %, autocorrelation <= 0.6)")
    tell(f"{outside} of {len(outcomes)} trials outside the evidence all the time: not judged, by design")
    tell(f"{perf_counter() - began:.0f} s")
    if arguments.json:
        document = {"trials": table, "causes": causes, "false_alarms": false, "rivals": compared, "targets": met}
        tell(json.dumps(document, allow_nan=True))
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
