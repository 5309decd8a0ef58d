"""Puts the screen of a past moment together again from what a recording kept, and plays those moments in order."""

import math
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

from msgspec.structs import replace

from ddwatch.core.durations import in_words
from ddwatch.core.exits import CommandFailed
from ddwatch.core.history import EVENTS_KEPT, merged
from ddwatch.core.positions import RankKey
from ddwatch.core.records import SourceFault
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.snapshot import (
    Event,
    Flag,
    Frame,
    History,
    Now,
    Point,
    RankView,
    Sample,
    Snapshot,
    Verdict,
)
from ddwatch.feeds.contract import ReplayControls
from ddwatch.feeds.play_head import Head
from ddwatch.feeds.recording import Opener, Recording, gap_at

WINDOW_SECONDS = 7200.0
"""The history that a frame carries."""
FRAME_SECONDS = 0.25
"""Wall time between two frames."""
QUIET_SECONDS = 10.0
"""Silence in the recording that is longer than this is hurried through."""
HURRY_SECONDS = 1.0
"""Wall time that a hurried silence takes, whatever its length."""
STRIDE_SECONDS = 3600.0
"""How far one frame moves when it goes as fast as possible."""
AWAY_SECONDS = 15.0
"""Without a point for this long between two runs, nobody was there; a log that was read later fills such a gap."""


def _blind(at: float, since: float, sentence: str) -> Verdict:
    return Verdict(
        name="blind", severity="unknown", since=min(at, since), sentence=sentence, cause="the sidecar did not run"
    )


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


class Tape:
    """Moves over a recording; forwards in small steps it reads only what is new."""

    def __init__(self, recording: Recording, version: str = "") -> None:
        self._recording = recording
        self._version = version
        self._at = -math.inf
        self._seq = 0
        self._history = History()
        self._kept: Snapshot | None = None
        self._newest: dict[RankKey, Sample] = {}
        self._verdict: tuple[float, Verdict] | None = None
        self._runs = recording.runs()

    def frame(self, at: float) -> Frame:
        """What the screen showed at a moment, as far as it was kept; raises CommandFailed for a damaged file."""
        if at < self._at or at - self._at > WINDOW_SECONDS:
            self._load(at)
        elif at > self._at:
            self._go_on(at)
        self._at = at
        return Frame(snapshot=self._snapshot(at), history=self._history)

    def _load(self, at: float) -> None:
        recording = self._recording
        self._runs = recording.runs()
        self._history, self._seq = History(), 0
        since = at - WINDOW_SECONDS
        self._take(
            list(recording.points(since, at)),
            list(recording.events(since=-math.inf, until=at, newest=EVENTS_KEPT)),
            recording.requests(until=at),
        )
        self._kept = recording.snapshot(at)
        change = recording.last_verdict(at)
        self._verdict = None if change is None else (change.at, change.verdict)
        self._newest = {}
        self._see(self._kept.at if self._kept is not None else at - QUIET_SECONDS, at)

    def _go_on(self, at: float) -> None:
        recording, before = self._recording, self._at
        points, events = list(recording.points(before, at)), list(recording.events(before, at))
        self._take(points, events, recording.requests(before, at))
        kept = recording.snapshot(at, before)
        if kept is not None:
            self._kept = kept
            self._newest = {}
        change = recording.last_verdict(at)
        if change is not None:
            self._verdict = (change.at, change.verdict)
        self._see(max(before, kept.at) if kept is not None else before, at)

    def _see(self, since: float, until: float) -> None:
        for sample in self._recording.samples(max(since, until - QUIET_SECONDS), until):
            self._newest[(sample.engine, sample.dp_rank)] = sample

    def _take(self, points: list[Point], events: list[Event], requests: list[FinishedRequest]) -> None:
        items: list[Point | Event | FinishedRequest] = [*points, *events, *requests]
        items.sort(key=lambda item: item.at)
        new_points: list[Point] = []
        new_events: list[Event] = []
        new_requests: list[FinishedRequest] = []
        for item in items:
            self._seq += 1
            if isinstance(item, Point):
                new_points.append(replace(item, seq=self._seq))
            elif isinstance(item, FinishedRequest):
                new_requests.append(replace(item, seq=self._seq))
            else:
                new_events.append(replace(item, seq=self._seq))
        new = History(points=tuple(new_points), events=tuple(new_events), requests=tuple(new_requests))
        self._history = merged(self._history, new)

    def _snapshot(self, at: float) -> Snapshot:
        kept, point = self._kept, self._history.points[-1] if self._history.points else None
        gap = gap_at(self._runs, at)
        if gap is not None and (point is None or at - point.at > AWAY_SECONDS or point.state == "gap"):
            away = in_words(gap[1] - gap[0])
            sentence = f"nothing was recorded for {away}, from {_clock(gap[0])}: no sidecar was running"
            verdict = _blind(at, gap[0], sentence)
            base = kept or Snapshot(seq=0, at=at, verdict=verdict)
            return replace(base, seq=self._seq, at=at, verdict=verdict, notes=(), now=Now(), expected=None, ratio=None)
        if kept is None:
            sentence = "ddwatch was not there yet: these figures were read from the log later"
            kept = Snapshot(seq=0, at=at, ddwatch_version=self._version, verdict=_blind(at, at, sentence))
        verdict = kept.verdict
        if self._verdict is not None and self._verdict[0] > kept.at:
            verdict = self._verdict[1]
        snapshot = replace(kept, seq=self._seq, at=at, verdict=verdict, ranks=self._ranks(kept))
        if point is None or point.state != "data" or point.at < math.floor(kept.at):
            return snapshot
        return self._brought_up(snapshot, point)

    def _ranks(self, kept: Snapshot) -> tuple[RankView, ...]:
        """The rank views of the kept snapshot with the samples that came after it."""
        views = {(view.sample.engine, view.sample.dp_rank): view for view in kept.ranks}
        for key, sample in self._newest.items():
            view = views.get(key)
            views[key] = RankView(sample=sample) if view is None else replace(view, sample=sample)
        return tuple(views[key] for key in sorted(views, key=lambda key: (key[0] or "", key[1] or 0)))

    def _brought_up(self, snapshot: Snapshot, point: Point) -> Snapshot:
        """The snapshot with the figures of a later second."""
        samples = list(self._newest.values())
        flags: dict[Flag, None] = {flag: None for sample in samples for flag in sample.flags}
        now = replace(
            snapshot.now,
            at=point.at,
            provenance=samples[-1].provenance if samples else snapshot.now.provenance,
            throughput=point.throughput,
            accept_length=point.accept_length,
            step_seconds=point.step_seconds,
            batch=point.batch,
            queued=point.queued,
            context_tokens=point.context_tokens,
            total_context_tokens=point.total_context_tokens,
            flags=tuple(flags) if point.contaminated else (),
        )
        expected, ratio = snapshot.expected, None
        if expected is not None and point.expected_throughput is not None:
            expected = replace(
                expected,
                tokens_per_second=point.expected_throughput,
                low=expected.low if point.expected_low is None else point.expected_low,
                high=expected.high if point.expected_high is None else point.expected_high,
                step_seconds=(
                    expected.step_seconds if point.expected_step_seconds is None else point.expected_step_seconds
                ),
            )
            if point.throughput is not None and point.expected_throughput > 0 and not point.contaminated:
                ratio = point.throughput / point.expected_throughput
        return replace(snapshot, now=now, expected=expected, ratio=ratio)


