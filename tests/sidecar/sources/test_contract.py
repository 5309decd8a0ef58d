"""What every source keeps to, real ones and the fake alike."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from ddwatch_sidecar.sources.contract import Line, Source
from ddwatch_sidecar.sources.log_file import LogFile
from ddwatch_sidecar.sources.standard_input import StandardInput

from ddwatch.core.records import SourceFault, SourceUp
from tests.fakes.clock import Clock
from tests.fakes.source import ScriptedSource
from tests.sidecar.sources.reading import only, read_on, texts


class World(Protocol):
    """A source, and the hand that feeds and ends it."""

    source: Source

    def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


class FileWorld:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "server.log"
        self._path.touch()
        self.source: Source = LogFile(self._path, poll_bytes=4096)

    def write(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)

    def end(self) -> None:
        self._path.unlink()

    def close(self) -> None:
        self.source.close()


class PipeWorld:
    def __init__(self, _: Path) -> None:
        self._out, self._in = os.pipe()
        self._ended = False
        self.source: Source = StandardInput(self._out, poll_bytes=4096)

    def write(self, data: bytes) -> None:
        assert os.write(self._in, data) == len(data)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            os.close(self._in)

    def close(self) -> None:
        self.end()
        self.source.close()
        os.close(self._out)


class ScriptedWorld:
    def __init__(self, _: Path) -> None:
        self._script = ScriptedSource(lines_per_poll=50)
        self.source: Source = self._script

    def write(self, data: bytes) -> None:
        self._script.hand(*data.splitlines())

    def end(self) -> None:
        self._script.end()

    def close(self) -> None:
        self.source.close()


WORLDS: tuple[Callable[[Path], World], ...] = (FileWorld, PipeWorld, ScriptedWorld)


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = request.param(tmp_path)
    yield made
    made.close()


class TestSourceContract:
    def test_it_says_once_that_it_is_up(self, world: World) -> None:
        clock = Clock()
        world.write(b"one\n")
        items = read_on(world.source, clock.now) + read_on(world.source, clock.advance(1))
        assert only(SourceUp, items)[0].source == world.source.name
        assert len(only(SourceUp, items)) == 1
        assert only(SourceFault, items) == []

    def test_it_delivers_each_line_once_in_order_and_numbered(self, world: World) -> None:
        clock = Clock()
        read_on(world.source, clock.now)
        items = []
        for start in range(0, 300, 100):
            world.write("".join(f"line {number}\n" for number in range(start, start + 100)).encode())
            items += read_on(world.source, clock.advance(0.2))
        assert texts(items) == [f"line {number}" for number in range(300)]
        assert [line.number for line in only(Line, items)] == list(range(1, 301))
        assert all(line.live and line.whole for line in only(Line, items))

    def test_a_poll_without_news_is_empty_and_not_behind(self, world: World) -> None:
        clock = Clock()
        world.write(b"one\n")
        read_on(world.source, clock.now)
        assert world.source.poll(clock.advance(0.2)) == []
        assert not world.source.behind

    def test_one_poll_does_a_bounded_amount_and_says_that_it_is_behind(self, world: World) -> None:
        clock = Clock()
        world.source.poll(clock.now)
        written = [f"line {number:04d}" for number in range(1000)]
        world.write("".join(f"{line}\n" for line in written).encode())
        first = world.source.poll(clock.advance(0.2))
        assert 0 < len(only(Line, first)) < 1000
        assert world.source.behind
        assert texts(first + read_on(world.source, clock.now)) == written
        assert not world.source.behind

    def test_its_end_is_a_fault_told_once(self, world: World) -> None:
        clock = Clock()
        world.write(b"one\n")
        items = read_on(world.source, clock.now)
        world.end()
        for _ in range(20):
            items += read_on(world.source, clock.advance(1))
        assert texts(items) == ["one"]
        (fault,) = only(SourceFault, items)
        assert items[-1] is fault
        assert fault.source == world.source.name
        assert fault.reason

    def test_after_close_it_is_silent(self, world: World) -> None:
        clock = Clock()
        read_on(world.source, clock.now)
        world.write(b"late\n")
        world.source.close()
        assert world.source.poll(clock.advance(1)) == []
        assert not world.source.behind
        world.source.close()
