"""The sidecar's heart: polls sources, folds what they deliver into the monitor, publishes snapshots."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from ddwatch.core.records import (
    DecodeBatch,
    Gap,
    LinesSeen,
    LogRecord,
    Record,
    Rotation,
    SourceFault,
    SourceUp,
)
from ddwatch.core.snapshot import Snapshot
from ddwatch_sidecar.clock import Clock
from ddwatch_sidecar.contract import Endpoint, Folding, Metering, Reader, Tap
from ddwatch_sidecar.sources.contract import Item, Line, Source
from ddwatch_sidecar.waking import Wake

TICK_SECONDS = 0.25
"""All sources are polled together once per tick; after it at most one snapshot is published."""
SETTLING_SECONDS = 0.02
"""How long after a tick the snapshot is taken: polls that return at once are in it, a hanging one is not waited for."""
QUIET_SECONDS = 1.0
"""Time between two published snapshots while nothing arrives, so that ages move."""
METER_SECONDS = 5.0
LINES_AT_ONCE = 500
"""Lines that are read before other work gets its turn."""
FEW_RECORDS = 50
"""Records that are folded faster than another turn of the event loop is worth."""
CATCH_UP_RECORDS = 30_000
"""Records of the past that are held until it is known whether their times can be right."""
STUCK_SECONDS = 5.0
"""A source that stops in the middle of its past is not waited for any longer than this."""
PENDING_SECONDS = 2.0
"""How long a record may wait for the line that would complete it."""
CLOSING_SECONDS = 1.0
"""How long the last lines may take once the sidecar is told to stop."""


class Publication:
    """The newest snapshot and its version; wakes those who wait for a newer one."""

    def __init__(self, first: Snapshot) -> None:
        self._snapshot = first
        self._version = 0
        self._newer = asyncio.Event()

    @property
    def version(self) -> int:
        """Rises by one with every published snapshot."""
        return self._version

    def latest(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    def publish(self, snapshot: Snapshot) -> None:
        """Replaces the newest snapshot."""
        self._snapshot = snapshot
        self._version += 1
        newer, self._newer = self._newer, asyncio.Event()
        newer.set()

    async def after(self, version: int) -> int:
        """Waits until the version is higher than this one and returns it."""
        while self._version <= version:
            await self._newer.wait()
        return self._version


class Stream:
    """One source with the reader of its lines.

    Lines that stood there before we came carry their own times. Those may lie ahead of us (a log written in another
    zone, or without times): then the whole past is moved back so that it ends now, because order is what counts.
    """

    def __init__(self, source: Source, reader: Reader, tell: Callable[[str], None]) -> None:
        self.source = source
        self._reader = reader
        self._tell = tell
        self._past: list[Record] = []
        self._live = False
        self._shift: float | None = None
        self.catching_up = False
        """Whether the past is being read: until it has been folded, nothing can be said about now."""
        self.caught_up = False
        """Whether the newest line that was read is of now."""
        self.read_at = float("-inf")
        """When something was last read, or folded of the past, on the event loop's clock."""

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name

    @property
    def estimated(self) -> bool:
        """Whether times had to be estimated because the log has none."""
        return self._shift is not None and not self._reader.stamped

    def take(self, items: Sequence[Item], now: float) -> list[Record]:
        """The records that these items give, in order."""
        found: list[Record] = []
        lines = 0
        for item in items:
            if lines and isinstance(item, SourceFault):
                # A fault ends what was read before it: lines counted after it would look like life.
                found.append(LinesSeen(at=now, source=self.name, lines=lines))
                lines = 0
            match item:
                case Line():
                    lines += 1
                    if item.live:
                        found += self.settle(now)
                        self._live = self.caught_up = True
                        found += self._read(item, now)
                    else:
                        self.catching_up, self.caught_up = True, False
                        self._past += self._read(item, None)
                case SourceFault():
                    found += self.settle(now)
                    found.append(item)
                    self._tell(f"{self.name}: {item.reason}")
                case SourceUp():
                    found.append(item)
                    self._tell(f"{self.name}: {item.detail or 'is being read'}")
                case Gap() | Rotation():
                    # What stands between old lines happened at their time, not now.
                    if self._past or not self._live:
                        self._past.append(item)
                    else:
                        found.append(item)
        if lines:
            found.append(LinesSeen(at=now, source=self.name, lines=lines))
        if len(self._past) > CATCH_UP_RECORDS:
            found += self.settle(now)
        return found

    def _read(self, line: Line, arrived: float | None) -> Sequence[Record]:
        """The records of a line; of a torn one no sample, since its last number may be cut."""
        records = self._reader.read(line.data, arrived, line.number)
        if line.whole:
            return records
        return [record for record in records if not isinstance(record, DecodeBatch)]

    def settle(self, now: float) -> list[Record]:
        """Hands over what is held of the past, moved back if it would lie ahead of now."""
        past, self._past = self._past, []
        newest = next((record.at for record in reversed(past) if isinstance(record, LogRecord)), None)
        if newest is None:
            return past
        if self._shift is None:
            self._shift = max(0.0, newest - now)
            if self._shift > 1.0 and self._reader.stamped:
                self._tell(f"{self.name}: its times are {self._shift:.0f} s ahead of this host's; is --tz right?")
        placed: list[Record] = []
        at = next(record.at for record in past if isinstance(record, LogRecord)) - self._shift
        for record in past:
            at = min(record.at - self._shift if isinstance(record, LogRecord) else at, now)
            placed.append(record if record.at == at else replace(record, at=at))
        return placed

    def close(self, now: float) -> list[Record]:
        """The records that were waiting for a next line; more may follow."""
        last = [replace(record, at=min(record.at, now)) for record in self._reader.close()]
        return [*self.settle(now), *last]


