"""The log that is truncated under its writer, also when it has grown past the old position since."""

import os

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.log_file import LogFile

from ddwatch.core.records import Gap
from tests.fakes.log_writer import LogWriter
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, read_on, story


def test_a_truncated_file_is_read_from_its_start_behind_a_gap(followed: Followed) -> None:
    followed.writer.line("one", "two")
    followed.read()
    followed.writer.copytruncate()
    followed.writer.line("3")
    items = followed.read()
    assert story(items) == ["<gap truncated>", "3"]
    assert only(Line, items) == [Line(b"3", 1, live=True)]
    assert followed.read() == []


def test_an_emptied_file_is_a_gap_at_once_and_only_once(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.copytruncate()
    assert story(followed.read()) == ["<gap truncated>"]
    assert followed.read() == []
    followed.writer.line("two")
    assert story(followed.read()) == ["two"]


def test_a_file_that_grew_past_the_old_position_between_two_looks_is_noticed(followed: Followed) -> None:
    followed.writer.line("one", "two")
    followed.read()
    followed.writer.copytruncate()
    followed.writer.line(*(f"new {number}" for number in range(100)))
    assert story(followed.read()) == ["<gap truncated>", *(f"new {number}" for number in range(100))]


def test_a_file_that_grew_to_exactly_the_old_size_is_noticed(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.copytruncate()
    followed.writer.line("two")
    assert story(followed.read()) == ["<gap truncated>", "two"]


def test_the_same_beginning_does_not_hide_a_truncation(followed: Followed) -> None:
    """A server without stamps prints the same first kilobyte at each start."""
    banner = [f"banner line {number}" for number in range(100)]
    followed.writer.line(*banner, "first life")
    followed.read()
    followed.writer.copytruncate()
    followed.writer.line(*banner, "second life, which is longer")
    assert story(followed.read()) == ["<gap truncated>", *banner, "second life, which is longer"]


def test_a_half_line_before_the_truncation_is_never_glued_to_what_follows(followed: Followed) -> None:
    followed.writer.line("one")
    followed.writer.write(b"Decode batch, gen thr")
    followed.read()
    followed.writer.copytruncate()
    followed.writer.write(b"oughput: 1\ntwo\n")
    items = followed.read()
    assert story(items) == ["<gap truncated>", "oughput: 1", "two"]
    assert "half a line (21 bytes) dropped" in only(Gap, items)[0].detail


def test_each_truncation_is_its_own_gap(followed: Followed) -> None:
    for number in range(3):
        followed.writer.line(f"{number} " * 20)
        followed.read()
        followed.writer.copytruncate()
    assert story(followed.read()) == ["<gap truncated>"]


def test_truncation_while_far_behind(followed: Followed) -> None:
    source = LogFile(followed.path, poll_bytes=100)
    followed.writer.line(*(f"old {number}" for number in range(1000)))
    source.poll(followed.clock.now)
    assert source.behind
    followed.writer.copytruncate()
    followed.writer.line("new")
    assert story(read_on(source, followed.clock.advance(0.2)))[-2:] == ["<gap truncated>", "new"]
    source.close()


def test_a_rotation_right_after_a_truncation_is_not_taken_for_a_missed_file(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    copy = followed.writer.copytruncate()
    os.utime(copy, ns=(0, followed.path.stat().st_mtime_ns - 1))
    followed.read()
    followed.writer.line("two")
    followed.writer.rotate()
    followed.writer.line("three")
    assert story(followed.read()) == ["two", "<rotation>", "three"]


def test_a_writer_that_does_not_append_leaves_a_hole_that_costs_nothing(followed: Followed) -> None:
    """It goes on at its old position: the truncated part of the file reads as gigabytes of NUL bytes."""
    followed.writer.close()
    hole = 50 * 1024**3
    with LogWriter(followed.path, append=False) as writer:
        writer.line("one")
        followed.read()
        with followed.path.open("r+b") as file:
            file.truncate(0)
            file.seek(hole)
            file.write(b"two\nthree\n")
    assert story(followed.read()) == ["<gap truncated>", "<gap lost>", "two", "three"]


def test_a_file_that_is_shortened_ahead_of_the_position_is_a_gap_and_repeats_nothing(followed: Followed) -> None:
    source = LogFile(followed.path, poll_bytes=100)
    followed.writer.line(*(f"line {number:03d}" for number in range(100)))
    seen = source.poll(followed.clock.now)
    os.truncate(followed.path, 450)
    followed.writer.line("new")
    seen += read_on(source, followed.clock.advance(0.2))
    source.close()
    kept = [f"line {number:03d}" for number in range(50)]
    assert [word for word in story(seen) if word.startswith("line")] == kept
    assert story(seen)[-1] == "new"
    assert story(seen).count("<gap truncated>") == 1
