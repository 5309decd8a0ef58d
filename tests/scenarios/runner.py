"""Plays a story (TOML; times in seconds after its `start`) through grammar and monitor with a stated clock."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar import LogReader
from ddwatch.core.hardware import GpuReading, HostProcess, HostReading
from ddwatch.core.monitor import Monitor
from ddwatch.core.positions import Positions
from ddwatch.core.records import (
    DecodeBatch,
    Gap,
    GapReason,
    LinesSeen,
    Loads,
    LogRecord,
    RankLoad,
    Record,
    Rotation,
    SourceFault,
)
from ddwatch.core.snapshot import Event, EventKind, Flag, NoteName, Sample, Verdict, VerdictName
from ddwatch.demo.scenarios import generate
from tests.core.gpus.machine import card
from tests.scenarios import service

LOGS = Path(__file__).parent.parent / "golden" / "logs"


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a story: an unknown key is an error."""


class Piece(Strict, frozen=True):
    """Something that comes at `at`, and again every `every` seconds up to `until`."""

    at: float = 0.0
    until: float | None = None
    every: float = 1.0
    line: str | None = None
    """Text behind the stamp; `{tokens}` is `tokens` and rises by `grow` each time."""
    prefix: str = "TP0"
    bare: bool = False
    """Without stamp and prefix."""
    tokens: int = 1000
    grow: int = 5
    shift: float = 0.0
    """Seconds by which the stamp differs from the time: a clock that was set."""
    gap: GapReason | None = None
    rotated: bool = False
    """The log file is rotated without loss."""
    processes: int | None = None
    """The host names so many processes of the engine."""
    busy: float | None = None
    """Share of its core that each of them uses."""
    refused: bool = False
    """SGLang's port refuses."""
    stopped: bool = False
    """The container whose log is read has stopped."""
    running: int | None = None
    """SGLang's port says that so many requests run, and its moments stand still."""
    demo: str | None = None
    """A scenario of the demo from `skip` seconds of its story on, up to `until`."""
    skip: float = 0.0
    seed: int = 1
    file: str | None = None
    """A golden log, one line every `every` seconds."""


class Cards(Strict, frozen=True, kw_only=True):
    """What eight cards at work report each second; `odd` is the one that differs, without it all do."""

    at: float = 0.0
    until: float
    odd: int | None = None
    reasons: int = 0
    sm_clock_hertz: float = 2.37e9
    temperature_celsius: float = 61.0
    utilization_ratio: float = 0.97
    pcie_generation: int = 5


class Change(Strict, frozen=True):
    """A verdict, and what must stand in it when it comes."""

    at: float
    verdict: VerdictName
    says: str = ""
    """Part of its sentence; each of the three is looked for as it stands."""
    cause: str = ""
    next_step: str = ""
    since: float | None = None
    within: float = 1.01
    """Seconds by which its time and `since` may be off."""


class Happening(Strict, frozen=True):
    at: float
    kind: EventKind
    text: str = ""
    count: int = 1


class Flagged(Strict, frozen=True):
    """The flags of the first sample at or after `at`."""

    at: float
    flags: tuple[Flag, ...]
    dp_rank: int | None = None


class Shown(Strict, frozen=True):
    at: float
    throughput: float | None = None
    batch: int | None = None
    live_ranks: int | None = None
    notes: tuple[NoteName, ...] | None = None
    sentence: str | None = None
    """Part of the verdict's, by then."""
    cause: str | None = None
    beside: tuple[str, ...] | None = None
    """What the notes say."""


class Story(Strict, frozen=True, kw_only=True):
    story: str
    reports: tuple[str, ...] = ()
    start: str = "2026-05-01 12:00:00"
    seconds: int
    learned: tuple[float, ...] = ()
    """Accept lengths of the texts that ddwatch has a profile of; without any it has none."""
    replayed: bool = False
    """Whether the log's own stamps place the lines, as in a replay."""
    log: tuple[Piece, ...] = ()
    work: tuple[service.Work, ...] = ()
    cards: tuple[Cards, ...] = ()
    verdict: tuple[Change, ...]
    event: tuple[Happening, ...] = ()
    sample: tuple[Flagged, ...] = ()
    shown: tuple[Shown, ...] = ()
    samples: int | None = None
    clean: int | None = None
    alerts: dict[NoteName, int] | None = None
    """Incidents that began, by name."""


def read_story(path: Path) -> Story:
    return msgspec.toml.decode(path.read_bytes(), type=Story)


def stamped(at: float, prefix: str, text: str) -> str:
    """A line as SGLang writes it."""
    stamp = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    return f"[{f'{stamp} {prefix}'.strip()}] {text}"


Item = str | Record


