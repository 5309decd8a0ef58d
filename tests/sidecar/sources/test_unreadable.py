"""The path that names something that cannot be read as a log: each gets one sentence that helps."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.log_file import LogFile

from ddwatch.core.records import SourceFault
from tests.fakes.clock import Clock
from tests.sidecar.sources.reading import only, story

NOBODY = 65534


@contextmanager
def not_root() -> Iterator[None]:
    """Root may read everything, so for a moment nobody is at work."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may enter; pytest's own ones are private."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def fault_of(source: LogFile, now: float) -> SourceFault:
    (fault,) = source.poll(now)
    assert isinstance(fault, SourceFault)
    assert "\n" not in fault.reason
    return fault


def test_a_file_without_permission_says_what_to_do_and_is_read_once_allowed(open_folder: Path) -> None:
    path, clock = open_folder / "server.log", Clock()
    path.write_bytes(b"one\n")
    path.chmod(0)
    source = LogFile(path)
    with not_root():
        fault = fault_of(source, clock.now)
        assert not fault.waiting
        assert "permission denied; run as a user that may read it" in fault.reason
        assert source.poll(clock.advance(1)) == []
    path.chmod(0o644)
    with not_root():
        assert story(source.poll(clock.advance(1))) == ["<up>", "one"]
    source.close()


def test_a_rotation_to_an_unreadable_file_is_told_while_the_old_one_is_still_read(open_folder: Path) -> None:
    path, clock = open_folder / "server.log", Clock()
    path.write_bytes(b"one\n")
    source = LogFile(path)
    with not_root():
        assert story(source.poll(clock.now)) == ["<up>", "one"]
    with path.open("ab") as file:
        path.rename(path.with_suffix(".1"))
        path.touch(0o600)
        path.chmod(0)
        file.write(b"two\n")
    with not_root():
        assert story(source.poll(clock.advance(0.2))) == ["two", "<fault>"]
        assert source.poll(clock.advance(0.2)) == []
    path.chmod(0o644)
    path.write_bytes(b"three\n")
    with not_root():
        assert story(source.poll(clock.advance(0.2))) == ["<up>", "<rotation>", "three"]
    source.close()


def test_a_folder_without_permission_is_a_fault(open_folder: Path) -> None:
    inner = open_folder / "private"
    inner.mkdir()
    (inner / "server.log").write_bytes(b"one\n")
    inner.chmod(0)
    with not_root():
        assert "permission denied" in fault_of(LogFile(inner / "server.log"), 0.0).reason


def test_a_directory_is_a_fault(tmp_path: Path) -> None:
    fault = fault_of(LogFile(tmp_path), 0.0)
    assert (fault.waiting, fault.reason) == (False, f"{tmp_path} is a directory; name the log file in it")


def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "is a pipe; hand it over as standard input" in fault_of(LogFile(path), 0.0).reason


def test_a_device_and_a_socket_are_refused(tmp_path: Path) -> None:
    assert "is not a regular file" in fault_of(LogFile("/dev/null"), 0.0).reason
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert "is not a regular file" in fault_of(LogFile(tmp_path / "s"), 0.0).reason


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    loop, dangling = tmp_path / "loop", tmp_path / "dangling"
    loop.symlink_to(loop)
    assert "leads back to itself" in fault_of(LogFile(loop), 0.0).reason
    dangling.symlink_to(tmp_path / "target")
    fault = fault_of(LogFile(dangling), 0.0)
    assert fault.waiting
    assert fault.reason == f"{dangling} is a link to {tmp_path / 'target'}, which does not exist (yet)"


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "Not a directory" in fault_of(LogFile(tmp_path / "file" / "server.log"), 0.0).reason


def test_control_characters_of_a_name_do_not_reach_the_sentence(tmp_path: Path) -> None:
    assert "\x1b" not in fault_of(LogFile(tmp_path / "a\x1b[31m\nb"), 0.0).reason
    assert "not a path" in fault_of(LogFile("a\0b"), 0.0).reason


@pytest.mark.parametrize(
    ("start", "kind"),
    [(b"\x1f\x8b\x08", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz"), (b"BZh9", "bzip2")],
)
def test_a_compressed_log_names_the_command_that_reads_it(tmp_path: Path, start: bytes, kind: str) -> None:
    path = tmp_path / "server.log.1"
    path.write_bytes(start + b"...")
    reason = f"{path} is compressed ({kind}) and will not grow; use `ddwatch replay {path}`"
    assert only(SourceFault, LogFile(path).poll(0.0))[0].reason == reason
