"""Opens a log, plain or compressed, from a file or standard input, and hands out its lines in flat memory."""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, TypeVar, cast

import zstandard

from ddwatch.core.exits import CommandFailed, Exit

LINE_LIMIT = 65_536
"""Bytes of a line that are handed out; the rest of a longer one is dropped and counted."""
CHUNK = 1 << 18
SAMPLE = 8192
"""Bytes at the start that decide whether this is text."""
BINARY_SHARE = 0.03
"""More control bytes than this among them, and it is none."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 1 to 3 of a skippable zstd frame; its byte 0 is 0x50 to 0x5f."""
UNREAD_FORMATS = ((b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"), (b"PK\x03\x04", "zip"), (b"\x04\x22\x4d\x18", "lz4"))
CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r\x1b\x08\x0c") + b"\x7f"


T = TypeVar("T")


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, b"" at the end."""


class _Stream:
    """A byte stream whose beginning has been looked at; reads hand out what is there without waiting for more."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = b""
        """The first six bytes, fewer of a shorter stream."""
        while len(self.head) < 6 and (more := self._some(6 - len(self.head))):
            self.head += more
        self._unread = self.head

    def _some(self, size: int) -> bytes:
        read1 = getattr(self._stream, "read1", None)
        return cast("bytes", self._stream.read(size) if read1 is None else read1(size))

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, b"" at the end."""
        if self._unread:
            size = len(self._unread) if size < 0 else size
            first, self._unread = self._unread[:size], self._unread[size:]
            return first
        return self._some(size if size >= 0 else CHUNK)

    def unread(self, data: bytes) -> None:
        """Gives back what was read too much."""
        self._unread = data + self._unread


class _Gzip:
    """The text of one or more gzip members; what stands before a damage is handed out first."""

    def __init__(self, stream: _Stream) -> None:
        self._file = gzip.GzipFile(fileobj=cast("BinaryIO", stream), mode="rb")

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, b"" at the end; raises EOFError, BadGzipFile or zlib.error."""
        return self._file.read1(size)


class _Zstd:
    """The text of one or more zstd frames; a frame that ends early is an error, as with gzip."""

    STEP = 512
    """Compressed bytes taken at once: even the most repetitive text grows to a few megabytes from them."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._text = b""
        self._given = 0

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, b"" at the end; raises EOFError or ZstdError."""
        while self._given >= len(self._text):
            data = self._stream.read(self.STEP)
            if not data:
                if self._frame is not None:
                    raise EOFError
                return b""
            frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._text = frame.decompress(data)
            self._given = 0
            self._frame = None if frame.eof else frame
            if frame.eof:
                self._stream.unread(frame.unused_data)
        self._given += size
        return self._text[self._given - size : self._given]


class LogLines:
    """An opened log: iterate once for (1-based number, line without its newline); a context manager.

    Iterating raises CommandFailed with one sentence when the file turns out empty, binary or damaged.
    """

    def __init__(self, name: str, stream: BinaryIO, *, close: bool) -> None:
        self.name = name
        self.count = 0
        """Lines found so far."""
        self.cut = 0
        """Lines so far whose end was dropped, because they were longer than 64 KiB."""
        self.before_read: Callable[[], None] = lambda: None
        """Called before each wait for more bytes."""
        self._stream = stream
        self._close = close

    def __enter__(self) -> "LogLines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._close:
            self._stream.close()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        tail = b""
        for chunk in self._chunks():
            lines = chunk.split(b"\n")
            lines[0] = tail + lines[0]
            # One byte beyond the limit remembers that the line was longer.
            tail = lines.pop()[: LINE_LIMIT + 1]
            yield from self._numbered(lines)
        if tail:
            yield from self._numbered([tail])

    def _numbered(self, lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
        first = self.count + 1
        self.count += len(lines)
        if lines and max(map(len, lines)) > LINE_LIMIT:
            self.cut += sum(len(line) > LINE_LIMIT for line in lines)
            lines = [line[:LINE_LIMIT] for line in lines]
        return enumerate(lines, first)

    def _chunks(self) -> Iterator[bytes]:
        """The bytes of the text, checked to be text at its beginning."""
        began = False
        source = self._read_from(self._opened)
        while True:
            self.before_read()
            chunk = self._read_from(lambda: source.read(CHUNK))
            if not chunk:
                break
            if not began:
                # A log that was truncated while it was written begins with null bytes.
                chunk = chunk.lstrip(b"\x00")
                if not chunk:
                    continue
                self._check_text(chunk[:SAMPLE])
                began = True
            yield chunk
        if not began:
            raise CommandFailed(f"{self.name} is empty")

    def _read_from(self, source: Callable[[], T]) -> T:
        """Does one piece of reading; what the world does to it becomes one sentence."""
        try:
            return source()
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise CommandFailed(f"{self.name} is damaged: its compressed data cannot be read to the end") from error
        except OSError as error:
            raise CommandFailed(f"cannot read {self.name}: {_reason(error)}") from error

    def _opened(self) -> _Readable:
        stream = _Stream(self._stream)
        head = stream.head
        if head.startswith(GZIP):
            return _Gzip(stream)
        if head.startswith(ZSTD) or (head[1:4] == ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
            return _Zstd(stream)
        for magic, name in UNREAD_FORMATS:
            if head.startswith(magic):
                raise CommandFailed(f"{self.name} is compressed with {name}, which is not read: decompress it first")
        return stream

    def _check_text(self, sample: bytes) -> None:
        controls = len(sample) - len(sample.translate(None, CONTROLS))
        if controls > BINARY_SHARE * len(sample):
            raise CommandFailed(f"{self.name} is not a text log: it holds binary data")


def _reason(error: OSError) -> str:
    """What the system says, in lower case and without the path."""
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]


def open_log(path: str) -> LogLines:
    """Opens a log; `-` is standard input. Raises CommandFailed with one sentence when there is nothing to open."""
    if path == "-":
        return LogLines("standard input", sys.stdin.buffer, close=False)
    name = shown(path)
    file = Path(path)
    try:
        if file.is_dir():
            raise CommandFailed(f"{name} is a directory, not a log", Exit.INPUT)
        return LogLines(name, file.open("rb"), close=True)
    except FileNotFoundError as error:
        raise CommandFailed(f"there is no file {name}", Exit.INPUT) from error
    except (OSError, ValueError) as error:
        reason = _reason(error) if isinstance(error, OSError) else "not a valid path"
        raise CommandFailed(f"cannot read {name}: {reason}", Exit.INPUT) from error


def shown(path: str) -> str:
    """A path as a terminal may show it."""
    return "".join(character if character.isprintable() else "?" for character in path)
