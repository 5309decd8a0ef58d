"""Logs from files and standard input, plain and compressed: the same lines, flat memory, one sentence for trouble."""

import gzip
import io
import os
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.feeds.log_lines import CHUNK, LINE_LIMIT, LogLines, open_log

TEXT = b"first\nsecond \xf0\x9f\x8c\xb3\n\nlast without end"
LINES = [(1, b"first"), (2, b"second \xf0\x9f\x8c\xb3"), (3, b""), (4, b"last without end")]
SKIPPED = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def lines_in(path: Path) -> list[tuple[int, bytes]]:
    with open_log(str(path)) as log:
        return list(log)


def sentence_of(path: Path | str) -> str:
    with pytest.raises(CommandFailed) as failed, open_log(str(path)) as log:
        list(log)
    assert failed.value.code == Exit.INPUT
    assert "\n" not in failed.value.sentence
    return failed.value.sentence


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:9]) + gzip.compress(b"") + gzip.compress(TEXT[9:]),
        zstd(TEXT),
        zstd(TEXT[:9]) + SKIPPED + zstd(TEXT[9:]),
        SKIPPED + zstd(TEXT),
        b"\x00" * 300_000 + TEXT,
    ],
    ids=["plain", "gz", "gz members", "zst", "zst frames", "zst skippable first", "nulls of a truncated file"],
)
def test_every_form_gives_the_same_lines(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    assert lines_in(path) == LINES
    with path.open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        with open_log("-") as log:
            assert list(log) == LINES
        assert not stream.closed


class Dribble(io.RawIOBase):
    """A pipe that hands out a byte or a few at a time."""

    def __init__(self, data: bytes, sizes: Iterator[int]) -> None:
        self._data = data
        self._sizes = sizes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, and often fewer."""
        take = min(next(self._sizes), size) if size >= 0 else len(self._data)
        part, self._data = self._data[:take], self._data[take:]
        return part


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=30).map(lambda line: bytes(byte for byte in line if byte >= 32 and byte != 127))),
    st.sampled_from([bytes, gzip.compress, zstd]),
    st.randoms(use_true_random=False),
)
def test_any_split_gives_the_same_lines(
    lines: list[bytes], packed: Callable[[bytes], bytes], chance: random.Random
) -> None:
    text = b"x\n" + b"".join(line + b"\n" for line in lines)
    data = packed(text)
    sizes = iter(lambda: chance.choice((1, 2, 3, 7, 100)), None)
    log = LogLines("pipe", Dribble(data, sizes), close=True)  # type: ignore[arg-type]
    assert [line for _, line in log] == [b"x", *lines]
    assert log.count == len(lines) + 1


def test_long_lines_are_cut_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * LINE_LIMIT + b"\n" + b"b" * (3 * CHUNK) + b"\nshort\n" + b"c" * (LINE_LIMIT + 1))
    with open_log(str(path)) as log:
        found = [(number, line[:1], len(line)) for number, line in log]
    assert found == [(1, b"a", LINE_LIMIT), (2, b"b", LINE_LIMIT), (3, b"s", 5), (4, b"c", LINE_LIMIT)]
    assert (log.count, log.cut) == (4, 2)


def peak_of(path: Path, count: int) -> int:
    """Bytes of memory that reading takes at most; checks the number of lines."""
    tracemalloc.start()
    try:
        with open_log(str(path)) as log:
            assert sum(1 for _ in log) == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pack", [bytes, lambda data: gzip.compress(data, 1), zstd], ids=["plain", "gz", "zst"])
def test_memory_stays_flat(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        pack(b"".join(b"line %d of a log, %x\n" % (number, hash(str(number))) for number in range(200_000)))
    )
    assert peak_of(path, 200_000) < 4_000_000


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data, 1), zstd], ids=["gz", "zst"])
def test_text_that_grows_a_thousandfold_stays_bounded(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(b"x" * 150_000_000))
    assert peak_of(path, 1) < 40_000_000


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\x00" * 5000, "is empty"),
        (gzip.compress(b""), "is empty"),
        (b"\x7fELF" + bytes(range(256)) * 40, "is not a text log"),
        (gzip.compress(bytes(range(256)) * 40), "is not a text log"),
        (b"\xfd7zXZ\x00abc", "compressed with xz"),
        (b"BZh91AY", "compressed with bzip2"),
        (b"PK\x03\x04abc", "compressed with zip"),
        (gzip.compress(os.urandom(9000).hex().encode())[:-9], "is damaged"),
        (gzip.compress(b"text\n" * 9)[:-4] + b"\x00\x00\x00\x00", "is damaged"),
        (b"\x1f\x8b\xff\xff\xff\xff\xff\xff\xff\xff\xff", "is damaged"),
        (zstd(os.urandom(9000).hex().encode())[:-9], "is damaged"),
        (zstd(b"text")[:8] + b"\xff" * 40, "is damaged"),
    ],
)
def test_one_sentence_for_every_unusable_file(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    assert words in sentence_of(path)


def test_what_stands_before_a_damage_is_read_first(tmp_path: Path) -> None:
    text = b"".join(f"line {number} {random.Random(number).random()}\n".encode() for number in range(20_000))
    for data in (gzip.compress(text), zstd(text)):
        path = tmp_path / "log"
        path.write_bytes(data[: len(data) * 3 // 4])
        seen: list[bytes] = []
        with pytest.raises(CommandFailed), open_log(str(path)) as log:
            seen.extend(line for _, line in log)
        assert len(seen) > 5_000
        assert seen == text.split(b"\n")[: len(seen)]


def test_one_sentence_for_every_path_that_is_no_log(tmp_path: Path) -> None:
    assert sentence_of(tmp_path / "missing").startswith("there is no file ")
    assert sentence_of(tmp_path).endswith("is a directory, not a log")
    assert "not a valid path" in sentence_of("a\x00b")
    assert "cannot read" in sentence_of(tmp_path / ("x" * 300))
    assert "\x1b" not in sentence_of(tmp_path / "\x1b[31mred")
    locked = tmp_path / "locked"
    locked.write_text("x")
    locked.chmod(0)
    if not os.access(locked, os.R_OK):
        assert "cannot read" in sentence_of(locked)


def test_a_stream_that_breaks_is_one_sentence() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(CommandFailed) as failed:
        list(LogLines("disk", Broken(), close=True))  # type: ignore[arg-type]
    assert failed.value.sentence == "cannot read disk: input/output error"


def test_before_each_wait_somebody_may_flush(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x\n" * CHUNK)
    calls: list[int] = []
    with open_log(str(path)) as log:
        log.before_read = lambda: calls.append(log.count)
        list(log)
    assert calls[0] == 0
    assert calls == sorted(calls)
    assert len(calls) > 2
