"""Opens what container runtimes and journals wrap around a line: docker json-file, CRI, journald's JSON.

Long lines arrive in pieces (docker and CRI split at 16 KiB); they are joined before anybody reads them.
"""

import re
from typing import Any, NamedTuple

import msgspec

from ddwatch.core.grammar.prefix import zoned_epoch
from ddwatch.core.grammar.text import LINE_LIMIT, clean

CRI = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP])(?::\w+)* ")
DOCKER = re.compile(
    rb'\{"log":"([^"\\\x00-\x1f]*)\\n","stream":"(stdout|stderr)","time":"([\d:T-]{19})(\.\d{1,9})?Z"\}\Z'
)
"""A whole line of docker json-file without any escape but its newline: read without a JSON decoder."""
INSERTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) ")
"""Some docker versions put the piece's time into the text of a continuation."""


class Wrapped(msgspec.Struct):
    """The parts of a JSON line that are looked at."""

    log: str | None = None
    stream: str | None = None
    time: str | None = None
    MESSAGE: str | list[Any] | None = None
    realtime: str | None = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")
    container: str | None = msgspec.field(default=None, name="CONTAINER_NAME")
    unit: str | None = msgspec.field(default=None, name="_SYSTEMD_UNIT")


class Opened(NamedTuple):
    """A line out of its envelope."""

    text: bytes
    outer: float | None
    """When the envelope says that it was written, seconds since the epoch."""
    engine: str | None
    number: int | None
    """The physical line on which it begins."""


DECODER = msgspec.json.Decoder(Wrapped)
WAITING: tuple[Opened, ...] = ()


class _Piece:
    """The beginning of a line that came in pieces."""

    __slots__ = ("number", "outer", "text")

    def __init__(self, text: str, outer: float | None, number: int | None) -> None:
        self.text = text
        self.outer = outer
        self.number = number


class Envelopes:
    """Opens one stream's lines; keeps at most one unfinished line per standard stream."""

    __slots__ = ("_pieces", "_second", "_second_at")

    def __init__(self) -> None:
        self._pieces: dict[str, _Piece] = {}
        self._second = b""
        self._second_at: float | None = None

    def open(self, line: bytes, number: int | None) -> tuple[Opened, ...] | None:
        """The lines inside, none while a piece is missing, or None when this is no envelope."""
        first = line[:1]
        if first == b"{":
            if not self._pieces and (docker := DOCKER.match(line)) is not None:
                return (Opened(docker[1], self._docker_time(docker[3], docker[4]), None, number),)
            return self._json(line, number)
        if first.isdigit() and (cri := CRI.match(line)) is not None:
            text = line[cri.end() :].decode("utf-8", "replace")
            return self._join(cri[2].decode(), text, cri[3] == b"F", zoned_epoch(cri[1].decode()), number)
        return None

    def _json(self, line: bytes, number: int | None) -> tuple[Opened, ...] | None:
        try:
            wrapped = DECODER.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        if wrapped.log is not None and wrapped.time is not None and wrapped.stream is not None:
            text = wrapped.log
            whole = text.endswith("\n")
            return self._join(wrapped.stream[:8], text.rstrip("\r\n"), whole, zoned_epoch(wrapped.time), number)
        if wrapped.MESSAGE is not None and wrapped.realtime is not None:
            return self._journal(wrapped, number)
        return None

    def _docker_time(self, second: bytes, fraction: bytes | None) -> float | None:
        if second != self._second:
            self._second = second
            self._second_at = zoned_epoch(second.decode() + "Z")
        if self._second_at is None or fraction is None:
            return self._second_at
        return self._second_at + float(fraction)

    def _join(self, stream: str, text: str, whole: bool, outer: float | None, number: int | None) -> tuple[Opened, ...]:
        piece = self._pieces.pop(stream, None)
        if piece is not None:
            inserted = INSERTED.match(text)
            piece.text = (piece.text + text[inserted.end() if inserted else 0 :])[:LINE_LIMIT]
        else:
            piece = _Piece(text[:LINE_LIMIT], outer, number)
        if not whole:
            if len(self._pieces) < 4:
                self._pieces[stream] = piece
            return WAITING
        return (Opened(piece.text.encode("utf-8", "replace"), piece.outer, None, piece.number),)

    @staticmethod
    def _journal(wrapped: Wrapped, number: int | None) -> tuple[Opened, ...]:
        message = wrapped.MESSAGE
        if isinstance(message, list):
            numbers = all(isinstance(byte, int) and 0 <= byte < 256 for byte in message)
            text = bytes(message) if numbers else str(message[-1]).encode("utf-8", "replace")
        else:
            text = (message or "").encode("utf-8", "replace")
        realtime = wrapped.realtime or ""
        outer = int(realtime) / 1e6 if realtime.isdecimal() and len(realtime) < 19 else None
        name = wrapped.container or wrapped.unit
        return (Opened(text[:LINE_LIMIT], outer, clean(name, 100) if name else None, number),)

    def flush(self) -> tuple[Opened, ...]:
        """Lines whose end never came."""
        pieces = [Opened(p.text.encode("utf-8", "replace"), p.outer, None, p.number) for p in self._pieces.values()]
        self._pieces.clear()
        return tuple(pieces)
