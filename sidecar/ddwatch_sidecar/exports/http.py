"""The HTTP server: read-only, bounded, guarded; it answers from what it is handed and knows no service."""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import hdrs, web

from ddwatch_sidecar.exports.contract import Supply
from ddwatch_sidecar.exports.documents import SMALL_BODY, Documents, compressed, failure, health, unready
from ddwatch_sidecar.exports.guard import Guard
from ddwatch_sidecar.exports.metric import View
from ddwatch_sidecar.exports.prometheus import PrometheusPage
from ddwatch_sidecar.exports.stream import READERS, Streams

LINE_BYTES = 4096
"""Longest request line and header line."""
HEADERS = 64
IDLE_SECONDS = 75.0
"""A connection without a request is closed after this time."""
CLOSING_SECONDS = 0.5
"""How long open answers may take once the server stops."""
LARGEST_SEQ = 2**53

JSON = "application/json"
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Server": "ddwatch",
}


class BadRequest(Exception):
    """The reader asked for something that does not exist; the message is one sentence."""


def position(text: str | None, name: str) -> int:
    """A sequence number that a reader sent; 0 when it sent none. Raises BadRequest."""
    if text is None:
        return 0
    if text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= LARGEST_SEQ:
        return int(text)
    raise BadRequest(f"{name} must be a sequence number: a whole number from 0 up")


def takes_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header takes gzip."""
    for part in header.lower().split(","):
        coding, *parameters = (piece.strip() for piece in part.split(";"))
        if coding in ("gzip", "*"):
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters)
    return False


def _answer(body: bytes, content_type: str = JSON, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, headers={hdrs.CONTENT_TYPE: content_type})


def _packed(request: web.Request, response: web.Response, body: bytes) -> web.Response:
    """The answer in gzip where the reader takes it and it is worth it."""
    response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
    if len(body) >= SMALL_BODY and takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        response.body = compressed(body)
        response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    return response


async def _harden(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SAFE_HEADERS)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    """All routes over one listening socket."""

    def __init__(self, supply: Supply, guard: Guard) -> None:
        self._supply = supply
        self._guard = guard
        self._documents = Documents(supply)
        self._streams = Streams(self._documents, supply.changes)
        self._page = PrometheusPage(lambda: View(supply.latest(), supply.tallies(), supply.process()))
        self._runner: web.AppRunner | None = None
        self._follower: asyncio.Task[None] | None = None
        self._broken: asyncio.Future[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serves on a bound socket; the server owns it from now on."""

        @web.middleware
        async def rules(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._rules(request, handler)

        app = web.Application(middlewares=[rules], client_max_size=LINE_BYTES)
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/v1/snapshot", self._snapshot),
                web.get("/v1/history", self._history),
                web.get("/v1/stream", self._stream),
            ]
        )
        app.on_response_prepare.append(_harden)
        # A malformed request is the reader's doing and our own failure ends `failed`: neither belongs into a log.
        silent = logging.Logger("ddwatch_sidecar.http")
        silent.addHandler(logging.NullHandler())
        self._runner = web.AppRunner(
            app,
            shutdown_timeout=CLOSING_SECONDS,
            access_log=None,
            logger=silent,
            keepalive_timeout=IDLE_SECONDS,
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
            max_headers=HEADERS,
            lingering_time=0,
        )
        self._broken = asyncio.get_running_loop().create_future()
        self._follower = asyncio.create_task(self._streams.follow())
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()

    async def failed(self) -> None:
        """Raises the exception of our own code that an answer ran into; never returns otherwise."""
        if self._broken is None:
            raise RuntimeError("the server has not been started")
        await asyncio.shield(self._broken)

    async def stop(self, sentence: str) -> None:
        """Ends the streams with a last event that carries the sentence, then closes everything."""
        self._streams.finish(sentence)
        if self._follower is not None:
            self._follower.cancel()
            with suppress(asyncio.CancelledError):
                await self._follower
        if self._runner is not None:
            await self._runner.cleanup()

    async def _rules(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        local = request.transport.get_extra_info("sockname") if request.transport is not None else None
        refused = self._guard.refusal(
            request.headers.getall(hdrs.HOST, []),
            request.headers.get(hdrs.AUTHORIZATION),
            local[0] if isinstance(local, tuple) else None,
        )
        if refused is not None:
            response = _answer(failure(refused.sentence), status=refused.status)
            if refused.status == 401:
                response.headers[hdrs.WWW_AUTHENTICATE] = 'Bearer realm="ddwatch"'
            response.force_close()
            return response
        if request.body_exists:
            response = _answer(failure("a request to this server carries no body"), status=413)
            response.force_close()
            return response
        try:
            return await handler(request)
        except BadRequest as bad:
            return _answer(failure(str(bad)), status=400)
        except web.HTTPMethodNotAllowed as wrong:
            response = _answer(failure("this server is read-only: GET and HEAD"), status=405)
            response.headers[hdrs.ALLOW] = wrong.headers[hdrs.ALLOW]
            return response
        except web.HTTPNotFound:
            known = "/metrics /healthz /readyz /v1/snapshot /v1/history /v1/stream"
            return _answer(failure(f"there is nothing at this path; there are {known}"), status=404)
        except Exception as ours:
            if self._broken is not None and not self._broken.done():
                self._broken.set_exception(ours)
            raise

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        page = self._page.page(request.headers.get(hdrs.ACCEPT, ""))
        return _packed(request, _answer(page.body, page.content_type), page.body)

    async def _healthz(self, _request: web.Request) -> web.StreamResponse:
        return _answer(health("alive"))

    async def _readyz(self, _request: web.Request) -> web.StreamResponse:
        sentence = unready(self._supply.latest())
        return _answer(health("ready")) if sentence is None else _answer(failure(sentence), status=503)

    async def _snapshot(self, request: web.Request) -> web.StreamResponse:
        body = self._documents.snapshot()
        return _packed(request, _answer(body), body)

    async def _history(self, request: web.Request) -> web.StreamResponse:
        since = position(request.query.get("since"), "since")
        packed = takes_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
        response = _answer(await self._documents.history(since, packed=packed))
        response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
        if packed:
            response.headers[hdrs.CONTENT_ENCODING] = "gzip"
        return response

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if "Last-Event-ID" in request.headers:
            since = position(request.headers["Last-Event-ID"], "Last-Event-ID")
        else:
            since = position(request.query.get("since"), "since")
        if self._streams.full:
            return _answer(failure(f"{READERS} readers follow the stream already; close one and try again"), status=503)
        return await self._streams.serve(request, since)
