"""The past that `ddwatch backtest` plays: samples and restarts of a log or recording, in two parts."""

from collections import Counter, deque
from collections.abc import Iterable
from datetime import tzinfo
from pathlib import Path
from secrets import token_bytes

from msgspec import Struct

from ddwatch.commands.steps import written_at
from ddwatch.core.arguments import changes
from ddwatch.core.comparison.epochs import coupled
from ddwatch.core.detection.backtest import Item, Restarted
from ddwatch.core.exits import CommandFailed
from ddwatch.core.expectation.identity import identity_differences
from ddwatch.core.expectation.setups import Setup, Setups
from ddwatch.core.grammar import LogReader
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.lifecycle import Lifecycle
from ddwatch.core.positions import Positions
from ddwatch.core.records import (
    DecodeBatch,
    GraphSizes,
    LogRecord,
    PrefillBatch,
    Record,
    ServerStart,
    SpeculationSetup,
)
from ddwatch.core.snapshot import Provenance, Sample
from ddwatch.feeds.log_lines import open_log, shown
from ddwatch.feeds.recording import FAR, open_recording

MOST_ENTRIES = 200_000
"""Samples and restarts that are kept, some 80 MB; of a longer past the newest."""
EARLIER_SHARE = 0.5
"""Share of the clean samples that the profile is fitted on; the rest is what it is tested on."""

Entry = Sample | Restarted | ServerStart | SpeculationSetup | GraphSizes


class Past:
    """What is kept of a log or a recording, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        """What it was read from, as a terminal may show it."""
        self.entries: deque[Entry] = deque()
        self.stamped = True
        """False when the log has no times, so that those here are estimates."""
        self.forgotten = 0
        """Older samples that were not kept."""
        self._before: dict[type[Entry], Entry] = {}

    def add(self, entry: Entry) -> None:
        """Takes the next entry; the oldest one gives way, its setup is remembered."""
        self.entries.append(entry)
        if len(self.entries) > MOST_ENTRIES:
            oldest = self.entries.popleft()
            if isinstance(oldest, Sample):
                self.forgotten += 1
            elif not isinstance(oldest, Restarted):
                self._before[type(oldest)] = oldest

    def all(self) -> list[Entry]:
        """Everything kept, the setup in force at its begin first."""
        return [*self._before.values(), *self.entries]

    @property
    def samples(self) -> list[Sample]:
        """The samples alone."""
        return [entry for entry in self.entries if isinstance(entry, Sample)]


class Parts(Struct, frozen=True, kw_only=True):
    """The two parts: what the profile may be fitted on, and what it is tested on."""

    setup: Setup | None
    """The richest setup of the earlier part, with its clean samples; None when it holds no sample."""
    later: tuple[Item, ...]
    """Items of the same service as the setup."""
    coupled: bool | None
    """Whether DP ranks step together, by the last arguments seen."""
    block_size: int | None
    provenance: Provenance
    """The witness that is judged."""
    left_out: tuple[str, ...]
    """What was neither fitted nor tested, and why."""


def of_log(path: str, zone: tzinfo | None) -> Past:
    """Reads a log whose stamps are of this zone; raises CommandFailed when it cannot be read or has no sample."""
    past = Past("standard input" if path == "-" else shown(Path(path).name))
    reader = LogReader(zone, written_at(path), token_bytes(32))
    positions = Positions()
    lifecycle = Lifecycle(EventLog(Ring()))

    def take(records: Iterable[Record]) -> None:
        for record in records:
            sample = positions.see(record)
            restarts = lifecycle.view.restarts
            if isinstance(record, (DecodeBatch, PrefillBatch)):
                lifecycle.traffic()
            elif isinstance(record, LogRecord):
                lifecycle.see(record)
            if lifecycle.view.restarts != restarts and isinstance(record, LogRecord):
                past.add(Restarted(record.at, record.rank.engine))
            if isinstance(record, (ServerStart, SpeculationSetup, GraphSizes)):
                past.add(record)
            if sample is not None:
                past.add(sample)

    with open_log(path) as lines:
        for number, line in lines:
            take(reader.read(line, None, number))
        take(reader.close())
        count = lines.count
    past.stamped = reader.stamped
    if not past.samples:
        lines_read = f"{count} line{'' if count == 1 else 's'}"
        raise CommandFailed(f"ddwatch backtest: no decode line in {lines_read}; is this the scheduler's log?")
    return past


def of_recording(path: str) -> Past:
    """Reads samples and starts of a recording; raises CommandFailed when it cannot be read or holds none."""
    with open_recording(path) as recording:
        past = Past(recording.name)
        starts = deque(recording.servers(-FAR, FAR))
        known: ServerStart | None = None
        seen = False
        for sample in recording.samples(-FAR, FAR):
            while starts and starts[0].at <= sample.at:
                told = starts.popleft()
                start = ServerStart(at=told.at, arguments=told.arguments, withheld=dict.fromkeys(told.withheld, "set"))
                # A port tells its arguments at any time, so that only other ones than before are a restart.
                if seen and (told.kind == "start" or (known is not None and changes(known, start))):
                    past.add(Restarted(told.at, told.engine))
                if known is None or told.kind == "start" or changes(known, start):
                    past.add(start)
                    known = start
            past.add(sample)
            seen = True
    if not seen:
        raise CommandFailed(f"ddwatch backtest: no sample is recorded in {past.name}")
    return past


def cut(past: Past, share: float = EARLIER_SHARE) -> Parts:
    """Cuts a past where this share of its clean samples has gone by; 0 keeps all for the test."""
    samples = past.samples
    provenance = _witness(samples)
    clean = sum(sample.clean for sample in samples if sample.provenance == provenance)
    left = int(clean * share)
    setups = Setups()
    setups.begin(None)
    chosen: Setup | None = None
    later: list[Item] = []
    strangers = others = 0
    arguments: dict[str, str | int | float | bool | None] = {}
    testing = left == 0
    for entry in past.all():
        if isinstance(entry, Sample):
            if entry.provenance != provenance:
                others += 1
            elif not testing:
                setups.take(entry)
                left -= entry.clean
                if left <= 0:
                    testing, chosen = True, setups.richest()
            elif _same(chosen, setups.current):
                later.append(entry)
            else:
                strangers += 1
        elif isinstance(entry, Restarted):
            if testing:
                later.append(entry)
        else:
            if isinstance(entry, ServerStart):
                arguments = dict(entry.arguments)
            setups.see(entry, None)
    left_out = list(setups.left_out(chosen)) if chosen is not None else []
    if strangers:
        left_out.append(f"{strangers} later samples of another service (other model, hardware or drafter)")
    if others:
        left_out.append(f"{others} samples of the other witness: {provenance} is judged")
    if past.forgotten:
        left_out.append(f"{past.forgotten} older samples: the newest {MOST_ENTRIES} are kept")
    current = setups.current
    return Parts(
        setup=chosen,
        later=tuple(later),
        coupled=coupled(arguments),
        block_size=current.identity.block_size if current is not None else None,
        provenance=provenance,
        left_out=tuple(left_out),
    )


def _witness(samples: list[Sample]) -> Provenance:
    """Where most clean samples were read; two witnesses are never mixed in one fit."""
    counts: Counter[Provenance] = Counter(sample.provenance for sample in samples if sample.clean)
    return counts.most_common(1)[0][0] if counts else "log"


def _same(chosen: Setup | None, current: Setup | None) -> bool:
    """Whether a sample belongs to the service that was fitted, as far as both are known."""
    return chosen is None or current is None or not identity_differences(chosen.identity, current.identity)