class RecordingFeed:
    """Frames of a recording in order of its time; any place can be reached at once."""

    def __init__(
        self,
        open_file: Opener,
        *,
        origin: str,
        bounds: tuple[float, float],
        speed: float = 10.0,
        version: str = "",
        start: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] | None = None,
    ) -> None:
        """Prepares a replay.

        Args:
            open_file: opens the recording; CommandFailed is shown as a fault.
            origin: the recording as the operator would name it.
            bounds: its first and last moment, seconds since the epoch.
            speed: seconds of the recording per second of the clock; infinite is as fast as possible.
            version: version of ddwatch.
            start: seconds of the recording to skip at first.
            clock: monotonic seconds.
            rest: waits between two frames; by default until the time is over or something is asked for.
        """
        self._open = open_file
        self._origin = origin
        self._began_at, self._ended_at = bounds
        self._version = version
        self._clock = clock
        self._head = Head(speed, True, self._ended_at - self._began_at)
        self._rest = rest or self._head.rest
        self._start = min(max(start, 0.0), self._ended_at - self._began_at)

    @property
    def origin(self) -> str:
        """The recording as the operator would name it."""
        return self._origin

    @property
    def controls(self) -> ReplayControls:
        """Pause, seek, faster, slower."""
        return self._head

    @property
    def closed(self) -> bool:
        """Whether it was told to end."""
        return self._head.closed

    def close(self) -> None:
        """Makes `frames` end within a second."""
        self._head.close()

    def frames(self) -> Iterator[Frame | SourceFault]:
        """Frames until the feed is closed; at the end of the recording the last one is repeated."""
        at = self._began_at + self._start
        try:
            with self._open() as recording:
                tape = Tape(recording, self._version)
                before = self._clock()
                while not self._head.closed:
                    now = self._clock()
                    passed, before = now - before, now
                    at = self._moved(recording, at, passed)
                    frame = tape.frame(at)
                    self._head.reached(at - self._began_at)
                    yield frame
                    self._rest(FRAME_SECONDS)
        except CommandFailed as failure:
            yield SourceFault(at=at, source=self._origin, reason=failure.sentence)

    def _moved(self, recording: Recording, at: float, passed: float) -> float:
        """Where the tape is after some wall time."""
        head = self._head
        wanted = head.wanted()
        if wanted is not None:
            return min(self._began_at + wanted, self._ended_at)
        if head.paused:
            return at
        if at >= self._ended_at:
            # Somebody may still be writing it.
            bounds = recording.bounds()
            self._ended_at = max(self._ended_at, bounds[1] if bounds is not None else self._ended_at)
        if math.isinf(head.speed):
            return min(at + STRIDE_SECONDS, self._ended_at)
        before, after = recording.points_around(at)
        silence = (self._ended_at if after is None else after) - (self._began_at if before is None else before)
        end = self._ended_at if after is None else min(after, self._ended_at)
        if silence > QUIET_SECONDS + 1.0 and end > at:
            return min(at + passed * max(head.speed, silence / HURRY_SECONDS), end)
        return min(at + passed * head.speed, self._ended_at)
