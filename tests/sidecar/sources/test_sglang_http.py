"""One way to ask SGLang's port: what is refused says which kind of trouble it is."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from ddwatch_sidecar.sources.sglang_http import Refused, SglangHttp

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def asked(handler: Handler, path: str = "/metrics?x=1", key: str | None = None) -> bytes:
    """The answer of a real server on a free port."""

    async def run() -> bytes:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        http = SglangHttp(f"http://{host}:{port}/", api_key=key)
        try:
            return await http.get(path)
        finally:
            await http.close()
            await runner.cleanup()

    return asyncio.run(run())


def test_a_good_answer_comes_whole_and_the_key_goes_along() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=(request.headers.get("Authorization", "") + request.path_qs).encode() * 100_000)

    assert asked(handler, key="sk-1") == b"Bearer sk-1/metrics?x=1" * 100_000


@pytest.mark.parametrize(("status", "absent"), [(404, True), (401, False), (500, False), (302, False)])
def test_only_what_is_not_there_is_absent(status: int, absent: bool) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status)

    with pytest.raises(Refused) as caught:
        asked(handler)
    assert (caught.value.absent, caught.value.gone, caught.value.broken) == (absent, False, False)
    assert "x=1" not in caught.value.sentence or status == 500


def test_a_port_that_refuses_is_gone() -> None:
    async def run() -> None:
        http = SglangHttp("http://127.0.0.1:1")
        try:
            await http.get("/metrics")
        finally:
            await http.close()

    with pytest.raises(Refused) as caught:
        asyncio.run(run())
    assert caught.value.gone
