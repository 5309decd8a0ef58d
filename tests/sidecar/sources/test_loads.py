"""SGLang's port is asked sparingly, believed only when it is SGLang, and each trouble is one sentence."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from ddwatch_sidecar.sources.loads import ABSENT_SECONDS, GONE_SECONDS, POLL_SECONDS, LoadsEndpoint, Reading

from ddwatch.core.records import Loads, ServerInfo, SourceFault, SourceUp

CAPTURED = Path(__file__).parents[2] / "golden" / "real_sglang"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Service:
    """A real HTTP server whose answers a test may change."""

    def __init__(self) -> None:
        self.loads: bytes = (CAPTURED / "ngram-v1_loads.json").read_bytes()
        self.info: bytes = (CAPTURED / "ngram-server_info.json").read_bytes()
        self.status = 200
        self.info_status = 200
        self.info_path = "/server_info"
        self.hang = False
        self.location: str | None = None
        self.asked: list[str] = []
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        self.keys.append(request.headers.get("Authorization"))
        if self.hang:
            await asyncio.Event().wait()
        if self.location is not None:
            raise web.HTTPFound(self.location)
        if request.path == "/v1/loads":
            return web.Response(body=self.loads, status=self.status)
        if request.path == self.info_path:
            return web.Response(body=self.info, status=self.info_status)
        return web.Response(status=404)


def during(service: Service, story: Callable[[LoadsEndpoint, str], Awaitable[Any]], **options: Any) -> Any:
    """Runs a story against a real server on a free port."""

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", service.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        url = f"http://{host}:{port}"
        endpoint = LoadsEndpoint(url, **options)
        try:
            return await story(endpoint, url)
        finally:
            await endpoint.close()
            await runner.cleanup()

    return asyncio.run(run())


def polled(service: Service, times: int = 1, **options: Any) -> list[list[Reading]]:
    async def story(endpoint: LoadsEndpoint, url: str) -> list[list[Reading]]:
        return [await endpoint.poll(float(i)) for i in range(times)]

    result: list[list[Reading]] = during(service, story, **options)
    return result


def fault(service: Service, **options: Any) -> str:
    ((found,),) = polled(service, **options)
    assert isinstance(found, SourceFault)
    assert "\n" not in found.reason
    return found.reason


def test_the_first_poll_gives_the_setup_and_the_loads_and_the_next_only_the_loads() -> None:
    service = Service()
    first, second = polled(service, 2)
    assert [type(reading) for reading in first] == [SourceUp, ServerInfo, Loads]
    assert [type(reading) for reading in second] == [Loads]
    assert service.asked == ["/v1/loads?include=all", "/server_info", "/v1/loads?include=all"]
    info = first[1]
    assert isinstance(info, ServerInfo)
    assert info.version == "0.5.23"
    assert info.arguments["speculative_algorithm"] == "NGRAM"
    assert "api_key" not in info.arguments


def test_secrets_of_the_server_stay_there() -> None:
    service = Service()
    service.info = json.dumps({"version": "1", "api_key": "sk-very-secret", "tp_size": 8}).encode()
    info = polled(service, digest_key=b"k" * 16)[0][1]
    assert isinstance(info, ServerInfo)
    assert info.arguments == {"tp_size": 8}
    assert list(info.withheld) == ["api_key"]
    assert "secret" not in repr(info)


def test_the_key_is_sent_as_a_bearer_token() -> None:
    service = Service()
    polled(service, api_key="sk-1")
    assert service.keys == ["Bearer sk-1", "Bearer sk-1"]


def test_a_restart_makes_it_read_the_setup_again() -> None:
    service = Service()

    async def story(endpoint: LoadsEndpoint, url: str) -> list[type]:
        await endpoint.poll(0.0)
        document = json.loads(service.loads)
        document["loads"][0]["decode_moments"] = [1, 1, 1, 1, 1, 1]
        service.loads = json.dumps(document).encode()
        return [type(reading) for reading in await endpoint.poll(2.0)]

    assert during(service, story) == [ServerInfo, Loads]


def test_an_older_release_names_its_setup_elsewhere() -> None:
    service = Service()
    service.info_path = "/get_server_info"
    assert [type(reading) for reading in polled(service)[0]] == [SourceUp, ServerInfo, Loads]
    none = Service()
    none.info_path = "/nowhere"
    assert [type(reading) for reading in polled(none)[0]] == [SourceUp, Loads]


def test_a_setup_that_cannot_be_read_does_not_cost_the_loads() -> None:
    service = Service()
    service.info = b"<html>"
    assert [type(reading) for reading in polled(service)[0]] == [SourceUp, Loads]
    service.info_status = 500
    assert [type(reading) for reading in polled(service)[0]] == [SourceUp, Loads]


def test_a_release_without_moments_says_where_step_times_come_from() -> None:
    service = Service()
    service.loads = b'{"loads": [{"dp_rank": 0, "num_running_reqs": 1}]}'
    up = polled(service)[0][0]
    assert isinstance(up, SourceUp)
    assert "0.5.18" in up.detail


def test_a_fresh_server_that_begins_to_count_is_no_longer_said_to_have_no_moments() -> None:
    service = Service()
    counted, service.loads = service.loads, b'{"loads": [{"dp_rank": 0, "num_running_reqs": 0}]}'

    async def story(endpoint: LoadsEndpoint, _url: str) -> list[list[Reading]]:
        first = await endpoint.poll(0.0)
        service.loads = counted
        return [first, await endpoint.poll(2.0), await endpoint.poll(4.0)]

    told = [[r.detail for r in found if isinstance(r, SourceUp)] for found in during(service, story)]
    assert "no decode moments" in told[0][0]
    assert told[1:] == [[""], []]


@pytest.mark.parametrize(
    ("status", "said"),
    [(404, "no /v1/loads"), (401, "--sglang-key-file"), (403, "--sglang-key-file"), (503, "status 503")],
)
def test_a_refusal_is_one_sentence(status: int, said: str) -> None:
    service = Service()
    service.status = status
    assert said in fault(service)


def test_html_from_a_proxy_is_not_believed() -> None:
    service = Service()
    service.loads = b"<html><body>Welcome to nginx</body></html>"
    assert "not JSON" in fault(service)


def test_an_endless_body_is_cut_off() -> None:
    service = Service()
    service.loads = b" " * (5 * 1024 * 1024)
    assert "more than 4 MiB" in fault(service)


def test_a_redirect_is_not_followed() -> None:
    service = Service()
    service.location = "http://127.0.0.1:1/elsewhere"
    assert "redirects" in fault(service)
    assert len(service.asked) == 1


def test_a_server_that_hangs_is_told_from_one_that_is_gone() -> None:
    service = Service()
    service.hang = True
    assert "does not answer within 0.2 s" in fault(service, timeout_seconds=0.2)


def test_nothing_listens_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def story() -> list[Reading]:
        endpoint = LoadsEndpoint(f"http://127.0.0.1:{port}/")
        found = await endpoint.poll(0.0)
        assert await endpoint.poll(1.0) == []
        assert endpoint.pause_seconds == GONE_SECONDS
        await endpoint.close()
        return found

    (found,) = asyncio.run(story())
    assert isinstance(found, SourceFault)
    assert "nothing answers" in found.reason
    assert found.gone


def test_it_is_asked_at_a_pace_that_fits_what_it_said() -> None:
    service = Service()

    async def story(endpoint: LoadsEndpoint, url: str) -> None:
        await endpoint.poll(0.0)
        assert endpoint.pause_seconds == POLL_SECONDS
        service.status = 404
        (lost,) = await endpoint.poll(1.0)
        assert isinstance(lost, SourceFault)
        assert endpoint.pause_seconds == ABSENT_SECONDS
        service.status = 200
        assert isinstance((await endpoint.poll(2.0))[0], SourceUp)

    during(service, story)


def test_a_server_that_speaks_no_http_is_one_sentence() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    async def story() -> list[Reading]:
        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        endpoint = LoadsEndpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        found = await endpoint.poll(0.0)
        await endpoint.close()
        server.close()
        await server.wait_closed()
        return found

    (found,) = asyncio.run(story())
    assert isinstance(found, SourceFault)
    assert "is this SGLang's port?" in found.reason
