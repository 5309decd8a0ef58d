"""One open file: reading in bounded steps, and noticing that what was read is gone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.fingerprint import Fingerprint
from ddwatch_sidecar.sources.follow import Changed, OpenLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "server.log"
    made.write_bytes(b"".join(b"line %03d\n" % number for number in range(100)))
    return made


@pytest.fixture
def log(path: Path) -> Iterator[OpenLog]:
    opened = OpenLog.open(path, os.pread)
    assert isinstance(opened, OpenLog)
    yield opened
    opened.close()


def test_it_reads_no_further_than_told(log: OpenLog) -> None:
    assert [line.data for line in log.read(end=900, budget=20)] == [b"line 000", b"line 001"]
    assert log.offset == 20
    assert [line.data for line in log.read(end=27, budget=500)] == [b"line 002"]
    assert log.read(end=27, budget=500) == []


def test_a_write_before_the_position_is_noticed_by_the_next_read_and_by_verify(log: OpenLog, path: Path) -> None:
    log.read(end=900, budget=450)
    log.verify()
    with path.open("r+b") as file:
        file.seek(440)
        file.write(b"LINE")
    with pytest.raises(Changed):
        log.verify()
    with pytest.raises(Changed):
        log.read(end=900, budget=100)


def test_a_write_at_the_start_is_noticed(log: OpenLog, path: Path) -> None:
    log.read(end=900, budget=900)
    with path.open("r+b") as file:
        file.write(b"LINE")
    with pytest.raises(Changed):
        log.verify()


def test_a_file_that_waits_unread_is_known_by_its_start(log: OpenLog, path: Path) -> None:
    log.verify()
    path.write_bytes(b"another file\n" * 100)
    with pytest.raises(Changed):
        log.verify()


def test_after_a_restart_the_half_line_is_gone(log: OpenLog) -> None:
    log.read(end=900, budget=13)
    assert log.restart(size=900, catch_up_bytes=10_000, head_bytes=100) == 4
    (line,) = log.read(end=900, budget=9)
    assert (line.data, line.number, line.live) == (b"line 000", 1, True)


def test_a_fingerprint_remembers_only_the_end_of_what_was_read() -> None:
    mark = Fingerprint(b"a")
    mark.extend(b"x" * 1000)
    mark.extend(b"yz")
    assert (len(mark.tail), mark.tail[-3:]) == (256, b"xyz")
    content = b"a" + b"x" * 999 + b"yz"
    assert mark.matches(lambda length, offset: content[offset : offset + length], 1002)
    assert not mark.matches(lambda length, offset: content[offset : offset + length], 1001)
