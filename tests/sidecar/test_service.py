"""The service with small sources: order, times, publishing, faults as values, a clean end."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from ddwatch_sidecar.service import (
    CATCH_UP_RECORDS,
    Service,
    Stream,
)
from ddwatch_sidecar.sources.contract import Item, Line

from ddwatch.core.grammar.reader import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, Gap, LinesSeen, LogRecord, Record, SelfReading, SourceFault, SourceUp
from ddwatch.core.snapshot import History, Snapshot
from ddwatch.core.tallies import Tallies
from tests.fakes.clock import START, Clock


class HandSource:
    """Delivers what a test hands over."""

    def __init__(self, name: str = "log", *polls: Sequence[Item]) -> None:
        self.name = name
        self.behind = False
        self.polls = list(polls)
        self.closed = False
        self.polled = 0

    def poll(self, now: float) -> list[Item]:
        self.polled += 1
        items = list(self.polls.pop(0)) if self.polls else []
        self.behind = bool(self.polls)
        return items

    def close(self) -> None:
        self.closed = True


class TextReader:
    """Reads `SECONDS` as one decode line at that time, or at its arrival; holds one record back until it is closed."""

    def __init__(self, *, stamped: bool = True) -> None:
        self.stamped = stamped

    def read(self, line: bytes, arrived: float | None, number: int | None) -> Sequence[Record]:
        return [DecodeBatch(at=float(line) if arrived is None else arrived, stamp=line.decode(), line=number)]

    def close(self) -> Sequence[Record]:
        return [DecodeBatch(at=START + 1e9, stamp="last")]


class Notes:
    """A monitor that writes down what it is handed, in front of a real one."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Record]] = []
        self.asked: list[float] = []
        self.told_unstamped = False
        self.monitor = Monitor(started_at=START)

    def accept(self, record: Record, source: str) -> None:
        self.records.append((source, record))
        self.monitor.accept(record, source)

    def unstamped(self) -> None:
        self.told_unstamped = True

    def at(self, now: float) -> Snapshot:
        self.asked.append(now)
        return self.monitor.at(now)

    def history(self, since: int) -> History:
        return self.monitor.history(since)

    def tallies(self) -> Tallies:
        return self.monitor.tallies()

    def stamps(self) -> list[str | None]:
        return [record.stamp for _, record in self.records if isinstance(record, LogRecord)]


class NoMeter:
    def read(self, now: float) -> SelfReading | None:
        return None


class TestClock:
    """The fake clock in the shape that the service takes."""

    __test__ = False

    def __init__(self) -> None:
        self.clock = Clock()

    def now(self) -> float:
        return self.clock.now


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20))


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "this never came true"
        await asyncio.sleep(0.005)


def old(*times: float) -> list[Item]:
    return [Line(str(time).encode(), number, live=False) for number, time in enumerate(times, start=1)]


def live(*words: str) -> list[Item]:
    return [Line(word.encode(), None) for word in words]


def test_lines_become_records_in_order_and_are_counted() -> None:
    async def story() -> None:
        source = HandSource("log", [SourceUp(at=START, source="log"), *live("a", "b")], live("c"))
        notes = Notes()
        service = Service([Stream(source, TextReader(), lambda _: None)], notes, TestClock(), NoMeter())
        running = asyncio.create_task(service.run())
        await until(lambda: len(notes.stamps()) == 3)
        service.stop()

        assert await running is True
        assert notes.stamps() == ["a", "b", "c", "last"]
        assert [r.lines for _, r in notes.records if isinstance(r, LinesSeen)] == [2, 1]
        assert source.closed

    run(story())


def test_what_is_written_before_the_end_is_read_before_the_end() -> None:
    async def story() -> None:
        source = HandSource()
        notes = Notes()
        service = Service([Stream(source, TextReader(), lambda _: None)], notes, TestClock(), NoMeter())
        running = asyncio.create_task(service.run())
        await until(lambda: source.polled > 0)
        source.polls = [live("late"), live("later")]
        version = service.publication.version
        service.stop()
        await running

        assert notes.stamps() == ["late", "later", "last"]
        assert service.publication.version > version
        assert notes.asked[-1] >= START

    run(story())


