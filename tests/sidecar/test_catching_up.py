"""While the past is being folded the monitor is in the middle of it, and nobody asks it about now."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from ddwatch_sidecar.service import Service, Stream
from ddwatch_sidecar.sources.contract import Item, Line

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, Record, SelfReading
from ddwatch.core.snapshot import Snapshot
from tests.fakes.clock import START

PAST = 1200


class OnePoll:
    """A log whose whole past and first live line are read at once."""

    name = "log"
    behind = False

    def __init__(self, past: int = PAST) -> None:
        self._items: list[Item] = [Line(b"%d" % number, number, live=False) for number in range(past)]
        self._items.append(Line(b"now", None))

    def poll(self, now: float) -> list[Item]:
        items, self._items = self._items, []
        return items

    def close(self) -> None:
        self._items = []


class Reader:
    """One decode line per line, the old ones a second apart."""

    stamped = True

    def read(self, line: bytes, arrived: float | None, number: int | None) -> Sequence[Record]:
        return [DecodeBatch(at=START - PAST + int(line) if arrived is None else arrived, stamp=line.decode())]

    def close(self) -> Sequence[Record]:
        return []


class Watching(Monitor):
    """Notes with each record whether its stream was still called the past."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(started_at=START)
        self.within: list[bool] = []
        self.newest: str | None = None
        self._stream = stream

    def accept(self, record: Record, source: str = "log") -> None:
        self.within.append(self._stream.catching_up)
        self.newest = record.stamp if isinstance(record, DecodeBatch) else self.newest
        super().accept(record, source)


class Still:
    """A clock that stands, and a meter that reads nothing."""

    def now(self) -> float:
        return START

    def read(self, now: float) -> SelfReading | None:
        return None


async def until(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + 20
    while not condition():
        assert monotonic() < deadline, "this never came true"
        await asyncio.sleep(0.005)


def test_a_line_that_comes_while_the_past_is_read_does_not_end_the_past() -> None:
    stream = Stream(OnePoll(), Reader(), lambda _: None)
    monitor = Watching(stream)

    async def story() -> None:
        service = Service([stream], monitor, Still(), Still())
        running = asyncio.create_task(service.run())
        await until(lambda: monitor.newest == "now")
        within = list(monitor.within)
        await until(lambda: not stream.catching_up)
        service.stop()
        await running

        assert len(within) > PAST
        assert all(within)

    asyncio.run(story())


class Slow(asyncio.SelectorEventLoop):
    """An event loop whose clock goes on by as much as it is told."""

    passed = 0.0

    def time(self) -> float:
        """What the loop goes by."""
        return super().time() + self.passed


class Labouring(Watching):
    """Takes long for each record, and notes how far it was whenever it was asked about now."""

    def __init__(self, stream: Stream, loop: Slow) -> None:
        self.asked: list[str | None] = []
        self._loop = loop
        super().__init__(stream)

    def accept(self, record: Record, source: str = "log") -> None:
        super().accept(record, source)
        self._loop.passed += 0.012

    def at(self, now: float) -> Snapshot:
        self.asked.append(self.newest)
        return super().at(now)


def test_a_past_that_takes_long_to_fold_is_not_taken_for_a_source_that_is_stuck() -> None:
    """A busy host, or a long log: longer than a source is waited for, and yet nobody is asked about now."""
    loop = Slow()
    stream = Stream(OnePoll(5 * PAST), Reader(), lambda _: None)
    monitor = Labouring(stream, loop)

    async def story() -> None:
        service = Service([stream], monitor, Still(), Still())
        running = asyncio.create_task(service.run())
        await until(lambda: not stream.catching_up and monitor.asked[-1] == "now")
        service.stop()
        await running

    loop.run_until_complete(story())
    loop.close()
    assert set(monitor.asked[1:]) == {"now"}, "in the middle of the past a silence would be seen that never was"
