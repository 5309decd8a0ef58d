"""Writes what the watch has seen into a recording that outlasts it, in a thread of its own and never in its way.

The service hands over records and snapshots; nothing here waits for a disk on the event loop. What the disk would
not take stays in a bounded queue, and what falls out of that is counted and told.
"""

import hashlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from ddwatch.core.hardware import GpuReading
from ddwatch.core.log_place import read_place
from ddwatch.core.recording import verdict_change
from ddwatch.core.records import Record, ServerInfo, ServerStart, SourceFault, SourceUp
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.snapshot import Event, History, Point, Sample, Snapshot, SourceView
from ddwatch_sidecar.exports.recording_file import Limits, Past, RecordingFile
from ddwatch_sidecar.exports.recording_opening import Unrecordable, damaged, put_aside, reason_of
from ddwatch_sidecar.exports.recording_rows import Item, SourceSaid, server_said, write
from ddwatch_sidecar.exports.recording_upkeep import age, compute_means, give_back, shed

SOURCE = "recording"
"""The name under which the recording tells its faults."""
QUEUE_ITEMS = 20_000
"""Items that wait for the disk: ten minutes at 30 samples per second."""
BATCH_ITEMS = 5000
COMMIT_SECONDS = 2.0
"""What kill -9 may cost."""
UPKEEP_SECONDS = 60.0
SNAPSHOT_SECONDS = 10.0
"""Distance between two kept snapshots while nothing of note changes."""
GPU_SECONDS = 5.0
"""Distance between two kept readings of the GPUs."""
FIRST_RETRY_SECONDS = 2.0
LAST_RETRY_SECONDS = 60.0
RESTORED_SECONDS = 2 * 3600.0
SHED_ROUNDS = 50
NAME_LENGTH = 60


