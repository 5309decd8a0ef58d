"""Between two files of a log: rotated without loss, or something may be missing."""

from pathlib import Path

from ddwatch_sidecar.sources.look import Identity
from ddwatch_sidecar.sources.seam import list_names, loss
from ddwatch_sidecar.sources.siblings import Trace, beside


def test_a_piece_that_was_known_or_is_held_is_not_missing(tmp_path: Path) -> None:
    log, older = tmp_path / "server.log", tmp_path / "server.log.1"
    log.write_bytes(b"one\n")
    older.write_bytes(b"zero\n")
    before, around = log.stat(), beside(log)
    known = frozenset({Trace.of(older.stat())})
    held = frozenset({Identity.of(older.stat())})
    assert loss(log, before, around, known, frozenset(), recent=True) is None
    assert loss(log, before, around, frozenset(), held, recent=True) is None
    lost = loss(log, before, around, frozenset(), frozenset(), recent=True)
    assert lost is not None
    sentence, deleted = lost
    assert (sentence, deleted) == ("server.log was rotated unseen since the last look: server.log.1 not read", False)


def test_a_piece_whose_inode_is_known_but_that_was_written_since_is_missing(tmp_path: Path) -> None:
    log, piece = tmp_path / "server.log", tmp_path / "server.log.1"
    log.write_bytes(b"one\n")
    piece.write_bytes(b"zero\n")
    known = frozenset({Trace(Identity.of(piece.stat()), piece.stat().st_mtime_ns - 1)})
    assert loss(log, log.stat(), beside(log), known, frozenset(), recent=True) is not None


def test_many_names_are_shortened_and_made_harmless() -> None:
    assert list_names(["a", "b\x1b[31m", "c", "d", "e"]) == "a, b?[31m, c and 2 more"
