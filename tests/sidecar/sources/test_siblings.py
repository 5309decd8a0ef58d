"""Which files beside a log are pieces of it, by name and trace."""

from pathlib import Path

import pytest
from ddwatch_sidecar.sources.look import Identity
from ddwatch_sidecar.sources.siblings import Trace, beside, is_piece


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("server.log.1", "server.log"),
        ("server.log-20260501", "server.log"),
        ("server.log.2.gz", "server.log"),
        ("server-2026-05-01.log", "server.log"),
        ("server.3.log", "server.log"),
        ("1.log", "0.log"),
        ("server-2026-05-02.log", "server-2026-05-01.log"),
        ("server.1", "server"),
    ],
)
def test_a_piece(name: str, log: str) -> None:
    assert is_piece(name, log)


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("server.log", "server.log"),
        ("router.log", "server.log"),
        ("server-errors.log", "server.log"),
        ("my-server.log.1", "server.log"),
    ],
)
def test_no_piece(name: str, log: str) -> None:
    assert not is_piece(name, log)


def test_only_files_with_content_are_pieces_and_all_inodes_are_seen(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    for name in ("server.log", "server.log.1", "router.log"):
        (tmp_path / name).write_bytes(b"one\n")
    (tmp_path / "server.log.2").touch()
    (tmp_path / "server.log.d").mkdir()
    (tmp_path / "server.log.link").symlink_to(log)
    around = beside(log)
    status = (tmp_path / "server.log.1").stat()
    assert around.pieces == {Trace(Identity.of(status), status.st_mtime_ns): "server.log.1"}
    assert around.inodes == {entry.stat(follow_symlinks=False).st_ino for entry in tmp_path.iterdir()}


def test_a_folder_that_is_not_there_has_no_pieces(tmp_path: Path) -> None:
    assert beside(tmp_path / "gone" / "server.log").pieces == {}
