"""Encodes what is served, once per published state and position, however many readers ask for it."""

import asyncio
import gzip

import msgspec

from ddwatch.core import wire
from ddwatch.core.history import ends, numbered
from ddwatch.core.snapshot import Frame, History, Snapshot
from ddwatch_sidecar.exports.contract import Supply

ERROR_SCHEMA = "ddwatch.error/1"
HEALTH_SCHEMA = "ddwatch.health/1"

LARGE_HISTORY = 600
"""Histories with more items are encoded beside the event loop, so that other readers do not wait."""
GZIP_LEVEL = 5
SMALL_BODY = 1024
"""Bodies below this many bytes are not worth compressing."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no document."""

    schema: str = ERROR_SCHEMA
    error: str
    """One sentence."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of /healthz and of a ready /readyz."""

    schema: str = HEALTH_SCHEMA
    state: str
    """`alive` or `ready`."""


def failure(sentence: str) -> bytes:
    """The document of an answer that is not what was asked for."""
    return msgspec.json.encode(Failure(error=sentence))


def health(state: str) -> bytes:
    """The document of a health answer."""
    return msgspec.json.encode(Health(state=state))


def up_to(history: History, seq: int) -> History:
    """Only what the snapshot with this sequence number knows of; the rest comes with the next one."""
    if all(last <= seq for _, last in ends(history)):
        return history
    return numbered(history, lambda number: number <= seq)


def unready(snapshot: Snapshot) -> str | None:
    """Why nothing can be said yet, in one sentence; None once a source has delivered."""
    witnesses = [source for source in snapshot.sources if source.witness]
    if any(source.last_at is not None for source in witnesses):
        return None
    told = "; ".join(f"{source.name}: {source.detail}" for source in witnesses if source.detail)
    return f"no source has delivered anything yet ({told})" if told else "no source has delivered anything yet"


def compressed(body: bytes) -> bytes:
    """The body in gzip, without a time in its header so that equal bodies stay equal."""
    return gzip.compress(body, GZIP_LEVEL, mtime=0)


class Sent(msgspec.Struct, frozen=True):
    """One encoded document and the position that it leads its reader to."""

    seq: int
    body: bytes


class Documents:
    """Encodings of the newest state; everything older is forgotten when a newer state is published."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._version = -1
        self._frames: dict[int, Sent] = {}
        self._writer = wire.FrameWriter()
        self._encoding: dict[int, asyncio.Task[Sent]] = {}
        """Large ones, which take a while."""

    def snapshot(self) -> bytes:
        """The body of /v1/snapshot."""
        return wire.encode_snapshot(self._supply.latest())

    async def history(self, since: int, *, packed: bool) -> bytes:
        """The body of /v1/history, in gzip when `packed`."""
        snapshot = self._supply.latest()
        history = up_to(self._supply.history(since), snapshot.seq)

        def encode() -> bytes:
            body = wire.encode_history(history, snapshot.seq)
            return compressed(body) if packed else body

        return await asyncio.to_thread(encode) if _large(history) else encode()

    async def frame(self, since: int) -> Sent:
        """One whole server-sent event for every reader that has all up to `since`."""
        if self._version != self._supply.changes.version:
            self._version = self._supply.changes.version
            self._frames = {}
            self._encoding = {}
        sent = self._frames.get(since)
        if sent is not None:
            return sent
        task = self._encoding.get(since)
        if task is None:
            snapshot = self._supply.latest()
            frame = Frame(snapshot=snapshot, history=up_to(self._supply.history(since), snapshot.seq))
            if not _large(frame.history):
                sent = self._frames[since] = self._event(frame)
                return sent
            task = self._encoding[since] = asyncio.create_task(asyncio.to_thread(self._event, frame))
        # A reader that leaves must not take the encoding away from those who wait for it with him.
        return await asyncio.shield(task)

    def _event(self, frame: Frame) -> Sent:
        seq = frame.snapshot.seq
        return Sent(seq, b"id: %d\nevent: frame\ndata: %b\n\n" % (seq, self._writer.encode(frame)))


def _large(history: History) -> bool:
    return len(history.points) + len(history.events) > LARGE_HISTORY
