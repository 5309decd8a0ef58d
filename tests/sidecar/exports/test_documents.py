"""Encodings: shared between readers of one position, consistent with the snapshot, bounded."""

import asyncio
import gzip
import json

import pytest
from ddwatch_sidecar.exports.documents import LARGE_HISTORY, Documents, compressed, failure, health, unready, up_to

from ddwatch.core import wire
from ddwatch.core.history import Ring
from ddwatch.core.snapshot import History, SourceView
from tests.fakes.clock import START
from tests.sidecar.exports.supplied import HandSupply, snapshot


def ring(points: int) -> Ring:
    hand = HandSupply()
    for number in range(points):
        hand.point(START + number)
    return hand.ring


def test_readers_of_one_position_share_one_encoding() -> None:
    async def story() -> None:
        hand = HandSupply(ring=ring(3))
        hand.publish()
        documents = Documents(hand.supply())
        frames = await asyncio.gather(*(documents.frame(since) for since in (0, 0, 2, 0)))

        assert frames[0] is frames[1] is frames[3] and frames[2] is not frames[0]
        assert hand.histories == 2

        hand.publish()
        assert await documents.frame(0) is not frames[0]

    asyncio.run(story())


def test_a_reader_that_leaves_does_not_take_the_encoding_with_it() -> None:
    async def story() -> None:
        hand = HandSupply(ring=ring(LARGE_HISTORY + 1))
        hand.publish()
        documents = Documents(hand.supply())
        leaves = asyncio.create_task(documents.frame(0))
        stays = asyncio.create_task(documents.frame(0))
        await asyncio.sleep(0)
        leaves.cancel()

        assert (await stays).seq == LARGE_HISTORY + 1
        assert hand.histories == 1

    asyncio.run(story())


def test_a_frame_is_one_event_that_the_wire_reads_back() -> None:
    async def story() -> None:
        hand = HandSupply(ring=ring(5))
        hand.publish()
        frame = await Documents(hand.supply()).frame(3)
        lines = frame.body.decode().split("\n")

        assert lines[:2] == ["id: 5", "event: frame"] and lines[3:] == ["", ""]
        read = wire.decode_stream(lines[2].removeprefix("data: "))
        assert read.snapshot == hand.shown
        assert [point.seq for point in read.history.points] == [4, 5] and frame.seq == 5

    asyncio.run(story())


def test_what_happened_after_the_snapshot_waits_for_the_next_one() -> None:
    async def story() -> None:
        hand = HandSupply(ring=ring(2))
        hand.publish()
        hand.point(START + 3)
        hand.ring.add_event(START + 3, "restart", "notice", "restarted")
        documents = Documents(hand.supply())
        first = await documents.frame(0)
        hand.publish()
        second = await documents.frame(first.seq)
        history = wire.decode_stream(second.body.decode().split("data: ")[1]).history

        assert (first.seq, second.seq) == (2, 4)
        assert [point.seq for point in history.points] == [3] and [event.seq for event in history.events] == [4]

    asyncio.run(story())


def test_a_history_that_fits_is_left_as_it_is() -> None:
    history = ring(3).since(0)

    assert up_to(history, 3) is history
    assert up_to(History(), 0) == History()
    assert [point.seq for point in up_to(history, 1).points] == [1]


@pytest.mark.parametrize("points", [3, LARGE_HISTORY + 1])
def test_a_history_can_be_packed(points: int) -> None:
    async def story() -> None:
        hand = HandSupply(ring=ring(points))
        hand.publish()
        documents = Documents(hand.supply())
        plain, packed = await documents.history(1, packed=False), await documents.history(1, packed=True)

        assert gzip.decompress(packed) == plain
        history, seq = wire.decode_history(plain)
        assert (len(history.points), seq) == (points - 1, points)

    asyncio.run(story())


def test_equal_bodies_pack_equally() -> None:
    assert compressed(b"x" * 5000) == compressed(b"x" * 5000)


def test_the_snapshot_is_the_newest_one() -> None:
    async def story() -> None:
        hand = HandSupply(ring=ring(1))
        hand.publish()

        assert wire.decode_snapshot(Documents(hand.supply()).snapshot()) == hand.shown

    asyncio.run(story())


def test_small_answers_name_their_schema() -> None:
    assert json.loads(failure("no")) == {"schema": "ddwatch.error/1", "error": "no"}
    assert json.loads(health("alive")) == {"schema": "ddwatch.health/1", "state": "alive"}


def test_not_ready_names_the_sources_that_are_waited_for() -> None:
    waiting = SourceView(name="log", state="waiting", detail="/x does not exist (yet)")

    assert unready(snapshot()) == "no source has delivered anything yet"
    assert (
        unready(snapshot(sources=(waiting,))) == "no source has delivered anything yet (log: /x does not exist (yet))"
    )
    assert unready(snapshot(sources=(waiting, SourceView(name="b", state="lost", last_at=START)))) is None
