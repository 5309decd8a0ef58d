"""What a replay without a screen tells: each change of verdict as it comes, and the sum of it all at the end."""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from ddwatch.core.exits import VERDICT_EXITS, Exit
from ddwatch.core.monitor import Monitor
from ddwatch.core.positions import Positions
from ddwatch.core.recording import VerdictChange, verdict_change
from ddwatch.core.records import (
    Crash,
    DecodeBatch,
    GraphSizes,
    JitCompile,
    LoadProgress,
    LogRecord,
    PoolSized,
    PrefillBatch,
    Record,
    Retraction,
    ServerReady,
    ServerStart,
    ServerStop,
    SpeculationSetup,
    Unread,
)
from ddwatch.core.snapshot import Verdict, VerdictName
from ddwatch.core.wire import iso

SCHEMA = "ddwatch.replay/1"
ROWS_HELD = 10_000
"""Rows kept back until something shows that this is a scheduler's log."""
DIGITS = 4
"""Significant digits that medians are exact to; it bounds their memory."""


SCHEDULER = (
    *(DecodeBatch, PrefillBatch, ServerStart, LoadProgress, PoolSized, GraphSizes, JitCompile, SpeculationSetup),
    *(ServerReady, ServerStop, Retraction, Crash),
)
"""Records that only SGLang writes: a server that crashed while it started has a story without any decode line."""


