"""Standard input as a pipe, a file, a terminal, nothing at all."""

import os
import pty
import tty
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.contract import Item, Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT
from ddwatch_sidecar.sources.standard_input import StandardInput

from ddwatch.core.records import Gap, SourceFault
from tests.sidecar.sources.reading import only, read_on, story


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    out, into = os.pipe()
    yield out, into
    for descriptor in (out, into):
        with suppress(OSError):
            os.close(descriptor)


def until_ended(source: StandardInput) -> list[Item]:
    items = source.poll(0.0)
    for _ in range(1000):
        if any(isinstance(item, SourceFault) for item in items):
            return items
        items += source.poll(0.0)
    raise AssertionError("it does not end")


def test_a_pipe_that_is_silent_does_not_block(pipe: tuple[int, int]) -> None:
    source = StandardInput(pipe[0])
    assert story(source.poll(0.0)) == ["<up>"]
    assert source.poll(0.0) == []


def test_a_half_line_waits_and_is_flushed_at_the_end(pipe: tuple[int, int]) -> None:
    source = StandardInput(pipe[0])
    os.write(pipe[1], b"one\nha")
    assert story(source.poll(0.0)) == ["<up>", "one"]
    os.write(pipe[1], b"lf\nlast words")
    assert story(source.poll(0.0)) == ["half"]
    os.close(pipe[1])
    items = source.poll(0.0)
    assert story(items) == ["half:last words", "<fault>"]
    assert only(SourceFault, items)[0].reason == "standard input ended"
    assert source.poll(0.0) == []


def test_the_flags_of_the_descriptor_are_left_alone(pipe: tuple[int, int]) -> None:
    source = StandardInput(pipe[0])
    source.poll(0.0)
    assert os.get_blocking(pipe[0])
    source.close()
    os.fstat(pipe[0])


def test_a_regular_file_is_read_as_something_that_stood_there(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"one\ntwo")
    with path.open("rb") as file:
        items = until_ended(StandardInput(file.fileno()))
    assert only(Line, items) == [Line(b"one", 1, live=False), Line(b"two", 2, live=False, whole=False)]


def test_dev_null_has_ended(tmp_path: Path) -> None:
    with Path("/dev/null").open("rb") as null:
        assert story(StandardInput(null.fileno()).poll(0.0)) == ["<up>", "<fault>"]


def test_a_closed_descriptor_is_a_fault() -> None:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    (fault,) = StandardInput(descriptor).poll(0.0)
    assert isinstance(fault, SourceFault)
    assert fault.reason == "standard input cannot be read: Bad file descriptor"


def test_a_directory_as_standard_input_is_a_fault(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert "Is a directory" in only(SourceFault, StandardInput(descriptor).poll(0.0))[0].reason
    finally:
        os.close(descriptor)


def test_a_terminal_is_read_line_by_line_and_ends_when_it_hangs_up() -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    source = StandardInput(theirs)
    try:
        assert story(source.poll(0.0)) == ["<up>"]
        os.write(ours, b"typed\nha")
        assert story(source.poll(0.0)) == ["typed"]
        os.close(ours)
        assert story(until_ended(source))[-1] == "<fault>"
    finally:
        os.close(theirs)


def test_one_poll_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"some line\n" * 100_000)
    with path.open("rb") as file:
        source = StandardInput(file.fileno(), poll_bytes=100_000)
        assert len(only(Line, source.poll(0.0))) == 10_000
        assert source.behind
        assert len(only(Line, read_on(source, 0.0))) == 90_000


def test_an_overlong_line_is_cut_and_told(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"x" * (3 * LINE_LIMIT) + b"\nnext\n")
    with path.open("rb") as file:
        items = until_ended(StandardInput(file.fileno()))
    assert [(len(line.data), line.whole) for line in only(Line, items)] == [(LINE_LIMIT, False), (4, True)]
    assert [gap.reason for gap in only(Gap, items)] == ["too-long"]


def test_a_flood_of_short_lines_is_read_in_pieces_that_stay_small(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a\n" * 300_000)
    with (tmp_path / "log").open("rb") as file:
        source = StandardInput(file.fileno())
        counts = [len(only(Line, source.poll(0.0)))]
        while source.behind:
            counts.append(len(only(Line, source.poll(0.0))))
    assert (sum(counts), max(counts) < 50_000) == (300_000, True)