class Service:
    """Runs until it is told to stop; an exception in our own code ends it."""

    def __init__(
        self,
        streams: Sequence[Stream],
        monitor: Folding,
        clock: Clock,
        meter: Metering,
        endpoints: Sequence[Endpoint] = (),
        *,
        tap: Tap | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._streams = streams
        self._monitor = monitor
        self._clock = clock
        self._meter = meter
        self._endpoints = endpoints
        self._tap = tap
        self._tell = tell
        self._stuck_seconds = stuck_seconds
        self._stop = Wake()
        self._news = False
        self._deadline = float("inf")
        self.publication = Publication(monitor.at(clock.now()))

    @property
    def stopping(self) -> asyncio.Event:
        """Set once it has been told to stop."""
        return self._stop

    def stop(self) -> None:
        """Begins the end: what stands in the sources is read once more, then `run` returns."""
        if not self._stop.is_set():
            self._deadline = asyncio.get_running_loop().time() + CLOSING_SECONDS
            self._stop.set()

    async def run(self) -> bool:
        """Polls and publishes; returns False when a source is stuck in the operating system and was left behind."""
        pool = ThreadPoolExecutor(max_workers=max(1, len(self._streams)), thread_name_prefix="source")
        following = [asyncio.create_task(self._follow(stream, pool)) for stream in self._streams]
        endless = [
            asyncio.create_task(self._publish()),
            asyncio.create_task(self._metering()),
            *(asyncio.create_task(self._ask(endpoint)) for endpoint in self._endpoints),
        ]
        stopped = asyncio.create_task(self._stop.wait())
        try:
            waiting: set[asyncio.Task[Any]] = {*following, *endless, stopped}
            while not stopped.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            left = max(0.0, self._deadline - asyncio.get_running_loop().time())
            stuck: set[asyncio.Task[None]] = set()
            if following:
                done, stuck = await asyncio.wait(following, timeout=left)
                for task in done:
                    task.result()
            await self._end()
        finally:
            for task in (*following, *endless, stopped):
                task.cancel()
            await asyncio.gather(*following, *endless, stopped, return_exceptions=True)
            for endpoint in self._endpoints:
                await endpoint.close()
            pool.shutdown(wait=False)
        return not stuck

    async def _end(self) -> None:
        if self._catching_up():
            # Half of a past says nothing of now.
            return
        now = self._clock.now()
        for stream in self._streams:
            await self._accept(stream, stream.close(now))
        self._tell_all(now)

    def _tell_all(self, now: float) -> None:
        """Publishes what is known now, to the keeping too."""
        for record in self._tap.faults() if self._tap is not None else ():
            self._monitor.accept(record, "recording")
        snapshot = self._monitor.at(now)
        self.publication.publish(snapshot)
        if self._tap is not None:
            self._tap.published(snapshot)

    async def _follow(self, stream: Stream, pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        source = stream.source
        heard = float("inf")
        while True:
            last = self._stop.is_set()
            items = await loop.run_in_executor(pool, source.poll, self._clock.now())
            stream.read_at = loop.time()
            for start in range(0, len(items), LINES_AT_ONCE):
                await self._accept(stream, stream.take(items[start : start + LINES_AT_ONCE], self._clock.now()))
            if stream.caught_up:
                stream.catching_up = False
            if source.behind and loop.time() < self._deadline:
                continue
            await self._accept(stream, stream.settle(self._clock.now()))
            if items:
                heard = loop.time()
            elif loop.time() - heard >= PENDING_SECONDS:
                # What waits for a next line (a traceback, a wrapped line) has waited long enough.
                heard = float("inf")
                await self._accept(stream, stream.close(self._clock.now()))
            stream.catching_up = False
            if last:
                source.close()
                return
            await self._stop.within(_left(loop.time(), 0.0))

    async def _accept(self, stream: Stream, records: Sequence[Record]) -> None:
        """Hands records to the monitor, a few at a time, so that readers are answered in between."""
        loop = asyncio.get_running_loop()
        for start in range(0, len(records), LINES_AT_ONCE):
            if stream.catching_up and loop.time() > self._deadline:
                return
            few = records[start : start + LINES_AT_ONCE]
            for record in few:
                self._monitor.accept(record, stream.name)
            if self._tap is not None:
                self._tap.accepted(few, self._clock.now(), estimated=stream.catching_up and stream.estimated)
            self._news = True
            if stream.catching_up:
                # Folding takes longer than reading: who folds is not stuck.
                stream.read_at = loop.time()
            if len(few) > FEW_RECORDS:
                await asyncio.sleep(0)
        if stream.estimated:
            self._monitor.unstamped()

    def _catching_up(self) -> bool:
        since = asyncio.get_running_loop().time() - self._stuck_seconds
        return any(stream.catching_up and stream.read_at > since for stream in self._streams)

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        published_at = loop.time()
        while not self._stop.is_set():
            await self._stop.within(_left(loop.time(), SETTLING_SECONDS))
            busy = self._catching_up()
            quiet = loop.time() - published_at
            if quiet > QUIET_SECONDS - TICK_SECONDS / 2 or (self._news and not busy):
                published_at = loop.time()
                now = self._clock.now()
                if busy:
                    # The monitor is somewhere in the past; to ask it about now would make it see a long silence.
                    self.publication.publish(replace(self.publication.latest(), at=now))
                    continue
                self._news = False
                self._tell_all(now)

    async def _ask(self, endpoint: Endpoint) -> None:
        lost = False
        while not self._stop.is_set():
            if self._catching_up():
                await self._stop.within(TICK_SECONDS)
                continue
            records = await endpoint.poll(self._clock.now())
            for record in records:
                self._monitor.accept(record, endpoint.name)
                self._news = True
                if isinstance(record, SourceFault):
                    self._tell(f"{endpoint.name}: {record.reason}")
                    lost = True
                elif isinstance(record, SourceUp) and lost:
                    self._tell(f"{endpoint.name}: is read again")
                    lost = False
            if self._tap is not None:
                self._tap.accepted(records, self._clock.now())
            await self._stop.within(endpoint.pause_seconds)

    async def _metering(self) -> None:
        while not self._stop.is_set():
            reading = self._meter.read(self._clock.now())
            if reading is not None:
                self._monitor.accept(reading, "ddwatch")
            await self._stop.within(METER_SECONDS)


def _left(now: float, phase: float) -> float:
    """Seconds to the next tick, or to a time after it."""
    left = TICK_SECONDS - (now - phase) % TICK_SECONDS
    # A timer may go off a little early; the tick that it stands for is not to come twice.
    return left if left > TICK_SECONDS / 10 else left + TICK_SECONDS
