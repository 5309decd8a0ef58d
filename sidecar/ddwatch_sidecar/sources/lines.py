"""Bytes in any chunks to whole lines of bounded length; knows nothing about where the bytes come from."""

from ddwatch_sidecar.sources.contract import Line

LINE_LIMIT = 64 * 1024
"""Bytes of one line that are kept (DESIGN.md section 9)."""


class LineAssembler:
    """Keeps the half line at the end of a chunk until its rest arrives.

    A line longer than `limit` is delivered once, cut, as soon as that is known; its rest is dropped up to the newline.
    NUL bytes are no text (a crashed host leaves blocks of them in a log): they are removed and counted.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._dropping = False
        """Inside the rest of a line whose beginning was delivered, or never wanted."""
        self._torn = False
        """The beginning of the present line was flushed: what follows is its rest."""
        self.number: int | None = 1
        """Number of the line that is being assembled; None when unknown."""
        self.cut_lines = 0
        """Lines cut at the limit so far."""
        self.nul_bytes = 0
        """NUL bytes removed so far."""

    @property
    def pending(self) -> bool:
        """Whether a half line is held."""
        return self._held_bytes > 0

    def feed(self, chunk: bytes, *, live: bool = True) -> list[Line]:
        """The lines that this chunk completes; `live` is handed through to them."""
        if b"\0" in chunk:
            text = chunk.replace(b"\0", b"")
            self.nul_bytes += len(chunk) - len(text)
            chunk = text
        lines: list[Line] = []
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._hold(part, live, lines)
            self._end(live, lines)
        self._hold(rest, live, lines)
        return lines

    def flush(self, *, live: bool = True) -> list[Line]:
        """The half line as it stands, marked as not whole; should its rest still come, that is not whole either."""
        if not self._held:
            return []
        line = Line(self._take(), self.number, live, whole=False)
        self._torn = True
        return [line]

    def discard(self) -> int:
        """Forgets the half line and begins a first line anew; returns how many bytes were held."""
        held = self._held_bytes
        self._take()
        self._dropping = self._torn = False
        self.number = 1
        return held

    def skip_to_next_line(self) -> None:
        """Forgets the half line, drops all bytes up to the next newline, and no longer knows line numbers."""
        self.discard()
        self._dropping = True
        self.number = None

    def _hold(self, part: bytes, live: bool, lines: list[Line]) -> None:
        if self._dropping or not part:
            return
        self._held.append(part)
        self._held_bytes += len(part)
        # One byte above the limit is kept, because it may be the `\r` of the line's end.
        if self._held_bytes > self._limit + 1:
            self._deliver(self._take(), live, lines)
            self._dropping = True

    def _end(self, live: bool, lines: list[Line]) -> None:
        if not self._dropping:
            self._deliver(self._take(), live, lines)
        if self.number is not None:
            self.number += 1
        self._dropping = self._torn = False

    def _deliver(self, data: bytes, live: bool, lines: list[Line]) -> None:
        if len(data) <= self._limit + 1:
            data = data.removesuffix(b"\r")
        whole = not self._torn
        if len(data) > self._limit:
            data = data[: self._limit]
            whole = False
            self.cut_lines += 1
        lines.append(Line(data, self.number, live, whole))

    def _take(self) -> bytes:
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held = []
        self._held_bytes = 0
        return data
