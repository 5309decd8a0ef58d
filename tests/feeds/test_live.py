"""The live feed follows a sidecar through everything that a network and a restart do, and says each in one sentence."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from ddwatch.feeds.live import LiveFeed, Refused, events_of
from tests.fakes.sidecar_http import FakeSidecar, event, farewell, plain, small_frame

QUICK = (0.01, 0.02)


def taken(feed: LiveFeed, count: int) -> list[Frame | SourceFault]:
    """The first items of a feed, which is closed then."""
    found = []
    for item in feed.frames():
        found.append(item)
        if len(found) == count:
            feed.close()
    return found


def points(item: Frame | SourceFault) -> list[int]:
    assert isinstance(item, Frame), item
    return [point.seq for point in item.history.points]


def reason(item: Frame | SourceFault) -> str:
    assert isinstance(item, SourceFault), item
    assert "\n" not in item.reason
    assert item.source == "sidecar"
    return item.reason


def first_fault(url: str, token: str | None = None) -> str:
    return reason(taken(LiveFeed(url, token, retries=QUICK), 1)[0])


def test_frames_carry_the_whole_history_that_was_streamed() -> None:
    with FakeSidecar() as sidecar:
        sidecar.serve(
            [sidecar.stream(*(event(frame) for frame in (small_frame(3, first=1), small_frame(4), small_frame(5))))]
        )
        items = taken(LiveFeed(sidecar.url, retries=QUICK), 3)
    assert [points(item) for item in items] == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert sidecar.asked[0]["last-event-id"] == "0"
    assert sidecar.asked[0]["accept"] == "text/event-stream"


def test_after_a_break_it_resumes_where_it_was_and_loses_nothing() -> None:
    with FakeSidecar() as sidecar:
        sidecar.serve(
            [sidecar.stream(event(small_frame(3, first=1)), hold=False), sidecar.stream(event(small_frame(5, first=4)))]
        )
        items = taken(LiveFeed(sidecar.url, retries=QUICK), 3)
    assert "has ended its stream; trying again" in reason(items[1])
    assert points(items[2]) == [1, 2, 3, 4, 5]
    assert sidecar.asked[1]["last-event-id"] == "3"


def test_a_restarted_sidecar_starts_the_history_anew() -> None:
    with FakeSidecar() as sidecar:
        # A sidecar that counts from 1 again sends all that it has, and says that it does not join on.
        again = small_frame(2, first=1, started_at=900.0, complete=False)
        sidecar.serve([sidecar.stream(event(small_frame(7, first=5)), hold=False), sidecar.stream(event(again))])
        items = taken(LiveFeed(sidecar.url, retries=QUICK), 3)
    assert points(items[2]) == [1, 2]


def test_a_restarted_sidecar_that_is_ahead_already_is_asked_for_everything() -> None:
    with FakeSidecar() as sidecar:
        ahead = small_frame(50, first=8, started_at=900.0)
        everything = small_frame(50, first=1, started_at=900.0)
        sidecar.serve(
            [
                sidecar.stream(event(small_frame(7, first=5)), hold=False),
                sidecar.stream(event(ahead)),
                sidecar.stream(event(everything)),
            ]
        )
        items = taken(LiveFeed(sidecar.url, retries=QUICK), 3)
    assert points(items[2]) == list(range(1, 51))
    assert [asked["last-event-id"] for asked in sidecar.asked] == ["0", "7", "0"]


def test_a_heartbeat_repeats_the_last_frame_as_a_sign_of_life() -> None:
    with FakeSidecar() as sidecar:
        sidecar.serve([sidecar.stream(b": nothing new\n\n", event(small_frame(3)), b": nothing new\n\n")])
        items = taken(LiveFeed(sidecar.url, retries=QUICK), 2)
    assert items[0] is items[1]


def test_a_sidecar_that_stops_says_why() -> None:
    with FakeSidecar() as sidecar:
        sidecar.serve([sidecar.stream(event(small_frame(3)), farewell("the sidecar was told to stop"), hold=False)])
        items = taken(LiveFeed(sidecar.url, retries=QUICK), 2)
    assert "the sidecar was told to stop" in reason(items[1])


def test_the_token_is_sent_and_a_wrong_one_is_named() -> None:
    with FakeSidecar(plain(401, "application/json", b"{}")) as sidecar:
        assert "it asks for a token" in first_fault(sidecar.url, "wrong")
    assert sidecar.asked[0]["authorization"] == "Bearer wrong"


@pytest.mark.parametrize(
    ("status", "kind", "body", "words"),
    [
        (404, "application/json", b"{}", "another server answers there (404"),
        (200, "text/html; charset=utf-8", b"<html></html>", "a web page answers there"),
        (403, "application/json", b"{}", "--allow-host"),
        (503, "application/json", b"{}", "too many readers"),
        (500, "text/plain", b"oops", "it answered 500"),
        (302, "text/plain", b"", "it answered 302"),
    ],
)
def test_other_servers_are_told_apart(status: int, kind: str, body: bytes, words: str) -> None:
    with FakeSidecar(plain(status, kind, body)) as sidecar:
        assert words in first_fault(sidecar.url)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"schema":"ddwatch.stream/9"}', "the sidecar speaks ddwatch.stream/9, this ddwatch reads ddwatch.stream/1"),
        (b"no json", "the answer is not JSON"),
        (b'{"schema":"ddwatch.stream/1"}', "cannot read"),
    ],
)
def test_another_version_is_refused_by_name(data: bytes, words: str) -> None:
    with FakeSidecar() as sidecar:
        sidecar.serve([sidecar.stream(b"event: frame\ndata: %b\n\n" % data)])
        assert words in first_fault(sidecar.url)


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_port_where_nothing_listens() -> None:
    assert "is not there (connection refused); trying again" in first_fault(f"http://127.0.0.1:{unused_port()}")


def test_a_host_that_does_not_exist() -> None:
    assert "does not resolve" in first_fault("http://ddwatch.invalid:9477")


def test_an_address_that_is_none() -> None:
    assert "is not an address that can be followed" in first_fault("ftp://127.0.0.1/")


@pytest.fixture
def babbler() -> Iterator[str]:
    """A server that speaks something else than HTTP."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def talk() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(5)