class Median:
    """The median of many positive values in bounded memory, exact to a few significant digits."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()

    def add(self, value: float | None) -> None:
        """Counts a value; None is not counted."""
        if value is not None:
            self._counts[float(f"{value:.{DIGITS}g}")] += 1

    def value(self) -> float | None:
        """The median so far; None without any value."""
        total = self._counts.total()
        wanted = {(total - 1) // 2, total // 2} if total else set()
        found: list[float] = []
        passed = 0
        for value in sorted(self._counts):
            count = self._counts[value]
            found += [value for rank in sorted(wanted) if passed <= rank < passed + count]
            passed += count
        return sum(found) / len(found) if found else None


def row(change: VerdictChange, *, stamped: bool) -> dict[str, Any]:
    """One change of verdict, keys in the order of DESIGN.md section 7."""
    return {
        "schema": SCHEMA,
        "at": iso(change.at) if stamped else None,
        "verdict": change.verdict.name,
        "severity": change.verdict.severity,
        "ratio": change.ratio,
        "measured": change.measured,
        "expected": change.expected,
        "accept_length": change.accept_length,
        "step_seconds": change.step_seconds,
        "context_tokens": change.context_tokens,
        "batch": change.batch,
        "cause": change.verdict.cause,
        "evidence": change.verdict.evidence,
    }


class Account:
    """Follows one run of a log: changes of verdict as they come, counts for the end."""

    def __init__(
        self,
        changed: Callable[[VerdictChange, Sequence[str]], None],
        fail_on: frozenset[VerdictName] = frozenset(),
    ) -> None:
        self._changed = changed
        self._fail_on = fail_on
        self._positions = Positions()
        self._verdict: VerdictName | None = None
        self._since = 0.0
        self._seq = 0
        self.begin = -math.inf
        """Verdicts before this moment are not told."""
        self.known = False
        """Whether anything was seen that only SGLang writes."""
        self.unread = 0
        self.samples = 0
        self.clean = 0
        self.flags: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.verdict_seconds: dict[VerdictName, float] = {}
        self.medians = {"throughput": Median(), "accept_length": Median(), "step_seconds": Median()}
        self.first: float | None = None
        self.last: float | None = None

    def seen(self, record: Record) -> None:
        """Takes a record before the monitor does; nothing before `begin` counts."""
        sample = self._positions.see(record)
        self.known = self.known or isinstance(record, SCHEDULER)
        if record.at < self.begin:
            return
        if isinstance(record, LogRecord) and record.stamp is not None:
            self.first = record.at if self.first is None else self.first
            self.last = record.at
        if isinstance(record, Unread):
            self.unread += 1
        if sample is None:
            return
        self.samples += 1
        self.flags.update(sample.flags)
        if sample.clean:
            self.clean += 1
            self.medians["throughput"].add(sample.throughput)
            self.medians["accept_length"].add(sample.accept_length)
            self.medians["step_seconds"].add(sample.step_seconds)

    def asked(self, now: float, monitor: Monitor, verdict: Verdict) -> None:
        """Takes what the monitor holds now; the whole snapshot is only looked at when the verdict changes."""
        history = monitor.history(self._seq)
        for event in history.events:
            # One that took the place of another between two looks is the first of its kind here.
            counted = event.replaces is not None and event.replaces <= self._seq
            if not counted and event.at >= self.begin:
                self.events[event.kind] += 1
        newest = [point.seq for point in history.points[-1:]] + [event.seq for event in history.events]
        self._seq = max([self._seq, *newest])
        if self._verdict is not None:
            held = self.verdict_seconds.get(self._verdict, 0.0)
            self.verdict_seconds[self._verdict] = held + now - self._since
        self._since = now
        if now >= self.begin and self._verdict != verdict.name:
            self._verdict = verdict.name
            self.verdict_seconds.setdefault(verdict.name, 0.0)
            snapshot = monitor.at(now)
            self._changed(verdict_change(snapshot), snapshot.now.flags)

    def exit_code(self) -> Exit:
        """The worst of page, notice and fine; unjudged only when nothing else was; page for what shall fail."""
        if self._fail_on & self.verdict_seconds.keys():
            return Exit.PAGE
        codes = {VERDICT_EXITS[name] for name in self.verdict_seconds}
        return max(codes - {Exit.UNJUDGED}, default=Exit.UNJUDGED)

    def summary(self, lines: int, restarts: int, alerts: Mapping[str, int] | None) -> dict[str, Any]:
        """What the whole run comes to; `alerts` counts the incidents that began, None where that is not known."""
        return {
            "lines": lines,
            "unread": self.unread,
            "samples": self.samples,
            "clean": self.clean,
            "flags": dict(sorted(self.flags.items())),
            "events": dict(sorted(self.events.items())),
            "restarts": restarts,
            "alerts": None if alerts is None else dict(sorted(alerts.items())),
            "verdict_seconds": {name: round(seconds, 3) for name, seconds in self.verdict_seconds.items()},
            "medians": {name: median.value() for name, median in self.medians.items()},
            "first": iso(self.first) if self.first is not None else None,
            "last": iso(self.last) if self.last is not None else None,
            "exit_code": int(self.exit_code()),
        }


class Words:
    """Writes a run as JSON lines or as text; holds back until it is known to be a scheduler's log."""

    def __init__(self, account_is_open: Callable[[], bool], as_json: bool, zone: tzinfo | None) -> None:
        self._open = account_is_open
        self._json = as_json
        self._zone = zone
        self._held: list[str] = []
        self.stamped = True

    def change(self, change: VerdictChange, flags: Sequence[str] = ()) -> None:
        """Tells a change of verdict; `flags` of the sample that its figures come from."""
        document = row(change, stamped=self.stamped) if self._json else None
        text = self._text(change, flags) if document is None else json.dumps(document, allow_nan=False)
        if self._open():
            self.flush()
            sys.stdout.write(f"{text}\n")
        elif len(self._held) < ROWS_HELD:
            self._held.append(text)

    def flush(self) -> None:
        """Tells what was held back."""
        sys.stdout.writelines(f"{text}\n" for text in self._held)
        self._held.clear()

    def _text(self, change: VerdictChange, flags: Sequence[str]) -> str:
        moment = datetime.fromtimestamp(change.at, self._zone).strftime("%Y-%m-%d %H:%M:%S")
        when = moment if self.stamped else "time unknown"
        figures = [
            f"{change.measured:.1f} tok/s" if change.measured is not None else "",
            f"accept {change.accept_length:.2f}" if change.accept_length is not None else "",
            f"step {1000 * change.step_seconds:.1f} ms" if change.step_seconds is not None else "",
        ]
        known = ", ".join(figure for figure in figures if figure)
        if known and flags:
            known += f"; not clean: {', '.join(flags)}"
        return f"{when}  {change.verdict.name:<11}  {change.verdict.sentence}{f' [{known}]' if known else ''}"

    def end(self, summary: dict[str, Any]) -> None:
        """Tells the summary."""
        self.flush()
        if self._json:
            sys.stdout.write(json.dumps({"schema": SCHEMA, "summary": summary}, allow_nan=False) + "\n")
            return
        sys.stdout.write("\n")
        for name, value in summary.items():
            sys.stdout.write(f"{name.replace('_', ' '):<16} {_plain(value)}\n")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items()) or "none"
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
