"""The event stream: resume, newest state only, bounded readers, a farewell; over real HTTP."""

import asyncio
import json
import resource
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx
import pytest
from ddwatch_sidecar.exports.guard import Guard
from ddwatch_sidecar.exports.http import HttpServer
from ddwatch_sidecar.exports.listen import Address, open_listener, resolve, url_of
from ddwatch_sidecar.exports.stream import READERS

from ddwatch.core import wire
from ddwatch.core.history import EVENTS_KEPT, POINTS_KEPT
from ddwatch.core.snapshot import Frame
from tests.fakes.clock import START
from tests.sidecar.exports.supplied import Events, HandSupply, client, served, snapshot


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


def read(event: dict[str, Any]) -> Frame:
    assert event["event"] == "frame"
    return wire.decode_stream(json.dumps(event["data"]))


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    """Waits for a condition of the outer world, looking again as soon as others have had their turn."""
    deadline = asyncio.get_running_loop().time() + 20
    while True:
        held = condition()
        if held if isinstance(held, bool) else await held:
            return
        assert asyncio.get_running_loop().time() < deadline, "this never came true"
        await asyncio.sleep(0.005)


def three_points() -> HandSupply:
    hand = HandSupply()
    for number in range(3):
        hand.point(START + number)
    hand.publish()
    return hand


def test_the_first_event_brings_the_past_and_the_next_ones_what_is_new() -> None:
    async def story() -> None:
        hand = three_points()
        async with served(hand) as url, client(url) as http, http.stream("GET", "/v1/stream") as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert response.headers["cache-control"] == "no-store"
            events = Events(response)
            first = await events.next()
            assert first["id"] == "3" and [p.seq for p in read(first).history.points] == [1, 2, 3]
            hand.point(START + 3)
            hand.publish()
            second = await events.next()
            assert second["id"] == "4" and [p.seq for p in read(second).history.points] == [4]
            hand.publish(snapshot(4, at=START + 9))
            third = await events.next()
            assert (third["id"], read(third).history.points, read(third).snapshot.at) == ("4", (), START + 9)

    run(story())


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/stream?since=2", {}),
        ("/v1/stream", {"Last-Event-ID": "2"}),
        ("/v1/stream?since=0", {"Last-Event-ID": "2"}),
    ],
)
def test_a_reader_resumes_where_it_was(path: str, headers: dict[str, str]) -> None:
    async def story() -> None:
        async with (
            served(three_points()) as url,
            client(url) as http,
            http.stream("GET", path, headers=headers) as response,
        ):
            assert [p.seq for p in read(await Events(response).next()).history.points] == [3]

    run(story())


def test_a_reader_of_another_life_gets_everything_and_is_told() -> None:
    async def story() -> None:
        async with (
            served(three_points()) as url,
            client(url) as http,
            http.stream("GET", "/v1/stream?since=900") as response,
        ):
            event = await Events(response).next()
            assert event["id"] == "3" and read(event).history.complete is False
            assert len(read(event).history.points) == 3

    run(story())


def test_many_readers_get_the_same_newest_state() -> None:
    async def story() -> None:
        hand = three_points()
        async with served(hand) as url, client(url) as http:

            async def follow() -> list[str]:
                async with http.stream("GET", "/v1/stream") as response:
                    events = Events(response)
                    return [(await events.next())["id"], (await events.next())["id"]]

            readers = [asyncio.create_task(follow()) for _ in range(5)]
            await until(lambda: hand.histories > 0)
            while not all(reader.done() for reader in readers):
                hand.point()
                hand.publish()
                await asyncio.sleep(0.01)
            for reader in readers:
                first, second = await reader
                assert int(second) > int(first) >= 3

    run(story())


