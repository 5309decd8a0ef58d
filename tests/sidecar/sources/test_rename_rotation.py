"""The log that is rotated by renaming, with late bytes, half lines and files in between."""

import os
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.log_file import MOST_FILES

from ddwatch.core.records import Gap, Rotation, SourceFault, SourceUp
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, story, texts


def test_no_line_is_lost_and_numbers_begin_again(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.line("two")
    followed.writer.rotate()
    followed.writer.line("three")
    items = followed.read()
    assert story(items) == ["two", "<rotation>", "three"]
    assert only(Line, items) == [Line(b"two", 2), Line(b"three", 1)]
    assert "no line was lost" in only(Rotation, items)[0].detail


def test_late_bytes_in_the_old_file_are_read_before_the_new_one(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.rename()
    followed.writer.line("late")
    followed.writer.reopen()
    followed.writer.line("new")
    assert story(followed.read()) == ["late", "<rotation>", "new"]


def test_late_bytes_that_come_after_the_new_file_was_seen_are_read_too(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.rename()
    followed.path.touch()
    assert story(followed.read()) == ["<rotation>"]
    followed.writer.line("late")
    assert story(followed.read()) == ["late"]
    followed.writer.reopen()
    followed.writer.line("new")
    assert story(followed.read()) == ["new"]


def test_a_writer_that_never_reopens_is_followed_in_the_old_file(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.rename()
    followed.path.touch()
    assert story(followed.read()) == ["<rotation>"]
    for hour in range(5):
        followed.writer.line(f"hour {hour}")
        assert story(followed.read(3600)) == [f"hour {hour}"]


def test_the_old_file_is_let_go_after_its_silence(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    target = followed.writer.rotate()
    followed.writer.line("new")
    assert story(followed.read()) == ["<rotation>", "new"]
    with target.open("ab") as late:
        late.write(b"second writer\n")
        late.flush()
        assert story(followed.read(4)) == ["second writer"]
        assert story(followed.read(6)) == []
        late.write(b"too late\n")
        late.flush()
        assert story(followed.read()) == []


def test_late_lines_of_a_file_that_was_let_go_do_not_make_it_a_missed_one(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    target = followed.writer.rotate()
    followed.writer.line("new")
    followed.read()
    with target.open("ab") as late:
        late.write(b"second writer\n")
    os.utime(target, ns=(0, followed.path.stat().st_mtime_ns + 1_000_000))
    assert story(followed.read()) == ["second writer"]
    assert story(followed.read(60)) == []
    followed.writer.rotate()
    followed.writer.line("newest")
    assert story(followed.read()) == ["<rotation>", "newest"]


def test_a_half_line_at_the_end_of_the_old_file_is_delivered_before_the_new_file(followed: Followed) -> None:
    followed.writer.line("one")
    followed.writer.write(b"hal")
    followed.read()
    followed.writer.rotate()
    followed.writer.line("new")
    assert story(followed.read()) == []
    assert story(followed.read(2)) == ["half:hal", "<rotation>", "new"]


def test_a_half_line_that_is_completed_in_the_old_file_is_whole(followed: Followed) -> None:
    followed.writer.write(b"hal")
    followed.read()
    followed.writer.rename()
    followed.path.write_bytes(b"new\n")
    followed.read()
    followed.writer.write(b"f\n")
    assert story(followed.read()) == ["half", "<rotation>", "new"]


def test_a_path_that_stays_away_is_told_once_but_not_in_the_middle_of_a_rotation(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.rename()
    assert followed.read() == []
    assert story(followed.read(2)) == ["<waiting>"]
    assert followed.read(2) == []
    followed.writer.line("late")
    items = followed.read()
    assert story(items) == ["<up>", "late"]
    assert "no longer names" in only(SourceUp, items)[0].detail
    for _ in range(5):
        assert followed.read(60) == []
        followed.writer.line("later")
        assert story(followed.read()) == ["later"]
    followed.writer.reopen()
    followed.writer.line("new")
    assert story(followed.read()) == ["<rotation>", "new"]
    followed.writer.rename()
    assert story(followed.read(2)) == ["<waiting>"]


def test_two_rotations_between_two_looks_are_a_gap_that_names_the_file(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.rotate()
    followed.writer.line("never seen")
    followed.writer.rotate()
    followed.writer.line("new")
    items = followed.read()
    assert story(items) == ["<gap rotated>", "new"]
    assert "server.log.1 not read" in only(Gap, items)[0].detail


def test_an_empty_file_in_between_is_no_loss(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.rotate()
    followed.writer.rotate()
    followed.writer.line("new")
    assert story(followed.read()) == ["<rotation>", "new"]


def test_many_rotations_each_seen_lose_nothing_and_keep_few_files_open(followed: Followed) -> None:
    seen: list[str] = []
    for number in range(40):
        followed.writer.line(f"line {number}")
        seen += story(followed.read())
        followed.writer.rotate()
    assert [word for word in seen if word.startswith("line")] == [f"line {number}" for number in range(40)]
    assert seen.count("<rotation>") == 39
    assert len(followed.source._files) <= MOST_FILES


def test_dated_pieces_and_compression_right_after_are_no_loss(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    target = followed.writer.rename(followed.path.with_name("server.log-20260501"))
    followed.writer.reopen()
    target.with_name("server.log-20260501.gz").write_bytes(b"\x1f\x8b")
    target.unlink()
    followed.writer.line("two")
    assert story(followed.read()) == ["<rotation>", "two"]


def test_into_another_folder_is_no_loss_unless_nobody_looked_for_long(followed: Followed, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    followed.writer.line("one")
    followed.read()
    followed.writer.rename(archive / "1")
    followed.writer.reopen()
    followed.writer.line("two")
    assert story(followed.read()) == ["<rotation>", "two"]
    followed.writer.rename(archive / "2")
    followed.writer.reopen()
    followed.writer.line("three")
    assert story(followed.read(600)) == ["<gap rotated>", "three"]


def test_a_backup_copy_beside_the_log_is_no_missed_file(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.path.with_name("server.log.backup").write_bytes(followed.path.read_bytes())
    # The time of a write is only as fine as the kernel's tick; a real backup is older than the log's last line.
    os.utime(followed.path.with_name("server.log.backup"), ns=(0, followed.path.stat().st_mtime_ns - 1))
    followed.writer.line("two")
    followed.writer.rotate()
    followed.writer.line("three")
    assert story(followed.read()) == ["two", "<rotation>", "three"]


def test_a_file_that_comes_back_to_its_name_goes_on_where_it_was(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    away = followed.writer.rename()
    followed.path.write_bytes(b"short guest\n")
    assert story(followed.read()) == ["<rotation>", "short guest"]
    away.rename(followed.path)
    followed.writer.line("two")
    assert texts(followed.read()) == ["two"]


@pytest.mark.parametrize("wait", [0.2, 60.0])
def test_a_file_that_comes_back_after_it_was_let_go_is_not_read_twice(followed: Followed, wait: float) -> None:
    followed.writer.line("one", "a line that is long enough to know this file again by what stands in it")
    followed.read()
    away = followed.writer.rename()
    followed.path.write_bytes(b"short guest\n")
    followed.read()
    followed.read(wait)
    away.rename(followed.path)
    followed.writer.line("two")
    items = followed.read()
    assert texts(items) == ["two"]
    assert only(SourceFault, items) == []