class Recorder:
    """One watch's way into its recording.

    `accepted`, `published` and `faults` are called on the event loop and return at once; everything else happens in
    the recorder's own thread.
    """

    def __init__(
        self,
        open_file: Callable[[float], RecordingFile],
        *,
        drain: Callable[[], Sequence[Sample]],
        history: Callable[[int], History],
        tell: Callable[[str], None],
        watches: str = "",
        clock: Callable[[], float] = time.time,
        queue_items: int = QUEUE_ITEMS,
        commit_seconds: float = COMMIT_SECONDS,
        retry_seconds: float = FIRST_RETRY_SECONDS,
    ) -> None:
        """Prepares; nothing is opened before `start`.

        Args:
            open_file: opens the recording at a time; raises Unrecordable, sqlite3.Error or OSError.
            drain: the samples since it was last called.
            history: points and events after a sequence number.
            tell: narrates one sentence to the operator; called from the recorder's thread.
            watches: what is watched, in words.
            clock: seconds since the epoch.
            queue_items: items that may wait for the disk.
            commit_seconds: pause between two batches.
            retry_seconds: first pause after a failure; doubles up to a minute.
        """
        self._open_file = open_file
        self._drain = drain
        self._history = history
        self._tell = tell
        self._watches = watches
        self._clock = clock
        self._commit_seconds = commit_seconds
        self._first_retry = retry_seconds
        self._lock = threading.Lock()
        self._queue: deque[Item] = deque()
        self._room = queue_items
        self.dropped = 0
        """Items that were lost because the disk would not take them in time."""
        self.busy_seconds = 0.0
        """CPU time of the recorder's thread."""
        self._dropped_told = 0
        self._behind = False
        self._faults: deque[SourceFault | SourceUp] = deque(maxlen=8)
        self._wake = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self.past: Future[Past | None] = Future()
        """What earlier runs left, once the recording is open; None when it would not open."""
        self._seq = 0
        self._known_until = float("-inf")
        self._verdict: object = None
        self._server: object = None
        self._snapshot_at = float("-inf")
        self._sources: dict[str, SourceView] = {}
        self._arguments: object = None
        self._gpu_at = float("-inf")
        # The thread's own.
        self._file: RecordingFile | None = None
        self._pending: list[Item] = []
        self._trouble: str | None = None
        self._upkeep_at = 0.0

    def start(self) -> None:
        """Starts the thread, which opens the recording."""
        self._thread.start()

    def resume(self, past: Past, seq: int) -> None:
        """Is told what the recording already holds, so that a log that is read again is not recorded twice.

        Args:
            past: what earlier runs left.
            seq: the newest sequence number of what was restored from it.
        """
        self._known_until = float("-inf") if past.ended_at is None else past.ended_at
        self._seq = seq
        if past.mark is not None:
            self._put([past.mark])

    def accepted(self, records: Sequence[Record], now: float, *, estimated: bool = False) -> None:
        """Takes what the monitor has just accepted, and what came of it.

        Args:
            records: in order.
            now: seconds since the epoch.
            estimated: whether their times are guesses about the past, which are not recorded.
        """
        found: list[Item] = [] if estimated else [s for s in self._drain() if self._new(s.at, now)]
        if estimated:
            self._drain()
        for record in records:
            match record:
                case GpuReading() if record.at - self._gpu_at >= GPU_SECONDS or record.at < self._gpu_at:
                    self._gpu_at = record.at
                    found.append(record)
                case ServerStart() if self._new(record.at, now):
                    found.append(server_said(record.at, "start", record.rank.engine, None, record))
                case ServerInfo() if (record.arguments, record.version) != self._arguments:
                    self._arguments = (record.arguments, record.version)
                    found.append(server_said(record.at, "info", None, record.version, record))
        history = self._history(self._seq)
        items: list[Point | Event | FinishedRequest] = [*history.points, *history.events, *history.requests]
        if items:
            self._seq = max(item.seq for item in items)
            found += items
        self._put(found)

    def _new(self, at: float, now: float) -> bool:
        return at > self._known_until or at >= now - 1.0

    def published(self, snapshot: Snapshot) -> None:
        """Takes a snapshot that readers were just given."""
        found: list[Item] = []
        changed = (snapshot.verdict.name, snapshot.verdict.cause)
        if changed != self._verdict:
            found.append(verdict_change(snapshot))
        for view in snapshot.sources:
            known = self._sources.get(view.name)
            if known is None or (known.state, known.detail) != (view.state, view.detail):
                found.append(SourceSaid(snapshot.at, view))
            self._sources[view.name] = view
        server = snapshot.server
        if found or server != self._server or snapshot.at - self._snapshot_at >= SNAPSHOT_SECONDS:
            found.append(snapshot)
            self._snapshot_at = snapshot.at
        self._verdict, self._server = changed, server
        self._put(found)

    def _put(self, items: Sequence[Item]) -> None:
        if not items:
            return
        with self._lock:
            self._queue.extend(items)
            while len(self._queue) > self._room:
                self._queue.popleft()
                self.dropped += 1

    @property
    def path(self) -> Path | None:
        """The file that is recorded to now; None before it is open and while it cannot be."""
        file = self._file
        return None if file is None else file.path

    @property
    def waiting(self) -> int:
        """Items that wait for the disk."""
        with self._lock:
            return len(self._queue)

    def faults(self) -> list[SourceFault | SourceUp]:
        """What is to be told of the recording since this was last asked."""
        found: list[SourceFault | SourceUp] = []
        while self._faults:
            found.append(self._faults.popleft())
        if self.dropped > self._dropped_told and self._trouble is None:
            # Nothing failed and yet the queue ran over: the disk is too slow, or hangs.
            self._dropped_told = self.dropped
            sentence = f"the disk does not keep up: {self.dropped} items were not recorded"
            found.append(SourceFault(at=self._clock(), source=SOURCE, reason=sentence))
            self._behind = True
        elif self._behind and not self.waiting:
            self._behind = False
            found.append(SourceUp(at=self._clock(), source=SOURCE, detail="records again"))
        return found

    def close(self, seconds: float) -> bool:
        """Writes what waits and ends the run; False when the disk did not let it end within some seconds."""
        self._ending = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # From here on: the recorder's own thread.

    def _work(self) -> None:
        retry = self._first_retry
        while True:
            ending = self._ending
            pause = self._commit_seconds
            try:
                self._turn(ending)
                retry = self._first_retry
            except (Unrecordable, sqlite3.Error, OSError) as error:
                self._failed(error)
                pause, retry = retry, min(2 * retry, LAST_RETRY_SECONDS)
            if not self.past.done():
                self.past.set_result(None)
            self.busy_seconds = time.thread_time()
            if ending:
                return
            self._wake.wait(pause)

    def _turn(self, ending: bool) -> None:
        """Writes what waits, one batch after the other."""
        file = self._file
        if file is not None and file.displaced():
            file.abandon()
            self._file = file = None
        file = file or self._opened()
        while True:
            if not self._pending:
                with self._lock:
                    count = min(BATCH_ITEMS, len(self._queue))
                    self._pending = [self._queue.popleft() for _ in range(count)]
            if self._pending:
                file.check_wal()
                write(file, self._pending)
                self._pending = []
            with self._lock:
                more = bool(self._queue)
            if not more:
                break
        self._mended(file)
        now = self._clock()
        if ending or time.monotonic() - self._upkeep_at > UPKEEP_SECONDS:
            self._upkeep_at = time.monotonic()
            compute_means(file, now, last=ending)
            age(file, now)
            give_back(file)
        for _ in range(SHED_ROUNDS):
            if not shed(file):
                break
            give_back(file)
        if ending:
            file.close()
            self._file = None

    def _opened(self) -> RecordingFile:
        now = self._clock()
        file = self._open_file(now)
        try:
            past = file.past(now, RESTORED_SECONDS)
            file.begin(now, self._watches)
        except sqlite3.DatabaseError as error:
            file.abandon()
            if damaged(error):
                put_aside(file.path, "damaged", now)
            raise
        self._file = file
        if past.ended_at is not None:
            how = "" if past.closed else ", where it was cut off"
            self._tell(f"records to {file.path.name}, which ended {_words(past.ended_at)}{how}")
        else:
            self._tell(f"records to {file.path}")
        if not self.past.done():
            self.past.set_result(past)
        return file

    def _failed(self, error: Exception) -> None:
        file = self._file
        now = self._clock()
        if isinstance(error, sqlite3.DatabaseError) and damaged(error) and file is not None:
            file.abandon()
            self._file = None
            sentence = f"{file.path.name} is damaged; it is kept as {put_aside(file.path, 'damaged', now).name}"
        elif isinstance(error, Unrecordable):
            sentence = str(error)
        else:
            assert isinstance(error, (sqlite3.Error, OSError))
            sentence = f"cannot record: {reason_of(error)}; ddwatch goes on trying"
        if sentence != self._trouble:
            self._trouble = sentence
            self._tell(sentence)
            self._faults.append(SourceFault(at=now, source=SOURCE, reason=sentence))

    def _mended(self, file: RecordingFile) -> None:
        if self._trouble is None:
            return
        self._trouble = None
        lost = f"; {self.dropped} items were not recorded" if self.dropped else ""
        self._dropped_told = self.dropped
        self._tell(f"records again to {file.path.name}{lost}")
        self._faults.append(SourceUp(at=self._clock(), source=SOURCE, detail=f"records again{lost}"))


