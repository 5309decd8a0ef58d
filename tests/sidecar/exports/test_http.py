"""The server over real HTTP: every answer is guarded, read-only, bounded and in its schema."""

import asyncio
import gzip
import socket
from collections.abc import Awaitable, Callable

import httpx
import pytest
from ddwatch_sidecar.exports.guard import Guard
from ddwatch_sidecar.exports.http import HttpServer, position, takes_gzip
from ddwatch_sidecar.exports.listen import Address, open_listener, resolve, url_of

from ddwatch.core import wire
from ddwatch.core.history import POINTS_KEPT
from ddwatch.core.snapshot import SourceView
from tests.fakes.clock import START
from tests.sidecar.exports.supplied import HandSupply, client, full_snapshot, full_tallies, served, snapshot

PATHS = ("/metrics", "/healthz", "/readyz", "/v1/snapshot", "/v1/history", "/v1/stream")
TOKEN = "a-token-of-good-length"


def full() -> HandSupply:
    hand = HandSupply(counts=full_tallies())
    for number in range(5):
        hand.point(START + number)
    hand.shown = full_snapshot(5)
    return hand


def ask(
    story: Callable[[httpx.AsyncClient], Awaitable[None]], hand: HandSupply | None = None, guard: Guard | None = None
) -> None:
    async def run() -> None:
        async with served(full() if hand is None else hand, guard) as url, client(url) as http:
            await story(http)

    asyncio.run(asyncio.wait_for(run(), 30))


def sentence(response: httpx.Response) -> str:
    """The sentence of an error document; fails on anything else."""
    document = response.json()
    assert response.headers["content-type"] == "application/json"
    assert set(document) == {"schema", "error"} and document["schema"] == "ddwatch.error/1"
    assert isinstance(document["error"], str) and "\n" not in document["error"]
    text: str = document["error"]
    return text