def test_a_source_that_fails_is_told_and_the_other_one_goes_on() -> None:
    async def story() -> None:
        fault = SourceFault(at=START, source="bad", reason="permission denied: run it as the log's owner")
        told: list[str] = []
        bad, good = HandSource("bad", [fault]), HandSource("good", live("a"))
        notes = Notes()
        streams = [Stream(source, TextReader(), told.append) for source in (bad, good)]
        service = Service(streams, notes, TestClock(), NoMeter())
        running = asyncio.create_task(service.run())
        await until(lambda: {view.name for view in service.publication.latest().sources} == {"bad", "good"})
        states = {view.name: view.state for view in service.publication.latest().sources}
        service.stop()
        await running

        assert states == {"bad": "lost", "good": "up"}
        assert told == ["bad: permission denied: run it as the log's owner"]

    run(story())


def test_a_source_that_hangs_neither_blanks_the_other_one_nor_holds_up_the_end() -> None:
    free = threading.Event()

    class Hanging(HandSource):
        def poll(self, now: float) -> list[Item]:
            free.wait(30)
            return []

    async def story() -> None:
        notes = Notes()
        streams = [Stream(s, TextReader(), lambda _: None) for s in (Hanging("nfs"), HandSource("log", live("a")))]
        service = Service(streams, notes, TestClock(), NoMeter())
        running = asyncio.create_task(service.run())
        await until(lambda: notes.stamps() == ["a"])
        service.stop()
        try:
            assert await asyncio.wait_for(running, 3) is False
        finally:
            free.set()

    run(story())


def test_a_failure_of_our_own_code_ends_the_service() -> None:
    class Broken(HandSource):
        def poll(self, now: float) -> list[Item]:
            raise ZeroDivisionError("ours")

    async def story() -> None:
        service = Service([Stream(Broken(), TextReader(), lambda _: None)], Notes(), TestClock(), NoMeter())
        with pytest.raises(ZeroDivisionError):
            await service.run()

    run(story())


def test_ages_move_without_news_and_news_is_published() -> None:
    async def story() -> None:
        source = HandSource()
        clock = TestClock()
        service = Service([Stream(source, TextReader(), lambda _: None)], Notes(), clock, NoMeter())
        running = asyncio.create_task(service.run())
        clock.clock.advance(7)
        await service.publication.after(0)
        assert service.publication.latest().at == START + 7
        source.polls = [live("a")]
        await until(lambda: [view.lines for view in service.publication.latest().sources] == [1])
        service.stop()
        await running

    run(story())


def test_the_past_keeps_its_own_times_and_the_present_its_arrival() -> None:
    stream = Stream(HandSource(), TextReader(), lambda _: None)
    records = stream.take([*old(START - 100, START - 90), *live("now")], START)

    assert [r.at for r in records if isinstance(r, LogRecord)] == [START - 100, START - 90, START]


def test_a_past_that_lies_ahead_is_moved_back_whole_and_said_so() -> None:
    told: list[str] = []
    stream = Stream(HandSource(), TextReader(), told.append)
    records = stream.take(old(START + 7000, START + 7190, START + 7200), START)

    assert [r for r in records if isinstance(r, LogRecord)] == []
    assert [r.at for r in stream.settle(START)] == [START - 200, START - 10, START]
    assert told == ["log: its times are 7200 s ahead of this host's; is --tz right?"]
    assert not stream.estimated


def test_a_past_without_times_ends_now_and_counts_as_estimated() -> None:
    told: list[str] = []
    stream = Stream(HandSource(), TextReader(stamped=False), told.append)
    stream.take(old(START, START + 3, START + 6), START)

    assert [r.at for r in stream.settle(START)] == [START - 6, START - 3, START]
    assert stream.estimated and told == []


def test_a_gap_between_old_lines_stands_at_their_time() -> None:
    stream = Stream(HandSource(), TextReader(), lambda _: None)
    skipped = Gap(at=START, source="log", reason="skipped", detail="the middle was skipped")
    stream.take([*old(START - 500), skipped, *old(START - 20)], START)

    assert [(type(r), r.at) for r in stream.settle(START)] == [
        (DecodeBatch, START - 500),
        (Gap, START - 500),
        (DecodeBatch, START - 20),
    ]


def test_a_gap_between_live_lines_stands_where_it_came() -> None:
    stream = Stream(HandSource(), TextReader(), lambda _: None)
    lost = Gap(at=START, source="log", reason="truncated", detail="truncated")

    kinds = [type(record) for record in stream.take([*live("a"), lost, *live("b")], START)]
    assert kinds == [DecodeBatch, Gap, DecodeBatch, LinesSeen]


