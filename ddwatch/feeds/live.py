"""Follows a sidecar's event stream over HTTP, keeps its history, and comes back by itself whenever the line breaks."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing

import httpx
import msgspec

from ddwatch.core import wire
from ddwatch.core.history import ends, merged, numbered
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame, History
from ddwatch.feeds.contract import ReplayControls

RETRIES = (0.5, 1.0, 2.0, 5.0)
"""Seconds to wait before each further attempt; the last one again and again."""
CONNECT_SECONDS = 5.0
SILENT_SECONDS = 15.0
"""Without a byte for this long the connection counts as broken; the sidecar's heartbeat is a third of it."""
LONGEST_EVENT = 64 * 1024 * 1024
"""Characters of one server-sent event; more is not a frame."""

Item = Frame | SourceFault


class Refused(Exception):
    """The other side cannot be followed; the message is one sentence without its address."""


class _Another(Exception):
    """Another sidecar process answers at this address: what is kept of the old one is worth nothing."""


def sentence(url: str, error: Exception) -> str:
    """What is wrong, in one sentence that says what to look at."""
    place = f"the sidecar at {url}"
    text = str(error)
    first = text.splitlines()[0] if text else ""
    low = text.lower()
    if isinstance(error, (Refused, wire.WireError)):
        return f"{place}: {text}"
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return f"{url} is not an address that can be followed; it should look like http://127.0.0.1:9477"
    if isinstance(error, httpx.ConnectTimeout):
        return f"{place} does not answer (nothing within {CONNECT_SECONDS:.0f} s); is the host reachable?"
    if isinstance(error, httpx.TimeoutException):
        return f"{place} has stopped answering (no byte for {SILENT_SECONDS:.0f} s)"
    if isinstance(error, httpx.ConnectError):
        if any(word in low for word in ("certificate", "ssl", "tls")):
            return f"{place} cannot be trusted: {first}"
        if any(word in low for word in ("name or service", "nodename", "name resolution", "getaddrinfo")):
            return f"{place} cannot be found: its host name does not resolve"
        if "all connection attempts failed" in low or "refused" in low:
            return f"{place} is not there (connection refused)"
        return f"{place} cannot be reached ({first})"
    if isinstance(error, httpx.RemoteProtocolError) and not any(
        w in low for w in ("disconnected", "incomplete", "peer")
    ):
        return f"{place} does not speak HTTP; is this the right port?"
    if isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)):
        return f"{place} is gone: the connection was closed"
    return f"{place} cannot be read ({first or type(error).__name__})"


def check(response: httpx.Response) -> None:
    """Raises Refused for an answer that is not the one asked for."""
    code = response.status_code
    if code == 401:
        raise Refused("it asks for a token, or for another one than this (--token-file or DDWATCH_TOKEN)")
    if code == 403:
        raise Refused("it does not go by this host name (start it with --allow-host NAME)")
    if code == 404:
        raise Refused("another server answers there (404 for a ddwatch path); is this the sidecar's port?")
    if code == 503:
        raise Refused("it has too many readers or is not ready (503)")
    if code != 200:
        raise Refused(f"it answered {code} {response.reason_phrase}".rstrip())
    kind = response.headers.get("content-type", "")
    if "html" in kind:
        raise Refused("a web page answers there instead of a sidecar; is this the right address?")


def farewell(data: str) -> str:
    """The reason in a stream's last event."""
    try:
        reason = msgspec.json.decode(data, type=dict[str, object]).get("error")
    except msgspec.DecodeError:
        reason = None
    return str(reason) if reason else "it has ended its stream"


