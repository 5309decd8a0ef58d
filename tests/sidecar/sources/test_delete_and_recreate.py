"""The log that is deleted, replaced or copied over, also with its old inode."""

import os
import shutil

from ddwatch_sidecar.sources.contract import Line

from ddwatch.core.records import Gap, SourceFault
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, story, texts


def test_the_old_file_is_read_to_its_end_then_the_new_one_behind_a_gap(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.line("two")
    followed.writer.recreate()
    followed.writer.line("three")
    items = followed.read()
    assert story(items) == ["two", "<gap replaced>", "three"]
    assert only(Line, items)[-1] == Line(b"three", 1, live=True)
    assert "deleted and created anew" in only(Gap, items)[0].detail


def test_a_deleted_file_is_told_after_a_moment(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.path.unlink()
    assert followed.read() == []
    (fault,) = only(SourceFault, followed.read(2))
    assert fault.waiting


def test_shorter_and_longer_replacements(followed: Followed) -> None:
    for size in (50, 1, 100):
        followed.writer.line(*(f"{size}-{number}" for number in range(size)))
        assert texts(followed.read())[-size:] == [f"{size}-{number}" for number in range(size)]
        followed.writer.recreate()


def test_a_replacement_that_is_a_longer_copy_goes_on_without_repeating(followed: Followed) -> None:
    """`rsync` without --inplace, and most editors, write a new file and rename it over the old one."""
    lines = [f"line {number} with some text" for number in range(100)]
    followed.writer.line(*lines)
    assert texts(followed.read()) == lines
    fresh = followed.path.with_name("fresh")
    for number in range(3):
        shutil.copyfile(followed.path, fresh)
        with fresh.open("ab") as file:
            file.write(b"more %d\n" % number)
        fresh.rename(followed.path)
        items = followed.read()
        assert only(Line, items) == [Line(b"more %d" % number, 101 + number, live=True)]
        assert only(Gap, items) == []


def test_a_replacement_with_the_same_start_only_is_read_from_its_start(followed: Followed) -> None:
    banner = [f"banner line {number}" for number in range(100)]
    followed.writer.line(*banner, "first life")
    followed.read()
    followed.writer.recreate()
    followed.writer.line(*banner, "second life, which is longer")
    assert story(followed.read()) == ["<gap replaced>", *banner, "second life, which is longer"]


def test_a_reused_inode_is_no_return_of_the_old_file(followed: Followed) -> None:
    """The file system hands the inode of a deleted file to the next one, once we have let go of it."""
    for number in range(20):
        followed.writer.line(f"life {number}", *["the same text in each of these lives, to be long enough"] * 2)
        items = followed.read()
        assert texts(items)[:1] == [f"life {number}"]
        inode = followed.path.stat().st_ino
        followed.path.unlink()
        other = followed.path.with_name("other")
        other.write_bytes(b"guest\n")
        other.rename(followed.path)
        followed.read()
        followed.read(60)
        followed.path.unlink()
        followed.writer.reopen()
        if followed.path.stat().st_ino == inode:
            followed.writer.line("a new life in the same inode")
            assert texts(followed.read()) == ["a new life in the same inode"]
            return
        followed.read()
    os.write(2, b"this file system does not reuse inodes\n")


def test_a_directory_in_the_place_of_the_file(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.path.unlink()
    followed.path.mkdir()
    (fault,) = only(SourceFault, followed.read())
    assert "is a directory" in fault.reason
    followed.path.rmdir()
    followed.writer.reopen()
    followed.writer.line("two")
    assert story(followed.read()) == ["<up>", "<gap replaced>", "two"]
