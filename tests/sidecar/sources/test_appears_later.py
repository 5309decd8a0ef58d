"""The log that is not there yet when we come."""

from pathlib import Path

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.log_file import LogFile

from ddwatch.core.records import SourceFault, SourceUp
from tests.fakes.clock import Clock
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, read_on, story


def test_waiting_is_told_once_and_ends_with_the_first_line(followed: Followed) -> None:
    (fault,) = only(SourceFault, followed.read())
    assert fault.waiting
    assert fault.reason.startswith(f"{followed.path} does not exist (yet)")
    assert followed.read() == []
    followed.writer.line("one")
    items = followed.read()
    assert story(items) == ["<up>", "one"]
    assert only(Line, items) == [Line(b"one", 1, live=True)]
    assert followed.read() == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "server.log"
    source, clock = LogFile(path), Clock()
    (fault,) = only(SourceFault, source.poll(clock.now))
    assert (fault.waiting, f"no directory {path.parent}" in fault.reason) == (True, True)
    path.parent.mkdir()
    (fault,) = only(SourceFault, source.poll(clock.advance(1)))
    assert "is SGLang's output redirected to this path?" in fault.reason
    path.write_bytes(b"one\n")
    assert story(source.poll(clock.advance(1))) == ["<up>", "one"]
    source.close()


def test_an_empty_file_is_up_and_has_nothing(followed: Followed) -> None:
    followed.path.touch()
    assert only(SourceUp, followed.read())
    assert followed.read() == []


def test_a_large_file_that_is_moved_to_the_path_is_no_live_reading(followed: Followed, tmp_path: Path) -> None:
    followed.read()
    old = tmp_path / "elsewhere"
    old.write_bytes(b"a line of an old log\n" * 100_000)
    old.rename(followed.path)
    assert not any(line.live for line in only(Line, followed.read()))
    followed.writer.line("new")
    assert only(Line, followed.read()) == [Line(b"new", 100_001, live=True)]


def test_a_file_that_came_and_was_rotated_away_unseen_is_a_gap(followed: Followed) -> None:
    followed.read()
    followed.writer.line("never seen")
    followed.writer.rotate()
    followed.writer.line("seen")
    assert story(read_on(followed.source, followed.clock.advance(1))) == ["<up>", "<gap rotated>", "seen"]
