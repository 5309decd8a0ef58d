"""One open log file: reads on from where it stopped and notices when what it had read is no longer there."""

import os
from collections.abc import Callable
from pathlib import Path

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.fingerprint import COPY_BYTES, FINGERPRINT_BYTES, SAME_BYTES, Fingerprint
from ddwatch_sidecar.sources.lines import LineAssembler
from ddwatch_sidecar.sources.look import Identity, Refusal, refusal, refusal_of_content, refusal_of_kind

CHUNK_BYTES = 64 * 1024
"""Bytes asked for in one read."""

MOST_LINES = 10_000
"""Lines after which one reading stops: a flood of short ones would take far more memory than their bytes."""

Pread = Callable[[int, int, int], bytes]
"""`os.pread`: (descriptor, length, offset) -> bytes; handed in so that a test can make the disk fail."""


class Changed(Exception):
    """The file no longer holds what was read from it: it was truncated or rewritten."""


class OpenLog:
    """A descriptor with its reading position, its half line and what was read before it.

    `read` raises Changed (see `restart`) and OSError; everything else that the world does is not its concern.
    """

    def __init__(self, descriptor: int, status: os.stat_result, head: bytes, pread: Pread) -> None:
        self._descriptor = descriptor
        self._pread = pread
        self.identity = Identity.of(status)
        self.offset = 0
        self.lines = LineAssembler()
        self._fingerprint = Fingerprint(head)
        self._old_bytes = 0
        """Bytes below this offset stood in the file before we attached."""
        self._skip: tuple[int, int] | None = None
        """(from, to): the middle of a large file that is not read."""

    @classmethod
    def open(cls, path: Path, pread: Pread) -> "OpenLog | Refusal":
        """Opens without ever blocking on a pipe or device; refuses what cannot be followed with a sentence."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            return refusal(path, error)
        try:
            status = os.fstat(descriptor)
            refused = refusal_of_kind(path, status.st_mode)
            if refused is None:
                head = pread(descriptor, FINGERPRINT_BYTES, 0)
                refused = refusal_of_content(path, head)
                if refused is None:
                    return cls(descriptor, status, head, pread)
        except OSError as error:
            refused = refusal(path, error)
        os.close(descriptor)
        return refused

    def close(self) -> None:
        """Lets go of the descriptor."""
        os.close(self._descriptor)

    def status(self) -> os.stat_result:
        """Size, links and times now."""
        return os.fstat(self._descriptor)

    def begin(self, size: int, *, live: bool, catch_up_bytes: int, head_bytes: int) -> None:
        """Plans the first reading of a file that has `size` bytes: all of it, or its head and its end."""
        self._old_bytes = 0 if live else size
        start = size - catch_up_bytes
        self._skip = (head_bytes, start) if start > head_bytes else None

    def resume(self, earlier: "OpenLog", size: int, *, live: bool) -> bool:
        """Takes over the position of an earlier descriptor if this is the same log, or a copy of it; says whether."""
        offset = earlier.offset
        least = SAME_BYTES if earlier.identity == self.identity else COPY_BYTES
        if not least <= offset <= size or not earlier._fingerprint.matches(self._read_at, offset):
            return False
        self.offset, self.lines = offset, earlier.lines
        self._fingerprint, self._skip = earlier._fingerprint, earlier._skip
        self._old_bytes = max(earlier._old_bytes, 0 if live else size)
        return True

    def restart(self, *, size: int, catch_up_bytes: int, head_bytes: int) -> int:
        """Begins at the first byte again; returns how many bytes of a half line were dropped."""
        dropped = self.lines.discard()
        self.offset = 0
        self._fingerprint = Fingerprint()
        self.begin(size, live=True, catch_up_bytes=catch_up_bytes, head_bytes=head_bytes)
        return dropped

    @property
    def at_skip(self) -> bool:
        """Whether the next read jumps over the middle of the file."""
        return self._skip is not None and self.offset == self._skip[0]

    def verify(self) -> None:
        """Raises Changed unless what was read still stands there; a file may be verified while it waits unread."""
        known = self._fingerprint.tail
        if self._read_at(len(known), self.offset - len(known)) != known:
            raise Changed
        self._verify_head()

    def read(self, end: int, budget: int) -> list[Line]:
        """At most `budget` bytes up to the offset `end`, as lines; stops in front of a stretch to be skipped.

        Also stops after the chunk that makes the lines MOST_LINES or more.
        """
        lines: list[Line] = []
        stop = min(end, self.offset + budget)
        while self.offset < stop and len(lines) < MOST_LINES:
            chunk = self._next_chunk(self._boundary(stop))
            if not chunk:
                break
            lines += self.lines.feed(chunk, live=self.offset >= self._old_bytes)
            self._fingerprint.extend(chunk)
            self.offset += len(chunk)
            if self.at_skip:
                break
            if not chunk.strip(b"\0"):
                self._jump_hole(end)
        return lines

    def jump_skip(self) -> int:
        """Goes on behind the skipped stretch, at the first line that begins there; returns the bytes left out."""
        if self._skip is None:
            return 0
        left_out = self._skip[1] - self._skip[0]
        # One byte earlier, so that a line that begins exactly there is not dropped.
        self._jump_to(self._skip[1] - 1)
        self._skip = None
        self.lines.skip_to_next_line()
        return left_out

    def _boundary(self, stop: int) -> int:
        for boundary in (self._old_bytes, self._skip[0] if self._skip else 0):
            if self.offset < boundary:
                stop = min(stop, boundary)
        return min(stop, self.offset + CHUNK_BYTES)

    def _next_chunk(self, stop: int) -> bytes:
        """Reads known and new bytes in one call, so that no truncation can slip in between check and read."""
        known = self._fingerprint.tail
        found = self._read_at(len(known) + stop - self.offset, self.offset - len(known))
        if not found.startswith(known):
            raise Changed
        self._verify_head()
        return found[len(known) :]

    def _verify_head(self) -> None:
        head = self._read_at(FINGERPRINT_BYTES, 0)
        if not head.startswith(self._fingerprint.head):
            raise Changed
        self._fingerprint.head = head

    def _jump_hole(self, end: int) -> None:
        """Steps over a hole in a sparse file instead of reading gigabytes of zeros."""
        if not hasattr(os, "SEEK_DATA"):
            return
        try:
            data = os.lseek(self._descriptor, self.offset, os.SEEK_DATA)
        except OSError:
            # No data behind the offset yet, or a file system that does not know holes: plain reading goes on.
            return
        data = min(data, end)
        if data > self.offset:
            self.lines.nul_bytes += data - self.offset
            self._jump_to(data)

    def _jump_to(self, offset: int) -> None:
        self._fingerprint.jump()
        self.offset = offset

    def _read_at(self, length: int, offset: int) -> bytes:
        return self._pread(self._descriptor, length, offset) if length else b""