class LiveFeed:
    """A sidecar as a feed. `frames` runs in one thread; `close` may be called from any other."""

    controls: ReplayControls | None = None

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: Sequence[float] = RETRIES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._retries = retries
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Item] | None = None
        self._history = History()
        self._seq = 0
        self._begun: float | None = None
        """When the sidecar's watch began; another moment means another sidecar process."""

    @property
    def origin(self) -> str:
        """The sidecar's address."""
        return self.url

    def frames(self) -> Iterator[Item]:
        """Frames and faults until closed."""
        loop = asyncio.new_event_loop()
        items = self._items()
        try:
            while True:
                with self._lock:
                    if self._closed:
                        return
                    self._loop = loop
                    self._task = loop.create_task(_next(items))
                try:
                    item = loop.run_until_complete(self._task)
                except (asyncio.CancelledError, StopAsyncIteration):
                    return
                yield item
        finally:
            with self._lock:
                self._loop = self._task = None
            loop.run_until_complete(items.aclose())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def close(self) -> None:
        """Cancels whatever `frames` waits for."""
        with self._lock:
            self._closed = True
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _items(self) -> AsyncGenerator[Item, None]:
        """Follows, and after each break says why, waits and follows again."""
        timeout = httpx.Timeout(CONNECT_SECONDS, read=SILENT_SECONDS)
        failures = 0
        async with httpx.AsyncClient(headers=self._headers, timeout=timeout, trust_env=False) as client:
            while True:
                try:
                    async with aclosing(self._followed(client)) as followed:
                        async for frame in followed:
                            failures = 0
                            yield frame
                    reason = sentence(self.url, Refused("it has ended its stream"))
                except _Another:
                    self._history, self._seq, self._begun = History(), 0, None
                    continue
                except (httpx.HTTPError, httpx.InvalidURL, Refused, wire.WireError, OSError) as error:
                    reason = sentence(self.url, error)
                wait = self._retries[min(failures, len(self._retries) - 1)]
                failures += 1
                yield SourceFault(at=self._clock(), source="sidecar", reason=f"{reason}; trying again")
                await asyncio.sleep(wait)

    async def _followed(self, client: httpx.AsyncClient) -> AsyncGenerator[Frame, None]:
        """The frames of one connection, each with the whole history that is kept."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._seq)}
        last: Frame | None = None
        reader = wire.FrameReader()
        async with client.stream("GET", f"{self.url}/v1/stream", headers=headers) as response:
            check(response)
            async for data in events_of(response.aiter_lines()):
                if data is not None:
                    last = self._taken(reader.decode(data))
                # A comment only says that the sidecar is alive; so does the same frame once more.
                if last is not None:
                    yield last

    def _taken(self, frame: Frame) -> Frame:
        snapshot = frame.snapshot
        if self._begun is not None and snapshot.started_at != self._begun and frame.history.complete:
            raise _Another
        self._history = merged(self._history, self._unknown(frame.history))
        self._seq, self._begun = snapshot.seq, snapshot.started_at
        return Frame(snapshot=snapshot, history=self._history)

    def _unknown(self, history: History) -> History:
        """The history without what is known already: a proxy or an old server may have ignored where we were."""
        if not history.complete or all(first > self._seq for first, _ in ends(history)):
            return history
        return numbered(history, lambda number: number > self._seq)


async def _next(items: AsyncIterator[Item]) -> Item:
    return await items.__anext__()


async def events_of(lines: AsyncIterator[str], longest: int = LONGEST_EVENT) -> AsyncGenerator[str | None, None]:
    """The data of each `frame` event among the lines of a stream of server-sent events; None for each comment.

    Raises Refused with the sidecar's own reason at its `end` event, and for an event that is too long.
    """
    kind = ""
    data: list[str] = []
    length = 0
    async for line in lines:
        if not line:
            if kind == "end":
                raise Refused(farewell("\n".join(data)))
            if data and kind == "frame":
                yield "\n".join(data)
            kind, data, length = "", [], 0
        elif line.startswith(":"):
            yield None
        else:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "data":
                length += len(value)
                if length > longest:
                    raise Refused("its stream holds an event that is too long to be a frame")
                data.append(value)
