"""The simulated service's port: SGLang's HTTP on loopback, answered from the state of the running simulation."""

import asyncio
import hmac
import json
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import count
from random import Random
from typing import Any

from aiohttp import web

from ddwatch.demo import answers
from ddwatch.demo.answers import ChatAnswer, Progress
from ddwatch.demo.asking import Asked, BadRequest, PrefixCache, read_chat, read_generate
from ddwatch.demo.physics import PREDICTABLE
from ddwatch.demo.requests import Request
from ddwatch.demo.stage import Stage

LARGEST_BODY = 16 * 1024 * 1024
OPEN_SECONDS = 10.0
CONTEXT = 262144
OPEN_PATHS = ("/health", "/metrics")
"""Answered without the key, as SGLang does."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Heard = tuple[float, int | None, int]


class Port:
    """Listens while the service serves; every request that generates goes through the simulated engine."""

    def __init__(self, stage: Stage, number: int, key: str | None = None) -> None:
        """Reserves the port; raises OSError when it is taken."""
        self._stage = stage
        self._key = key
        # Bound and never listening: the number stays ours while the service is down, and connections are refused.
        self._reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._reserved.bind(("127.0.0.1", number))
        except OSError:
            self._reserved.close()
            raise
        self.number: int = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.number}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._cache = PrefixCache()
        self._names = Random(self.number)
        self._numbers = count()
        self._open: dict[int, asyncio.Transport] = {}

    def __enter__(self) -> "Port":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.serve(False)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(OPEN_SECONDS)
        self._reserved.close()

    def serve(self, serving: bool) -> None:
        """Opens or closes the port and returns when that is done; called from another thread."""
        change = self._begin() if serving else self._end()
        asyncio.run_coroutine_threadsafe(change, self._loop).result(OPEN_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _begin(self) -> None:
        if self._runner is None:
            app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._guard])
            for path, handler in self._pages().items():
                app.router.add_get(path, handler)
            app.router.add_post("/generate", self._generate)
            app.router.add_post("/v1/chat/completions", self._chat)
            self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
            await self._runner.setup()
        if self._site is None:
            self._cache.clear()
            self._site = web.TCPSite(self._runner, "127.0.0.1", self.number, reuse_address=True)
            await self._site.start()

    async def _end(self) -> None:
        if self._site is None or self._runner is None:
            return
        for transport in [*self._open.values()]:
            transport.abort()
        runner, self._runner, self._site = self._runner, None, None
        await runner.cleanup()

    def _pages(self) -> dict[str, Handler]:
        stage = self._stage

        def page(document: Callable[[], Any]) -> Handler:
            async def handler(_: web.Request) -> web.Response:
                return web.json_response(document())

            return handler

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(text=answers.metrics(stage.view.loads, stage.view.arguments))

        async def info(_: web.Request) -> web.Response:
            # SGLang's arguments hold numbers that JSON does not know (inf); it prints them as Python does.
            return web.Response(
                text=json.dumps(answers.server_info(stage.view.arguments, stage.view.loads)),
                content_type="application/json",
            )

        return {
            "/v1/loads": page(lambda: answers.loads(stage.view.loads, stage.now())),
            "/server_info": info,
            "/get_server_info": info,
            "/model_info": page(lambda: answers.model_info(stage.view.arguments)),
            "/get_model_info": page(lambda: answers.model_info(stage.view.arguments)),
            "/v1/models": page(lambda: answers.models(stage.view.arguments, stage.now())),
            "/metrics": metrics,
            "/health": self._health,
            "/health_generate": self._health,
        }

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.transport is not None:
            self._open[id(request)] = request.transport
        try:
            answer = await self._answered(request, handler)
        finally:
            self._open.pop(id(request), None)
        if not answer.prepared:
            self._note(request, answer.status)
        return answer

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        wanted = f"Bearer {self._key}"
        given = request.headers.get("Authorization", "")
        closed = self._key is not None and not request.path.startswith(OPEN_PATHS)
        if closed and not hmac.compare_digest(given.encode(), wanted.encode()):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except BadRequest as bad:
            return web.json_response({"object": "error", "message": str(bad), "code": 400}, status=400)
        except (ValueError, RecursionError):
            return web.json_response({"object": "error", "message": "The body is not JSON.", "code": 400}, status=400)
        except web.HTTPException as refused:
            return web.json_response({"detail": refused.reason}, status=refused.status)

    def _note(self, request: web.Request, status: int) -> None:
        peer = request.transport.get_extra_info("peername") if request.transport is not None else None
        client = f"{peer[0]}:{peer[1]}" if peer else "127.0.0.1:0"
        self._stage.note(client, f"{request.method} {request.path_qs}", f"{status} {HTTPStatus(status).phrase}")

    def _limit(self) -> int:
        told = self._stage.view.arguments.get("context_length")
        return told if isinstance(told, int) else CONTEXT

    @asynccontextmanager
    async def _running(self, asked: Asked) -> AsyncIterator[tuple[Progress, "asyncio.Queue[Heard]"]]:
        """Hands a request to the engine; when the client leaves, the engine drops it."""
        heard: asyncio.Queue[Heard] = asyncio.Queue()

        def told(at: float, committed: int | None, output: int) -> None:
            def deliver() -> None:
                self._loop.call_soon_threadsafe(heard.put_nowait, (at, committed, output))

            self._stage.tell(deliver)

        cached = self._cache.cached(asked.prompt)
        request = Request(
            prompt_tokens=len(asked.prompt),
            cached_tokens=cached,
            completion_tokens=asked.completion_tokens,
            text=asked.text,
            user=0,
            port=0,
            told=told,
        )
        progress = Progress(f"{self._names.getrandbits(128):032x}", asked, cached, self._stage.now())
        if not self._stage.ask(request):
            raise web.HTTPServiceUnavailable(reason="The request queue is full.")
        self._stage.listening += 1
        try:
            yield progress, heard
        finally:
            self._stage.listening -= 1
            request.withdrawn = not progress.finished

    async def _health(self, _: web.Request) -> web.Response:
        asked = Asked(prompt=(f"health {next(self._numbers)}",), completion_tokens=1, ended=False, text=PREDICTABLE)
        async with self._running(asked) as (progress, heard):
            while not progress.finished:
                progress.hear(*await heard.get())
        return web.Response()

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        asked = read_generate(await self._body(request), self._limit())
        async with self._running(asked) as (progress, heard):
            if not asked.stream:
                while not progress.finished:
                    progress.hear(*await heard.get())
                return web.json_response({"text": progress.text(), "meta_info": progress.meta()})
            answer = await self._streaming(request)
            while not progress.finished:
                progress.hear(*await heard.get())
                await self._send(answer, {"text": progress.text(), "meta_info": progress.meta()})
            await answer.write(b"data: [DONE]\n\n")
            return answer

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = read_chat(await self._body(request), self._limit())
        async with self._running(asked) as (progress, heard):
            told = ChatAnswer(progress, self._stage.view.arguments, int(self._stage.now()))
            if not asked.stream:
                while not progress.finished:
                    progress.hear(*await heard.get())
                return web.json_response(told.whole())
            answer = await self._streaming(request)
            await self._send(answer, told.chunk({"role": "assistant", "content": ""}))
            while not progress.finished:
                progress.hear(*await heard.get())
                for piece in told.pieces():
                    await self._send(answer, told.chunk(piece))
            await self._send(answer, told.chunk({}, told.finish))
            if asked.include_usage:
                await self._send(answer, told.last_chunk())
            await answer.write(b"data: [DONE]\n\n")
            return answer

    @staticmethod
    async def _body(request: web.Request) -> dict[str, Any]:
        body = await request.json()
        if not isinstance(body, dict):
            raise BadRequest("The body is not a JSON object.")
        return body

    async def _streaming(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        self._note(request, 200)
        await answer.prepare(request)
        return answer

    @staticmethod
    async def _send(answer: web.StreamResponse, document: dict[str, Any]) -> None:
        await answer.write(b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n")
