"""One file in the chain of a log's files, with what the chain has to remember of it."""

from ddwatch.core.records import GapReason
from ddwatch_sidecar.sources.contract import Item
from ddwatch_sidecar.sources.follow import Changed, OpenLog

NUL_BLOCK_BYTES = 512
"""Fewer NUL bytes than a disk sector are an oddity of a line, not a lost block."""


class Held:
    """An open file, somewhere from the oldest one that may still grow to the one that the path names."""

    def __init__(self, log: OpenLog, now: float, opening: list[Item]) -> None:
        self.log = log
        self.opening = opening
        """What stands between the older file's last line and this one's first."""
        self.size = 0
        """As measured at the start of the poll; nothing behind it is read in that poll."""
        self.changed = False
        """What was read, or seen while it waited, no longer stands in it."""
        self.grown_at = now
        self.waited_since: float | None = None
        """Since when a newer file waits for the half line of this one."""
        self.failing_since: float | None = None
        self._cut_told = log.lines.cut_lines
        self._nul_told = log.lines.nul_bytes

    @property
    def drained(self) -> bool:
        """Whether all that was there at the start of the poll has been read."""
        return self.log.offset >= self.size

    def measure(self) -> None:
        """Takes the size, which only a truncation makes smaller."""
        size = self.log.status().st_size
        self.changed = self.changed or size < max(self.size, self.log.offset)
        self.size = size

    def watch(self) -> None:
        """Notices a change of a file that has to wait for its turn."""
        try:
            self.log.verify()
        except Changed:
            self.changed = True
        except OSError:
            # Told when its turn to be read comes.
            return

    def untold(self, name: str) -> list[tuple[GapReason, str]]:
        """Losses inside the file since the last call, each with a sentence; `name` is the one to show."""
        lines = self.log.lines
        cut, nul = lines.cut_lines - self._cut_told, lines.nul_bytes - self._nul_told
        losses: list[tuple[GapReason, str]] = []
        if cut:
            self._cut_told = lines.cut_lines
            losses.append(("too-long", f"{cut} line(s) of {name} longer than 64 KiB were cut"))
        if nul >= NUL_BLOCK_BYTES:
            self._nul_told = lines.nul_bytes
            cause = "the host crashed, or the writer does not append"
            losses.append(("lost", f"{nul} NUL bytes in {name} where lines should be: {cause}"))
        return losses
