"""Standard input as a source: whatever is piped, redirected or typed, read without ever blocking."""

import os
import select
import stat

from ddwatch.core.records import Gap, SourceFault, SourceUp
from ddwatch_sidecar.sources.contract import Item
from ddwatch_sidecar.sources.lines import LineAssembler
from ddwatch_sidecar.sources.look import shown

CHUNK_BYTES = 64 * 1024
"""One pipe's content."""

POLL_BYTES = 1024 * 1024
"""Most bytes that one poll reads."""

MOST_LINES = 10_000
"""Lines after which one poll stops: a flood of short ones would take far more memory than their bytes."""

BURST_SECONDS = 10.0
"""Over-long lines are told at most this often."""


class StandardInput:
    """Reads a descriptor that somebody else opened; its flags are left alone, because the terminal may share them.

    A regular file's lines are not live (they stood there before). When the input ends, the last half line is
    delivered, then one SourceFault.
    """

    def __init__(self, descriptor: int = 0, *, name: str = "stdin", poll_bytes: int = POLL_BYTES) -> None:
        self.name = name
        self.behind = False
        self._descriptor = descriptor
        self._poll_bytes = poll_bytes
        self._lines = LineAssembler()
        self._live = True
        self._up = False
        self._ended = False
        self._cut_told = 0
        self._burst_told_at = float("-inf")

    def close(self) -> None:
        """Stops reading; the descriptor belongs to the process and stays open."""
        self._ended = True
        self.behind = False

    def poll(self, now: float) -> list[Item]:
        """See `Source.poll`."""
        if self._ended:
            return []
        items: list[Item] = []
        try:
            if not self._up:
                self._live = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
                items.append(SourceUp(at=now, source=self.name, detail="reading standard input"))
                self._up = True
            ended = self._read(items)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno is not None else shown(str(error))
            self._end(f"standard input cannot be read: {reason}", now, items)
        else:
            if ended:
                self._end("standard input ended", now, items)
            else:
                self._tell_cuts(now, items)
        return items

    def _read(self, items: list[Item]) -> bool:
        """Takes what is ready, up to the bound; returns whether the input has ended."""
        left = self._poll_bytes
        while self._ready():
            if left <= 0 or len(items) >= MOST_LINES:
                self.behind = True
                return False
            chunk = os.read(self._descriptor, min(left, CHUNK_BYTES))
            if not chunk:
                return True
            left -= len(chunk)
            items += self._lines.feed(chunk, live=self._live)
        self.behind = False
        return False

    def _ready(self) -> bool:
        """Whether a read returns at once, be it with bytes, with the end or with an error."""
        watch = select.poll()
        watch.register(self._descriptor, select.POLLIN)
        return bool(watch.poll(0))

    def _end(self, reason: str, now: float, items: list[Item]) -> None:
        self._ended = True
        self.behind = False
        items += self._lines.flush(live=self._live)
        self._burst_told_at = float("-inf")
        self._tell_cuts(now, items)
        items.append(SourceFault(at=now, source=self.name, reason=reason))

    def _tell_cuts(self, now: float, items: list[Item]) -> None:
        cut = self._lines.cut_lines - self._cut_told
        if cut and now - self._burst_told_at >= BURST_SECONDS:
            self._cut_told = self._lines.cut_lines
            self._burst_told_at = now
            detail = f"{cut} line(s) of standard input longer than 64 KiB were cut"
            items.append(Gap(at=now, source=self.name, reason="too-long", detail=detail))