def _words(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def recording_name(paths: Sequence[str], url: str | None, port: int) -> str:
    """The stem of a recording's file: what is watched, so that a restart goes on with it.

    Standard input has no name of its own, so it goes by the port that is served; a file by its full path.
    """
    places = [read_place(path) for path in paths]
    named = [
        f"standard-input-{port}"
        if place.kind == "stdin"
        else str(Path(path).resolve())
        if place.kind == "file"
        else path
        for place, path in zip(places, paths, strict=True)
    ]
    everything = [*named, *([url] if url is not None else [])]
    if not places:
        first = everything[0].split("//", 1)[-1]
    else:
        # Of a command only the program: its arguments may hold what nobody should read in a folder.
        first = Path(named[0]).name if places[0].kind in ("file", "stdin") else places[0].label
    plain = "".join(mark if mark.isascii() and (mark.isalnum() or mark in "._-") else "-" for mark in first)
    digest = hashlib.sha256("\n".join(everything).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{plain.lstrip('.')[:NAME_LENGTH] or 'service'}-{digest[:8]}"


def opener(
    folder: Path, name: str, limits: Limits, version: str, tell: Callable[[str], None]
) -> Callable[[float], RecordingFile]:
    """What a Recorder is handed to open its recording with."""
    return lambda now: RecordingFile.opened(folder, name, limits=limits, version=version, now=now, tell=tell)