def spoken(piece: Piece, start: float) -> Iterator[tuple[float, Item]]:
    """What a piece adds to the log, each with its time."""
    at, number = start + piece.at, 0
    until = at if piece.until is None else start + piece.until
    if piece.demo is not None:
        lines = generate(piece.demo, piece.seed, at - piece.skip, until - at + piece.skip)
        yield from ((moment, line) for moment, line in lines if moment >= at)
    elif piece.file is not None:
        texts = (LOGS / piece.file).read_bytes().decode("utf-8", "replace").split("\n")
        yield from ((at + piece.every * n, text) for n, text in enumerate(texts))
    else:
        while (moment := at + number * piece.every) <= until + 1e-6:
            yield from ((moment, item) for item in _said(piece, moment, number))
            number += 1


def _said(piece: Piece, at: float, number: int) -> Iterator[Item]:
    """What a piece says the n-th time."""
    if piece.gap is not None:
        yield Gap(at=at, source="log", reason=piece.gap, detail=f"lines {piece.gap}")
    if piece.rotated:
        yield Rotation(at=at, source="log", detail="the log was rotated")
    if piece.processes is not None:
        engine = tuple(
            HostProcess(pid=4000 + n, role="scheduler", rank=f"TP{n}", cpu_ratio=piece.busy)
            for n in range(piece.processes)
        )
        yield HostReading(at=at, cores=64, processes=engine)
    if piece.refused:
        yield SourceFault(at=at, source="loads", reason="nothing answers", gone=True)
    if piece.stopped:
        reason = "container kimi is not running (exited, exit code 137): `docker start kimi`"
        yield SourceFault(at=at, source="log", reason=reason, gone=True)
    if piece.running is not None:
        load = RankLoad(dp_rank=0, running=piece.running, used_tokens=5000, moments=(9, 9, 9, 9, 9, 9))
        yield Loads(at=at, source="loads", ranks=(load,))
    if piece.line is not None:
        text = piece.line.replace("{tokens}", str(piece.tokens + number * piece.grow))
        yield text if piece.bare else stamped(at + piece.shift, piece.prefix, text)


def worked(work: service.Work, start: float) -> Iterator[tuple[float, Item]]:
    """The lines of a work, each with its time."""
    return ((at, stamped(at, work.prefix, text)) for at, text in service.lines(work, start))


def reported(cards: Cards, start: float) -> Iterator[tuple[float, Item]]:
    """One reading of the cards each second."""
    odd = {
        "reasons": cards.reasons,
        "sm_clock_hertz": cards.sm_clock_hertz,
        "temperature_celsius": cards.temperature_celsius,
        "utilization_ratio": cards.utilization_ratio,
        "pcie_generation": cards.pcie_generation,
    }
    at = cards.at
    while at <= cards.until:
        found = tuple(card(index, **(odd if cards.odd in (None, index) else {})) for index in range(8))
        yield start + at, GpuReading(at=start + at, cards=found)
        at += 1.0


class Played:
    """What came out of a story."""

    def __init__(self, story: Story) -> None:
        self.start = datetime.strptime(story.start, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
        self._reader = LogReader(timezone.utc, self.start)
        self._replayed = story.replayed
        profile = service.learned(story.learned) if story.learned else None
        self._monitor = Monitor(started_at=self.start, expecting=Expecting(given=profile))
        self._positions = Positions()
        self.verdicts: list[tuple[float, VerdictName]] = []
        self.words: list[Verdict] = []
        """Each verdict as it stood when it came."""
        self.samples: list[Sample] = []
        self.shown: dict[float, dict[str, object]] = {}
        said = [item for piece in story.log for item in spoken(piece, self.start)]
        said += [item for work in story.work for item in worked(work, self.start)]
        said += [item for cards in story.cards for item in reported(cards, self.start)]
        items = deque(sorted(said, key=lambda item: item[0]))
        for second in range(story.seconds + 1):
            while items and items[0][0] <= self.start + second:
                self._take(*items.popleft())
            self._ask(second)
        self.alerts = dict(self._monitor.tallies().alerts)
        self.events: list[Event] = [e for e in self._monitor.history().events if e.kind != "verdict"]

    def _take(self, at: float, item: Item) -> None:
        if not isinstance(item, str):
            self._monitor.accept(item, "log")
            if isinstance(item, LogRecord | Gap):
                self._positions.see(item)
            return
        for record in self._reader.read(item.encode(), None if self._replayed else at, None):
            sample = self._positions.see(record)
            self.samples += [sample] if isinstance(record, DecodeBatch) and sample is not None else []
            self._monitor.accept(record, "log")
        self._monitor.accept(LinesSeen(at=at, source="log", lines=1), "log")

    def _ask(self, second: int) -> None:
        snapshot = self._monitor.at(self.start + second)
        if not self.verdicts or self.verdicts[-1][1] != snapshot.verdict.name:
            self.verdicts.append((second, snapshot.verdict.name))
            self.words.append(snapshot.verdict)
        self.shown[second] = {
            "throughput": snapshot.now.throughput,
            "batch": snapshot.now.batch,
            "live_ranks": sum(rank.live for rank in snapshot.ranks),
            "notes": tuple(note.name for note in snapshot.notes),
            "beside": tuple(note.sentence for note in snapshot.notes),
            "sentence": snapshot.verdict.sentence,
            "cause": snapshot.verdict.cause,
        }
