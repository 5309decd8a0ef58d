"""Plays a story (TOML; times in seconds after its `start`) through grammar and monitor with a stated clock."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.positions import Positions
from ddwatch.core.records import DecodeBatch, Gap, GapReason, LinesSeen, Loads, RankLoad, SourceFault
from ddwatch.core.snapshot import Event, EventKind, Flag, Sample, VerdictName
from ddwatch.demo.scenarios import generate

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
    gap: GapReason | None = None
    refused: bool = False
    """SGLang's port refuses."""
    running: int | None = None
    """SGLang's port says that so many requests run, and its moments stand still."""
    demo: str | None = None
    """A scenario of the demo from `skip` seconds of its story on, up to `until`."""
    skip: float = 0.0
    seed: int = 1
    file: str | None = None
    """A golden log, one line every `every` seconds."""


class Change(Strict, frozen=True):
    at: float
    verdict: VerdictName


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
    notes: tuple[VerdictName, ...] | None = None


class Story(Strict, frozen=True, kw_only=True):
    story: str
    reports: tuple[str, ...] = ()
    start: str = "2026-05-01 12:00:00"
    seconds: int
    log: tuple[Piece, ...]
    verdict: tuple[Change, ...]
    event: tuple[Happening, ...] = ()
    sample: tuple[Flagged, ...] = ()
    shown: tuple[Shown, ...] = ()
    samples: int | None = None
    clean: int | None = None


def read_story(path: Path) -> Story:
    return msgspec.toml.decode(path.read_bytes(), type=Story)


def spoken(piece: Piece, start: float) -> Iterator[tuple[float, str | Gap | Loads | SourceFault]]:
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
            if piece.gap is not None:
                yield moment, Gap(at=moment, source="log", reason=piece.gap, detail=f"lines {piece.gap}")
            if piece.refused:
                yield moment, SourceFault(at=moment, source="loads", reason="nothing answers", gone=True)
            if piece.running is not None:
                load = RankLoad(dp_rank=0, running=piece.running, used_tokens=5000, moments=(9, 9, 9, 9, 9, 9))
                yield moment, Loads(at=moment, source="loads", ranks=(load,))
            if piece.line is not None:
                stamp = datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
                text = piece.line.replace("{tokens}", str(piece.tokens + number * piece.grow))
                yield moment, text if piece.bare else f"[{f'{stamp} {piece.prefix}'.strip()}] {text}"
            number += 1


class Played:
    """What came out of a story."""

    def __init__(self, story: Story) -> None:
        self.start = datetime.strptime(story.start, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
        self._reader = LogReader(timezone.utc, self.start)
        self._monitor = Monitor(started_at=self.start)
        self._positions = Positions()
        self.verdicts: list[tuple[float, VerdictName]] = []
        self.samples: list[Sample] = []
        self.shown: dict[float, dict[str, object]] = {}
        said = (item for piece in story.log for item in spoken(piece, self.start))
        items = deque(sorted(said, key=lambda item: item[0]))
        for second in range(story.seconds + 1):
            while items and items[0][0] <= self.start + second:
                self._take(*items.popleft())
            self._ask(second)
        self.events: list[Event] = [e for e in self._monitor.history().events if e.kind != "verdict"]

    def _take(self, at: float, item: str | Gap | Loads | SourceFault) -> None:
        records = [item] if isinstance(item, (Gap, Loads, SourceFault)) else self._reader.read(item.encode(), at, None)
        for record in records:
            sample = self._positions.see(record)
            self.samples += [sample] if isinstance(record, DecodeBatch) and sample is not None else []
            self._monitor.accept(record, "log")
        self._monitor.accept(LinesSeen(at=at, source="log", lines=1), "log")

    def _ask(self, second: int) -> None:
        snapshot = self._monitor.at(self.start + second)
        if not self.verdicts or self.verdicts[-1][1] != snapshot.verdict.name:
            self.verdicts.append((second, snapshot.verdict.name))
        self.shown[second] = {
            "throughput": snapshot.now.throughput,
            "batch": snapshot.now.batch,
            "live_ranks": sum(rank.live for rank in snapshot.ranks),
            "notes": tuple(note.name for note in snapshot.notes),
        }
