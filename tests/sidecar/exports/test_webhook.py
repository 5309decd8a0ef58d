"""The webhook against real servers: one that answers, hangs, redirects, fails, and one that is not there."""

import asyncio
import socket
from contextlib import closing

import pytest
from aiohttp import web
from ddwatch_sidecar.exports.address import Address, address_of
from ddwatch_sidecar.exports.notify import Failed
from ddwatch_sidecar.exports.webhook import Webhook

SECRET = "T0-a-secret-part-of-the-path"


class Server:
    """A server that keeps what it was sent."""

    def __init__(self, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._status = status
        self._headers = headers or {}
        self.got: list[tuple[str, dict[str, str], bytes]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.got.append((request.path, dict(request.headers), await request.read()))
        return web.Response(status=self._status, headers=self._headers, text="x" * 10_000)


def posted(handler: Server, *, token: str | None = None) -> Failed | None:
    """Posts one document to a real server."""

    async def run() -> Failed | None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        hook = Webhook(Address(f"http://127.0.0.1:{port}/{SECRET}", token), version="1.2.3")
        try:
            return await hook.deliver(b'{"text": "hello"}')
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def test_a_document_is_posted_as_json() -> None:
    server = Server()

    assert posted(server, token="a-token") is None
    ((path, headers, body),) = server.got
    assert (path, body) == (f"/{SECRET}", b'{"text": "hello"}')
    assert headers["Content-Type"] == "application/json" and headers["User-Agent"] == "ddwatch/1.2.3"
    assert headers["Authorization"] == "Bearer a-token"


def test_a_redirect_is_not_followed() -> None:
    server = Server(302, {"Location": "/elsewhere"})
    failed = posted(server)

    assert failed == Failed("answers 302: redirects are not followed", again=False)
    assert [path for path, _, _ in server.got] == [f"/{SECRET}"]


@pytest.mark.parametrize(("status", "again"), [(503, True), (429, True), (404, False), (400, False)])
def test_what_it_answers_decides_whether_it_is_tried_again(status: int, again: bool) -> None:
    assert posted(Server(status)) == Failed(f"answers {status}", again=again)


def test_a_server_that_hangs_is_left() -> None:
    # The system takes the connection and nobody ever answers.
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hook = Webhook(Address(f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}"), timeout_seconds=0.2)
        failed = asyncio.run(hook.deliver(b"{}"))

    assert failed == Failed("no answer within 0.2 s", again=True)


def test_a_refused_connection_is_told_without_the_address() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        failed = asyncio.run(Webhook(Address(f"http://127.0.0.1:{port}/{SECRET}")).deliver(b"{}"))

    assert failed == Failed("cannot be reached (connection refused)", again=True)


def test_a_name_that_is_not_known_is_told_without_it() -> None:
    failed = asyncio.run(Webhook(Address(f"http://lost.invalid/{SECRET}")).deliver(b"{}"))

    assert failed is not None and failed.again
    assert "invalid" not in failed.reason and SECRET not in failed.reason


def test_a_server_that_hangs_up_is_told() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async def run() -> Failed | None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await Webhook(Address(f"http://127.0.0.1:{port}/{SECRET}")).deliver(b"{}")

    failed = asyncio.run(run())
    assert failed is not None and failed.again and SECRET not in failed.reason


class TestAddress:
    def test_a_token_may_stand_in_the_second_line(self) -> None:
        found = address_of(f"https://hooks.example.org/{SECRET}\na-token\n")

        assert (found.url, found.token) == (f"https://hooks.example.org/{SECRET}", "a-token")
        assert SECRET not in repr(found) and "a-token" not in repr(found)

    @pytest.mark.parametrize(
        "words", ["", "hooks", "ftp://a/b", "https://", "https://me:pw@a/b", "https://a:0/", "https://a/b c"]
    )
    def test_anything_else_is_refused_without_showing_it(self, words: str) -> None:
        with pytest.raises(ValueError, match="must hold an address like") as refused:
            address_of(f"{words} {SECRET}" if words else words)
        assert SECRET not in str(refused.value)
