"""Recognises a file by bytes already read, because size, inode and time can all lie about being the same log."""

from collections.abc import Callable

FINGERPRINT_BYTES = 256
"""Longest stretch that is remembered at either end: more than one stamped log line."""

SAME_BYTES = 64
"""Least offset at which an equal inode and equal fingerprints mean the same log: inodes are reused at once."""

COPY_BYTES = 512
"""Least offset at which equal fingerprints alone (another inode) mean a copy of the same log."""


class Fingerprint:
    """The first bytes of a file and the bytes just before the reading position."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        """May reach beyond the reading position: a file that waits for its turn is recognised too."""
        self.tail = b""

    def extend(self, chunk: bytes) -> None:
        """Takes in the bytes that follow those read last."""
        self.tail = (self.tail + chunk[-FINGERPRINT_BYTES:])[-FINGERPRINT_BYTES:]

    def jump(self) -> None:
        """The reading position moves over bytes that are not read."""
        self.tail = b""

    def matches(self, read: Callable[[int, int], bytes], offset: int) -> bool:
        """Whether the file behind `read(length, offset)` still holds these bytes at the start and before `offset`."""
        return read(len(self.head), 0) == self.head and read(len(self.tail), offset - len(self.tail)) == self.tail
