"""The log that stood there before we came, small or large."""

from pathlib import Path

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.log_file import LogFile

from ddwatch.core.records import Gap
from tests.fakes.clock import Clock
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, read_on, story, texts


def numbered(count: int) -> bytes:
    return b"".join(b"line %07d\n" % number for number in range(1, count + 1))


def test_what_stood_there_is_not_live_and_what_comes_is(followed: Followed) -> None:
    followed.writer.line("one", "two")
    followed.writer.write(b"thr")
    assert only(Line, followed.read()) == [Line(b"one", 1, live=False), Line(b"two", 2, live=False)]
    followed.writer.line("ee", "four")
    assert only(Line, followed.read()) == [Line(b"three", 3, live=True), Line(b"four", 4, live=True)]


def test_a_large_file_is_read_at_its_head_and_at_its_end(tmp_path: Path) -> None:
    path, clock = tmp_path / "server.log", Clock()
    path.write_bytes(numbered(10_000))
    source = LogFile(path, catch_up_bytes=1300, head_bytes=135, poll_bytes=100)
    items = read_on(source, clock.now)
    assert story(items[:13]) == [
        "<up>",
        *(f"line {number:07d}" for number in range(1, 11)),
        "<gap skipped>",
        "line 0009901",
    ]
    assert texts(items)[10:] == [f"line {number:07d}" for number in range(9901, 10_001)]
    assert [line.number for line in only(Line, items)] == [*range(1, 11), *[None] * 100]
    assert not any(line.live for line in only(Line, items))
    (gap,) = only(Gap, items)
    assert "MiB in the middle" in gap.detail
    with path.open("ab") as file:
        file.write(b"new\n")
    assert only(Line, read_on(source, clock.advance(1))) == [Line(b"new", None, live=True)]
    source.close()


def test_the_end_begins_with_a_whole_line_wherever_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(numbered(1000))
    for catch_up in range(1300, 1326):
        source = LogFile(path, catch_up_bytes=catch_up, head_bytes=13)
        lines = only(Line, read_on(source, 0.0))
        source.close()
        assert {len(line.data) for line in lines} == {12}
        assert len(lines) == 1 + catch_up // 13


def test_a_file_hardly_larger_than_the_limit_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(numbered(100))
    source = LogFile(path, catch_up_bytes=1200, head_bytes=100)
    items = read_on(source, 0.0)
    source.close()
    assert len(texts(items)) == 100
    assert only(Gap, items) == []


def test_lines_that_come_while_catching_up_are_live(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(numbered(100))
    source = LogFile(path, poll_bytes=130)
    first = source.poll(0.0)
    assert source.behind
    with path.open("ab") as file:
        file.write(b"new\n")
    lines = only(Line, first + read_on(source, 0.0))
    source.close()
    assert [line.live for line in lines] == [False] * 100 + [True]