def raw(url: str, request: bytes) -> bytes:
    """Sends bytes and reads until the server closes."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


def test_the_documents_are_those_of_the_wire() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        assert wire.decode_snapshot((await http.get("/v1/snapshot")).content) == full_snapshot(5)
        history, seq = wire.decode_history((await http.get("/v1/history?since=2")).content)
        assert ([point.seq for point in history.points], seq, history.complete) == ([3, 4, 5], 5, True)
        assert (await http.get("/v1/history")).json()["points"][0]["seq"] == 1

    ask(story)


def test_metrics_speak_the_dialect_that_is_asked_for() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        plain = await http.get("/metrics")
        modern = await http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'ddwatch_running_requests{dp_rank="0"} 2.0\n' in plain.text
        assert modern.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert modern.text.endswith("# EOF\n")

    ask(story)


def test_alive_is_not_ready() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        assert (await http.get("/healthz")).status_code == 200
        waiting = await http.get("/readyz")
        assert waiting.status_code == 503
        assert sentence(waiting) == "no source has delivered anything yet (log: there is no file (yet))"

    hand = HandSupply(snapshot(sources=(SourceView(name="log", state="waiting", detail="there is no file (yet)"),)))
    ask(story, hand)


def test_ready_once_a_source_has_delivered() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        assert (await http.get("/readyz")).json() == {"schema": "ddwatch.health/1", "state": "ready"}

    ask(story)


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_a_body(path: str) -> None:
    async def story(http: httpx.AsyncClient) -> None:
        response = await http.head(path)
        assert (response.status_code, response.content) == (200, b"")

    ask(story)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(path: str, method: str) -> None:
    async def story(http: httpx.AsyncClient) -> None:
        response = await http.request(method, path)
        assert response.status_code == 405 and set(response.headers["allow"].split(",")) == {"GET", "HEAD"}
        assert sentence(response) == "this server is read-only: GET and HEAD"

    ask(story)


def test_an_unknown_path_says_what_there_is() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        for path in ("/", "/v1", "/v2/snapshot", "/metrics/", "/%2e%2e/etc/passwd"):
            response = await http.get(path)
            assert response.status_code == 404 and "/v1/snapshot" in sentence(response), path

    ask(story)


@pytest.mark.parametrize("path", [*PATHS[:5], "/nothing"])
def test_every_answer_carries_the_safe_headers(path: str) -> None:
    async def story(http: httpx.AsyncClient) -> None:
        headers = (await http.get(path, headers={"Origin": "http://evil.example"})).headers
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
        assert headers["server"] == "ddwatch"
        assert not [name for name in headers if name.startswith("access-control-")]

    ask(story)


@pytest.mark.parametrize("since", ["-1", "x", "1.5", "", "1e3", "9" * 30, "٣"])
def test_a_position_that_is_none_is_refused(since: str) -> None:
    async def story(http: httpx.AsyncClient) -> None:
        for path in ("/v1/history", "/v1/stream"):
            response = await http.get(path, params={"since": since})
            assert response.status_code == 400
            assert sentence(response) == "since must be a sequence number: a whole number from 0 up"
        response = await http.get("/v1/stream", headers=[(b"Last-Event-ID", since.encode())])
        assert response.status_code == 400

    ask(story)


def test_a_position_is_a_whole_number() -> None:
    assert [position(text, "since") for text in (None, "0", "17")] == [0, 0, 17]


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("br, identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.01", True),
        ("", False),
    ],
)
def test_gzip_only_for_those_who_take_it(header: str, takes: bool) -> None:
    assert takes_gzip(header) is takes


def test_a_long_history_is_packed_to_a_fraction() -> None:
    hand = HandSupply()
    for number in range(POINTS_KEPT):
        hand.point(START + number)
    hand.publish()

    async def story(http: httpx.AsyncClient) -> None:
        async with http.stream("GET", "/v1/history", headers={"Accept-Encoding": "gzip"}) as response:
            packed = b"".join([part async for part in response.aiter_raw()])
        plain = (await http.get("/v1/history", headers={"Accept-Encoding": "identity"})).content
        assert gzip.decompress(packed) == plain and len(packed) * 8 < len(plain)
        assert response.headers["content-encoding"] == "gzip" and response.headers["vary"] == "Accept-Encoding"

    ask(story, hand)


@pytest.mark.parametrize("path", [*PATHS, "/nothing"])
def test_a_rebound_host_gets_nothing(path: str) -> None:
    async def story(http: httpx.AsyncClient) -> None:
        response = await http.get(path, headers={"Host": "evil.example:9477"})
        assert response.status_code == 403
        assert "--allow-host" in sentence(response)

    ask(story)


def test_an_allowed_host_is_answered() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        assert (await http.get("/healthz", headers={"Host": "gpu-3.lab"})).status_code == 200

    ask(story, guard=Guard(hosts=["gpu-3.lab"]))


@pytest.mark.parametrize("path", [*PATHS, "/nothing"])
def test_without_the_token_nothing_is_told(path: str) -> None:
    async def story(http: httpx.AsyncClient) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            response = await http.get(path, headers=headers)
            assert response.status_code == 401 and TOKEN not in response.text
            assert response.headers["www-authenticate"] == 'Bearer realm="ddwatch"'
            sentence(response)
        response = await http.get(path, params={"token": TOKEN})
        assert response.status_code == 401

    ask(story, guard=Guard(token=TOKEN))


def test_with_the_token_everything_is() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        for path in PATHS[:5]:
            assert (await http.get(path, headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200

    ask(story, guard=Guard(token=TOKEN))


def test_a_request_with_a_body_is_refused_unread() -> None:
    async def story(http: httpx.AsyncClient) -> None:
        response = await http.request("GET", "/v1/snapshot", content=b"x" * 100_000)
        assert response.status_code == 413
        assert sentence(response) == "a request to this server carries no body"

    ask(story)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /healthz?" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: local host\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"BREW /coffee HTTP/9.9\r\nHost: localhost\r\n\r\n",
    ],
    ids=["no host", "two hosts", "long line", "long header", "many headers", "bad host", "tls", "nonsense"],
)
def test_a_malformed_or_oversized_request_is_refused_quietly(
    request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        async with served(full()) as url:
            answer = await asyncio.to_thread(raw, url, request_bytes)
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")) and b"Traceback" not in answer
            async with client(url) as http:
                assert (await http.get("/healthz")).status_code == 200

    asyncio.run(asyncio.wait_for(run(), 30))
    assert capfd.readouterr() == ("", "")


def test_a_failure_of_our_own_code_ends_the_wait_for_it() -> None:
    class Broken(HandSupply):
        def latest(self) -> "object":  # type: ignore[override]
            raise ZeroDivisionError("ours")

    async def run() -> None:
        address = Address("127.0.0.1", 0)
        listener = open_listener(address, resolve(address))
        server = HttpServer(Broken().supply(), Guard())
        await server.start(listener)
        failed = asyncio.create_task(server.failed())
        async with client(url_of(listener)) as http:
            assert (await http.get("/v1/snapshot")).status_code == 500
        with pytest.raises(ZeroDivisionError):
            await failed
        await server.stop("over")

    asyncio.run(asyncio.wait_for(run(), 30))
