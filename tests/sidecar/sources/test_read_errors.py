"""The disk or the network file system that fails in the middle of reading."""

import errno
import os
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.log_file import LogFile

from ddwatch.core.records import Gap, SourceFault
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, story, texts


class Disk:
    """Reads like `os.pread` until it is told to fail."""

    def __init__(self) -> None:
        self.error: int | None = None
        self.bad_inode: int | None = None

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        if self.error is not None and self.bad_inode in (None, os.fstat(descriptor).st_ino):
            raise OSError(self.error, os.strerror(self.error))
        return os.pread(descriptor, length, offset)


@pytest.fixture
def disk(followed: Followed) -> Disk:
    made = Disk()
    followed.source = LogFile(followed.path, pread=made.pread)
    return made


def test_an_input_output_error_is_told_once_and_reading_goes_on_where_it_stopped(
    followed: Followed, disk: Disk
) -> None:
    followed.writer.line("one")
    followed.writer.write(b"ha")
    followed.read()
    disk.error = errno.EIO
    followed.writer.line("lf", "two")
    (fault,) = only(SourceFault, followed.read())
    assert "cannot be read: Input/output error" in fault.reason
    assert not fault.waiting
    assert followed.read() == []
    disk.error = errno.ENOMEM
    assert story(followed.read()) == ["<fault>"]
    disk.error = None
    assert story(followed.read()) == ["<up>", "half", "two"]


def test_an_error_on_the_first_read(followed: Followed, disk: Disk) -> None:
    followed.writer.line("one")
    disk.error = errno.EIO
    assert story(followed.read()) == ["<fault>"]
    disk.error = None
    assert story(followed.read()) == ["<up>", "one"]


def test_a_stale_handle_is_opened_again_and_nothing_is_lost_in_the_same_file(followed: Followed, disk: Disk) -> None:
    lines = [f"line {number} with some text" for number in range(10)]
    followed.writer.line(*lines)
    followed.writer.write(b"ha")
    followed.read()
    disk.error = errno.ESTALE
    assert story(followed.read()) == ["<fault>"]
    followed.writer.line("lf")
    assert followed.read() == []
    disk.error = None
    items = followed.read()
    assert story(items) == ["<up>", "half"]
    assert only(Line, items)[0].number == 11


def test_lines_from_a_long_outage_are_to_be_placed_by_their_stamps(followed: Followed, disk: Disk) -> None:
    followed.writer.line(*["some text that is long enough to know the file again by it"] * 3)
    followed.read()
    disk.error = errno.ESTALE
    followed.read()
    disk.bad_inode = None
    followed.writer.line("during")
    followed.path.rename(followed.path.with_name("hidden"))
    followed.path.mkdir()
    followed.read(3600)
    followed.path.rmdir()
    followed.path.with_name("hidden").rename(followed.path)
    disk.error = None
    assert [(line.data, line.live) for line in only(Line, followed.read(3600))] == [(b"during", False)]
    followed.writer.line("after")
    assert [(line.data, line.live) for line in only(Line, followed.read())] == [(b"after", True)]


def test_a_stale_handle_and_then_another_file_is_a_gap(followed: Followed, disk: Disk) -> None:
    followed.writer.line("one")
    followed.read()
    disk.error = errno.ESTALE
    assert story(followed.read()) == ["<fault>"]
    disk.error = None
    followed.writer.recreate()
    followed.writer.line("two")
    assert story(followed.read()) == ["<up>", "<gap replaced>", "two"]


def test_a_rotated_file_that_stays_unreadable_is_given_up_with_a_gap(followed: Followed, disk: Disk) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.line("two")
    disk.bad_inode = followed.path.stat().st_ino
    disk.error = errno.EIO
    followed.writer.rotate()
    followed.writer.line("three")
    assert story(followed.read()) == ["<fault>"]
    items = followed.read(10)
    assert [gap.reason for gap in only(Gap, items)] == ["lost"]
    items += followed.read()
    assert texts(items) == ["three"]
    assert story(items)[-1] in ("<up>", "three")


def test_closing_lets_go_of_every_descriptor(followed: Followed) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    source = LogFile(followed.path)
    for number in range(20):
        followed.writer.line(f"line {number}")
        source.poll(float(number))
        followed.writer.rotate()
    followed.writer.close()
    source.close()
    assert set(Path("/proc/self/fd").iterdir()) <= before