def test_a_very_long_past_is_not_held_for_ever() -> None:
    stream = Stream(HandSource(), TextReader(), lambda _: None)
    records = stream.take(old(*[START - 10.0] * (CATCH_UP_RECORDS + 1)), START)

    assert len([r for r in records if isinstance(r, LogRecord)]) == CATCH_UP_RECORDS + 1


def test_real_lines_of_the_past_reach_the_snapshot_with_their_own_times() -> None:
    line = (
        "[2026-05-01 11:59:58] Decode batch, #running-req: 1, #token: 5989, token usage: 0.01, accept len: 2.90, "
        "accept rate: 0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0"
    )

    async def story() -> None:
        source = HandSource("log", [Line(line.encode(), 1, live=False)])
        notes = Notes()
        service = Service([Stream(source, LogReader(None, START), lambda _: None)], notes, TestClock(), NoMeter())
        running = asyncio.create_task(service.run())
        await until(lambda: service.publication.latest().now.throughput is not None)
        shown = service.publication.latest().now
        service.stop()
        await running

        assert (shown.at, shown.throughput, shown.accept_length) == (START - 2, 32.2, 2.9)

    run(story())


class Pacer(HandSource):
    """A long past in many polls; `hold` stops it in the middle, as a dead file system would."""

    def __init__(self, polls: int, lines: int = 1000) -> None:
        super().__init__("log", *[old(*[START - 5000.0 + n] * lines) for n in range(polls)])
        self.hold = threading.Event()
        self.hold_at = -1

    def poll(self, now: float) -> list[Item]:
        if self.polled == self.hold_at:
            self.hold.wait(30)
        return super().poll(now)


def test_while_the_past_is_read_nothing_is_said_about_now() -> None:
    async def story() -> None:
        source = Pacer(4)
        source.hold_at = 2
        notes = Notes()
        service = Service([Stream(source, TextReader(), lambda _: None)], notes, TestClock(), NoMeter())
        first = service.publication.latest()
        running = asyncio.create_task(service.run())
        await service.publication.after(service.publication.version)
        assert service.publication.latest() == first and len(notes.asked) == 1
        source.hold.set()
        await until(lambda: len(notes.asked) > 1)
        assert len(notes.stamps()) == 4000
        service.stop()
        await running

    run(story())


def test_a_source_that_hangs_in_its_past_does_not_blank_the_other_one() -> None:
    async def story() -> None:
        source = Pacer(3)
        source.hold_at = 1
        notes = Notes()
        streams = [Stream(s, TextReader(), lambda _: None) for s in (source, HandSource("good", live("a")))]
        service = Service(streams, notes, TestClock(), NoMeter(), stuck_seconds=0.3)
        running = asyncio.create_task(service.run())
        try:
            await until(lambda: "good" in {view.name for view in service.publication.latest().sources})
            service.stop()
            assert await running is False
        finally:
            source.hold.set()

    run(story())


def test_an_end_in_the_middle_of_a_long_past_does_not_read_it_to_its_end() -> None:
    async def story() -> None:
        source = Pacer(20_000, 10)
        service = Service([Stream(source, TextReader(), lambda _: None)], Notes(), TestClock(), NoMeter())
        running = asyncio.create_task(service.run())
        await until(lambda: source.polled > 3)
        service.stop()
        await asyncio.wait_for(running, 3)
        assert source.polls

    run(story())


def test_lines_are_counted_before_the_fault_that_followed_them() -> None:
    stream = Stream(HandSource(), TextReader(), lambda sentence: None)
    fault = SourceFault(at=START, source="log", reason="standard input ended")
    found = stream.take([Line(b"1", 1), fault], START)
    assert [type(record) for record in found] == [DecodeBatch, LinesSeen, SourceFault]
    past = Stream(HandSource(), TextReader(), lambda sentence: None)
    found = past.take([Line(b"1", 1, live=False), fault], START)
    assert [type(record) for record in found] == [LinesSeen, DecodeBatch, SourceFault]


def test_a_torn_line_is_no_sample() -> None:
    stream = Stream(HandSource(), TextReader(), lambda sentence: None)
    found = stream.take([Line(b"1", 1, whole=False), Line(b"2", 2)], START)
    assert [record.line for record in found if isinstance(record, DecodeBatch)] == [2]