def test_one_reader_too_many_is_told_and_a_place_is_free_again_when_one_leaves() -> None:
    async def story() -> None:
        hand = three_points()
        async with served(hand) as url, client(url, limits=httpx.Limits(max_connections=None)) as http:
            open_streams = []
            for _ in range(READERS):
                response = await http.send(http.build_request("GET", "/v1/stream"), stream=True)
                assert response.status_code == 200
                open_streams.append(response)
            refused = await http.get("/v1/stream")
            assert refused.status_code == 503
            assert refused.json() == {
                "schema": "ddwatch.error/1",
                "error": f"{READERS} readers follow the stream already; close one and try again",
            }
            await open_streams.pop().aclose()

            async def free() -> bool:
                hand.publish()
                async with http.stream("GET", "/v1/stream") as response:
                    return response.status_code == 200

            await until(free)
            for response in open_streams:
                await response.aclose()

    run(story())


def stopped_reader(url: str) -> socket.socket:
    """A reader that asks for the stream and then never reads."""
    host, port = url.removeprefix("http://").split(":")
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((host, int(port)))
    reader.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader


def test_readers_that_stop_reading_cost_no_memory_and_hold_up_nobody() -> None:
    async def story() -> None:
        hand = HandSupply()
        for number in range(POINTS_KEPT):
            hand.point(START + number)
        for number in range(EVENTS_KEPT):
            hand.ring.add_event(START + number, "restart", "notice", f"restart {number}")
        hand.publish()
        async with served(hand) as url, client(url) as http:
            async with http.stream("GET", "/v1/stream") as response:
                await Events(response).next()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            stopped = [stopped_reader(url) for _ in range(20)]
            async with http.stream("GET", f"/v1/stream?since={hand.ring.seq}") as response:
                events = Events(response)
                await events.next()
                for _ in range(200):
                    hand.point()
                    hand.publish()
                    await events.next()
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for reader in stopped:
                reader.close()

        # 20 readers x 200 frames, and a first frame of 3 MB each: far more than this if anything were queued.
        assert (after - before) / 1024 < 40

    run(story())


def test_a_slow_reader_gets_no_queue_and_finds_the_newest_state_when_it_reads_again() -> None:
    async def publish(hand: HandSupply, times: int) -> None:
        for _ in range(times):
            hand.point()
            hand.publish()
            # One turn for the follower, one for the reader, one for the encoding, one for the write.
            for _ in range(4):
                await asyncio.sleep(0)

    async def story() -> None:
        hand = HandSupply()
        async with served(hand) as url:
            slow = await asyncio.to_thread(stopped_reader, url)
            await until(lambda: hand.histories > 0)
            taken = -1
            while taken != hand.histories:
                taken = hand.histories
                await publish(hand, 500)
            await publish(hand, 1000)
            assert hand.histories == taken
            newest = f"id: {hand.ring.seq}\n".encode()
            slow.settimeout(20)

            def drain() -> list[int]:
                received = b""
                while newest not in received:
                    received += slow.recv(65536)
                return [int(line[4:]) for line in received.split(b"\n") if line.startswith(b"id: ")]

            draining = asyncio.create_task(asyncio.to_thread(drain))
            while not draining.done():
                hand.publish()
                await asyncio.sleep(0.01)
            ids = await draining
            assert ids[-1] == hand.ring.seq and ids[-1] - ids[-2] >= 1000
            slow.close()

    run(story())


def test_streams_end_with_a_farewell() -> None:
    async def story() -> None:
        hand = three_points()
        address = Address("127.0.0.1", 0)
        listener = open_listener(address, resolve(address))
        server = HttpServer(hand.supply(), Guard())
        await server.start(listener)
        async with client(url_of(listener)) as http, http.stream("GET", "/v1/stream") as response:
            events = Events(response)
            await events.next()
            stopping = asyncio.create_task(server.stop("the sidecar was told to stop"))
            last = await events.next()
            assert last == {
                "event": "end",
                "data": {"schema": "ddwatch.error/1", "error": "the sidecar was told to stop"},
            }
            assert await events.next() == {}
            await stopping

    run(story())


def test_a_stopped_reader_does_not_hold_up_the_end() -> None:
    async def story() -> None:
        hand = HandSupply()
        for number in range(POINTS_KEPT):
            hand.point(START + number)
        hand.publish()
        async with served(hand) as url:
            reader = await asyncio.to_thread(stopped_reader, url)
            await until(lambda: hand.histories > 0)
        reader.close()

    asyncio.run(asyncio.wait_for(story(), 5))
