"""SGLang's /metrics is asked beside its load; a server without it is not in trouble."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from ddwatch_sidecar.sources.metrics import ABSENT_SECONDS, POLL_SECONDS, MetricsEndpoint, Reading

from ddwatch.core.engine import EngineMetrics
from ddwatch.core.records import SourceFault, SourceUp

CAPTURED = Path(__file__).parents[2] / "golden" / "real_sglang" / "ngram-metrics.txt"


class Page:
    """A real server whose page a test may change."""

    def __init__(self) -> None:
        self.body = CAPTURED.read_bytes()
        self.status = 200
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization"))
        assert request.path_qs == "/metrics"
        return web.Response(body=self.body, status=self.status)


def during(page: Page, story: Callable[[MetricsEndpoint], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", page.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        endpoint = MetricsEndpoint(f"http://{host}:{port}", **options)
        try:
            return await story(endpoint)
        finally:
            await endpoint.close()
            await runner.cleanup()

    return asyncio.run(run())


def polled(page: Page, times: int = 1, **options: Any) -> list[list[Reading]]:
    async def story(endpoint: MetricsEndpoint) -> list[list[Reading]]:
        return [await endpoint.poll(float(i)) for i in range(times)]

    found: list[list[Reading]] = during(page, story, **options)
    return found


def test_it_comes_up_once_and_then_reads() -> None:
    page = Page()
    first, second = polled(page, 2, api_key="sk-1")
    assert [type(reading) for reading in first] == [SourceUp, EngineMetrics]
    assert [type(reading) for reading in second] == [EngineMetrics]
    assert page.keys == ["Bearer sk-1"] * 2


def test_a_server_without_metrics_is_waited_for_and_asked_rarely() -> None:
    page = Page()
    page.status = 404

    async def story(endpoint: MetricsEndpoint) -> None:
        (fault,) = await endpoint.poll(0.0)
        assert isinstance(fault, SourceFault)
        assert fault.waiting
        assert "without --enable-metrics" in fault.reason
        assert endpoint.pause_seconds == ABSENT_SECONDS
        assert await endpoint.poll(60.0) == []
        page.status = 200
        assert [type(reading) for reading in await endpoint.poll(120.0)] == [SourceUp, EngineMetrics]
        assert endpoint.pause_seconds == POLL_SECONDS

    during(page, story)


def test_other_trouble_is_a_fault_and_the_port_is_not_called_gone() -> None:
    page = Page()
    page.body = b"<html></html>"
    ((fault,),) = polled(page)
    assert isinstance(fault, SourceFault)
    assert not fault.waiting
    assert "nothing of SGLang" in fault.reason

    async def story() -> list[Reading]:
        endpoint = MetricsEndpoint("http://127.0.0.1:1")
        found = await endpoint.poll(0.0)
        await endpoint.close()
        return found

    (fault,) = asyncio.run(story())
    assert isinstance(fault, SourceFault)
    assert "nothing answers" in fault.reason
    assert not fault.gone


def test_a_long_page_is_read_as_well() -> None:
    page = Page()
    page.body += b"# filler\n" * 40_000
    ((_, reading),) = polled(page)
    assert isinstance(reading, EngineMetrics)
    assert len(reading.ranks) == 1