def test_a_server_that_does_not_speak_http(babbler: str) -> None:
    assert "does not speak HTTP" in first_fault(babbler)


def test_plain_http_behind_https_is_said(babbler: str) -> None:
    assert "trying again" in first_fault(babbler.replace("http:", "https:"))


def closing_seconds(feed: LiveFeed, started: threading.Event) -> float:
    """How long a thread that follows the feed lives on after `close`."""

    def follow() -> None:
        for _ in feed.frames():
            started.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert started.wait(5)
    begun = time.monotonic()
    feed.close()
    feed.close()
    thread.join(5)
    assert not thread.is_alive()
    return time.monotonic() - begun


def test_closing_ends_a_waiting_stream_at_once() -> None:
    with FakeSidecar() as sidecar:
        sidecar.serve([sidecar.stream(event(small_frame(3)))])
        assert closing_seconds(LiveFeed(sidecar.url), threading.Event()) < 1.0


def test_closing_ends_the_pause_before_another_attempt_at_once() -> None:
    feed = LiveFeed(f"http://127.0.0.1:{unused_port()}", retries=(60.0,))
    assert closing_seconds(feed, threading.Event()) < 1.0


def test_a_feed_that_was_closed_before_it_began_yields_nothing() -> None:
    feed = LiveFeed("http://127.0.0.1:1")
    feed.close()
    assert list(feed.frames()) == []


def parsed(*lines: str, longest: int = 1000) -> list[str | None]:
    async def source() -> AsyncIterator[str]:
        for line in lines:
            yield line

    async def collect() -> list[str | None]:
        return [item async for item in events_of(source(), longest)]

    return asyncio.run(collect())


def test_events_are_read_as_the_standard_says() -> None:
    assert parsed("event: frame", "data: a", "data:b", "", "event: other", "data: c", "", "data: d", "") == ["a\nb"]
    assert parsed("event:frame", "data: cut off") == []
    assert parsed(":", "id: 3", "") == [None]


def test_an_endless_event_is_refused() -> None:
    with pytest.raises(Refused, match="too long"):
        parsed("data: 123456", "data: 123456", longest=10)
