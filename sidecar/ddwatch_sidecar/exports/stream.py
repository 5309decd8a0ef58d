"""Server-sent events: every reader gets the newest state when it has taken the last one, never a queue of old ones."""

import asyncio
import socket
from contextlib import suppress

from aiohttp import web

from ddwatch_sidecar.exports.contract import Changes
from ddwatch_sidecar.exports.documents import Documents, failure
from ddwatch_sidecar.waking import Wake

READERS = 32
"""Readers of the stream at one time."""
HEARTBEAT_SECONDS = 5.0
"""A comment keeps proxies and readers from believing the line dead."""
FAREWELL_SECONDS = 0.05
"""How often it is looked whether a reader has room for the last event; the server bounds how long."""
STALLED_SECONDS = 15.0
"""A reader that takes nothing for this long is let go; it resumes where it was when it comes back."""
SLICE_BYTES = 64 * 1024
"""A large frame is handed over in pieces, so that a reader that stops reading holds no copy of it."""
KERNEL_BYTES = 128 * 1024
"""What the kernel may hold for one reader: few frames, so that a slow reader is never far behind."""


class Streams:
    """All readers of /v1/stream."""

    def __init__(self, documents: Documents, changes: Changes) -> None:
        self._documents = documents
        self._changes = changes
        self._readers: set[Wake] = set()
        self._farewell: bytes | None = None

    @property
    def full(self) -> bool:
        """Whether no further reader is taken."""
        return len(self._readers) >= READERS

    async def follow(self) -> None:
        """Wakes the readers whenever a newer state is published; runs until cancelled."""
        version = self._changes.version
        while True:
            version = await self._changes.after(version)
            self._wake()

    def finish(self, sentence: str) -> None:
        """Ends all streams with a last event `end` that says why."""
        self._farewell = b"event: end\ndata: %b\n\n" % failure(sentence)
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()

    async def serve(self, request: web.Request, since: int) -> web.StreamResponse:
        """Answers one reader that has everything up to `since`, until it leaves or the streams finish."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        response.headers["X-Accel-Buffering"] = "no"
        if request.method == "HEAD":
            return response
        turn = Wake()
        self._readers.add(turn)
        try:
            # A reader may leave at any moment: that is the world's doing and needs no word.
            with suppress(ConnectionError):
                await response.prepare(request)
                await self._send(request, response, turn, since)
        finally:
            self._readers.discard(turn)
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, turn: Wake, since: int) -> None:
        transport = request.transport
        if transport is None:
            return
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
        clock = asyncio.get_running_loop().time
        taken_at = clock()
        sent = -1
        while not transport.is_closing():
            turn.clear()
            if transport.get_write_buffer_size() == 0:
                taken_at = clock()
                if sent != self._changes.version:
                    sent = self._changes.version
                    frame = await self._documents.frame(since)
                    await _write(transport, response, frame.body)
                    since = frame.seq
                if self._farewell is not None and sent == self._changes.version:
                    await _write(transport, response, self._farewell)
                    return
            elif clock() - taken_at > STALLED_SECONDS:
                transport.abort()
                return
            limit = HEARTBEAT_SECONDS if self._farewell is None else FAREWELL_SECONDS
            if not await turn.within(limit) and transport.get_write_buffer_size() == 0:
                await _write(transport, response, b": nothing new\n\n")


async def _write(transport: asyncio.WriteTransport, response: web.StreamResponse, body: bytes) -> None:
    """Hands a body over piece by piece; lets a reader go that takes none of it for too long."""
    view = memoryview(body)
    for start in range(0, len(view), SLICE_BYTES):
        stalled = asyncio.get_running_loop().call_later(STALLED_SECONDS, transport.abort)
        try:
            await response.write(view[start : start + SLICE_BYTES])
        finally:
            stalled.cancel()
