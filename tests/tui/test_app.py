"""What the user reads and does: every face of the screen, every key, and how it ends."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timezone

from msgspec.structs import replace

from ddwatch.app import PACE, DDWatch
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from tests.tui import frames, model_frames
from tests.tui.picture import Told
from tests.tui.screen import moved, watched

GONE = SourceFault(at=0.0, source="sidecar", reason="the sidecar at http://127.0.0.1:9477 is not there; trying again")


def test_live_says_what_how_much_and_how_old() -> None:
    async def story() -> None:
        async with watched(Told(frames.founding())) as screen:
            await screen.reads("● live")
            text = screen.text()
            for words in (
                "Kimi-K2.6 · DDTREE budget 32 · TP8",
                "learning",
                "30.8 tok/s",
                "context 5.9k",
                "log <1 s ago",
            ):
                assert words in text
            assert "SIMULATED" not in text

    asyncio.run(story())


def test_waiting_says_for_what_and_for_how_long() -> None:
    async def story() -> None:
        async with watched(Told()) as screen:
            await screen.reads("waiting for the first data")
            screen.wall.now += 12
            await screen.reads("for 12 s")
            assert "http://127.0.0.1:9477" in screen.text()

    asyncio.run(story())


def test_a_source_that_has_not_appeared_yet_is_no_loss() -> None:
    fault = SourceFault(at=0.0, source="log", reason="the file sglang.log is not there yet", waiting=True)

    async def story() -> None:
        async with watched(Told(fault)) as screen:
            await screen.reads("the file sglang.log is not there yet")
            assert "NO DATA" not in screen.text()

    asyncio.run(story())


def test_a_silent_feed_turns_stale_and_dim_and_comes_back() -> None:
    async def story() -> None:
        async with watched(Told(frames.founding())) as screen:
            await screen.reads("● live")
            screen.wall.now += 7
            await screen.reads("? STALE")
            assert "○ stale 7 s" in screen.text()
            assert "nothing has arrived for 7 s" in screen.text()
            await screen.say(moved(frames.founding(), 8.0), "77.7 tok/s")
            assert "STALE" not in screen.text()

    asyncio.run(story())


def test_a_frame_that_repeats_itself_is_a_sign_of_life_and_no_news() -> None:
    async def story() -> None:
        frame = frames.founding()
        async with watched(Told(frame)) as screen:
            await screen.reads("● live")
            for _ in range(4):
                screen.wall.now += 3
                screen.feed.say(frame)
                await screen.until(lambda: screen.app.current.heard == screen.wall.now)
            await screen.reads("log 12 s ago")
            assert "● live" in screen.text()

    asyncio.run(story())


def test_a_gone_sidecar_is_loud_and_the_last_figures_stay() -> None:
    async def story() -> None:
        async with watched(Told(frames.founding())) as screen:
            await screen.reads("● live")
            await screen.say(GONE, "✗ NO DATA")
            text = " ".join(screen.text().split())
            assert "the sidecar at http://127.0.0.1:9477 is not there; trying again" in text
            assert "30.8 tok/s" in text
            assert "✗ lost" in text

    asyncio.run(story())


def test_a_sidecar_of_another_version_is_named_before_any_data() -> None:
    reason = "the sidecar at http://h:1: the sidecar speaks ddwatch.stream/2, this ddwatch reads ddwatch.stream/1"

    async def story() -> None:
        async with watched(Told(SourceFault(at=0.0, source="sidecar", reason=reason))) as screen:
            await screen.reads("✗ NO DATA")
            assert "ddwatch.stream/2" in screen.text()

    asyncio.run(story())


def test_a_lost_source_is_said_in_words() -> None:
    async def story() -> None:
        async with watched(Told(frames.source_lost())) as screen:
            await screen.reads("? BLIND")
            assert "the log is gone" in screen.text()
            assert "✗ sglang.log lost  deleted; waiting for it to come b" in screen.text()

    asyncio.run(story())


class Broken(Told):
    """A feed with a bug."""

    def frames(self) -> Iterator[Frame | SourceFault]:
        yield frames.founding()
        raise ZeroDivisionError("a bug")


def test_a_bug_in_the_feed_is_loud() -> None:
    async def story() -> None:
        async with watched(Broken()) as screen:
            await screen.reads("FEED ENDED")
            assert "ZeroDivisionError" in screen.text()
            assert "30.8 tok/s" in screen.text()

    asyncio.run(story())


def test_the_end_of_a_feed_keeps_its_last_words() -> None:
    async def story() -> None:
        feed = Told(frames.founding(), GONE)
        feed.end()
        async with watched(feed) as screen:
            await screen.reads("FEED ENDED")
            assert "127.0.0.1:9477 is not there" in screen.text()

    asyncio.run(story())


def test_a_small_terminal_has_five_lines_and_a_tiny_one_an_honest_one() -> None:
    async def story() -> None:
        async with watched(Told(model_frames.slow()), 50, 8) as screen:
            await screen.reads("✗ SLOW STEP 20.6 tok/s")
            for words in (
                "expected 30.9 (28.6…33.4), ratio 0.67",
                "138 → 20.6 accept ×0.40 context ×0.56 rest ×0.66",
                "batch 1 context 5.9k accept 2.96 step 144 ms",
                "Kimi-K2.6",
            ):
                assert words in screen.text()
        async with watched(Told(frames.founding()), 20, 5) as screen:
            await screen.reads("… learning 30.8 tok…")
            await screen.say(GONE, "✗ lost 1 s  30.8 to…")

    asyncio.run(story())


def test_a_simulated_service_says_so_at_every_size() -> None:
    async def story() -> None:
        for size in ((120, 40), (80, 24), (60, 16), (30, 5)):
            async with watched(Told(frames.dp8()), *size) as screen:
                await screen.reads("SIMULATED" if size[0] >= 60 else "SIM ")

    asyncio.run(story())


def test_resizing_arranges_anew() -> None:
    async def story() -> None:
        async with watched(Told(frames.dp8()), 120, 40) as screen:
            await screen.reads("7 of 8 live")
            await screen.pilot.resize_terminal(80, 24)
            await screen.until(lambda: "7 of 8 live" not in screen.text())
            await screen.reads("x why")
            await screen.pilot.resize_terminal(40, 10)
            await screen.reads("q quit")

    asyncio.run(story())


def test_ascii_is_ascii_everywhere() -> None:
    async def story() -> None:
        for size in ((120, 40), (80, 24), (50, 8)):
            async with watched(Told(model_frames.slow()), *size, ascii_only=True) as screen:
                await screen.reads("X SLOW STEP")
                assert screen.text().isascii()

    asyncio.run(story())


def test_a_model_name_cannot_write_to_the_terminal() -> None:
    frame = frames.founding()
    named = replace(
        frame, snapshot=replace(frame.snapshot, server=replace(frame.snapshot.server, model="a/\x1b[31mX\x07"))
    )

    async def story() -> None:
        async with watched(Told(named)) as screen:
            await screen.reads("● live")
            assert "\x1b" not in screen.text()
            assert "\x07" not in screen.text()

    asyncio.run(story())


def test_q_closes_the_feed_and_ends_its_thread() -> None:
    async def story() -> None:
        feed = Told(frames.founding())
        async with watched(feed) as screen:
            await screen.reads("● live")
            await screen.press("q")
            await screen.until(lambda: not screen.app.is_running or feed.closed)
        assert feed.closed

    before = threading.active_count()
    begun = time.monotonic()
    asyncio.run(story())
    assert time.monotonic() - begun < 8
    assert threading.active_count() <= before + 1


class Flood(Told):
    """A feed that never pauses."""

    def frames(self) -> Iterator[Frame | SourceFault]:
        frame = frames.founding()
        count = 0
        while not self.closed:
            count += 1
            yield moved(frame, count / 1000)


def test_a_flood_of_frames_neither_blocks_keys_nor_the_end() -> None:
    async def story() -> None:
        async with watched(Flood()) as screen:
            await screen.reads("● live")
            begun = time.monotonic()
            # Typed as a terminal types: the pilot would first wait for silence, which never comes.
            screen.app.simulate_key("e")
            await screen.reads("times UTC")
            screen.app.simulate_key("escape")
            await screen.reads("accept length")
            screen.app.simulate_key("q")
            await screen.until(lambda: screen.feed.closed)
            assert time.monotonic() - begun < 5

    asyncio.run(story())


def test_no_more_than_four_drawings_a_second() -> None:
    async def story() -> None:
        feed = Told(frames.founding())
        async with watched(feed, pace=PACE) as screen:
            await screen.reads("● live")
            screen.wall.now += 1
            drawn = []
            screen.app.hand_over()
            for part in range(10):
                screen.wall.now += 0.05
                feed.say(moved(frames.founding(), part / 10))
                await screen.until(lambda: screen.app.current.heard == screen.wall.now)
                drawn.append(screen.app._drawn)
            assert len(set(drawn)) <= 3

    asyncio.run(story())


def test_times_are_in_the_zone_of_this_machine_unless_told() -> None:
    app = DDWatch(Told())
    assert app._view.zone.tzname(None) is None or app._view.zone is not timezone.utc
