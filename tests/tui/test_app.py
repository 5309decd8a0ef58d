"""What the user reads and does: every face of the screen, every key, and how it ends."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timezone

from msgspec.structs import replace

from ddwatch.app import DDWatch
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from tests.tui import frames
from tests.tui.picture import Told
from tests.tui.screen import watched

GONE = SourceFault(at=0.0, source="sidecar", reason="the sidecar at http://127.0.0.1:9477 is not there; trying again")


def moved(frame: Frame, seconds: float) -> Frame:
    """The same frame some seconds later with another rate."""
    now = replace(frame.snapshot.now, at=frame.snapshot.at + seconds, throughput=77.7)
    return replace(frame, snapshot=replace(frame.snapshot, at=frame.snapshot.at + seconds, now=now))


def told(*items: Frame | SourceFault) -> Told:
    return Told(*items)


def test_live_says_what_how_much_and_how_old() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
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
        async with watched(told()) as screen:
            await screen.reads("waiting for the first data")
            screen.wall.now += 12
            await screen.reads("for 12 s")
            assert "http://127.0.0.1:9477" in screen.text()

    asyncio.run(story())


def test_a_source_that_has_not_appeared_yet_is_no_loss() -> None:
    fault = SourceFault(at=0.0, source="log", reason="the file sglang.log is not there yet", waiting=True)

    async def story() -> None:
        async with watched(told(fault)) as screen:
            await screen.reads("the file sglang.log is not there yet")
            assert "NO DATA" not in screen.text()

    asyncio.run(story())


def test_a_silent_feed_turns_stale_and_dim_and_comes_back() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
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
        async with watched(told(frame)) as screen:
            await screen.reads("● live")
            for _ in range(4):
                screen.wall.now += 3
                screen.feed.say(frame)
                await screen.until(lambda: screen.app._heard == screen.wall.now)
            await screen.reads("log 12 s ago")
            assert "● live" in screen.text()

    asyncio.run(story())


def test_a_gone_sidecar_is_loud_and_the_last_figures_stay() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
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
        async with watched(told(SourceFault(at=0.0, source="sidecar", reason=reason))) as screen:
            await screen.reads("✗ NO DATA")
            assert "ddwatch.stream/2" in screen.text()

    asyncio.run(story())


def test_a_lost_source_is_said_in_words() -> None:
    async def story() -> None:
        async with watched(told(frames.source_lost())) as screen:
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
        feed = told(frames.founding(), GONE)
        feed.end()
        async with watched(feed) as screen:
            await screen.reads("FEED ENDED")
            assert "127.0.0.1:9477 is not there" in screen.text()

    asyncio.run(story())


def test_freeze_holds_the_picture_while_data_goes_on() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
            await screen.reads("● live")
            await screen.press("space")
            await screen.reads("‖ FROZEN 12:00:00")
            screen.feed.say(moved(frames.founding(), 9.0))
            await screen.until(lambda: screen.app._newest is not screen.app._shown)
            screen.wall.now += 1
            screen.app.hand_over()
            await screen.pilot.pause()
            assert "30.8 tok/s" in screen.text()
            await screen.press("space")
            await screen.reads("77.7 tok/s")
            assert "FROZEN" not in screen.text()

    asyncio.run(story())


def test_plus_and_minus_change_the_time_window() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
            await screen.reads("5 min ──")
            await screen.press("plus")
            await screen.reads("15 min ──")
            await screen.press("plus", "plus")
            await screen.reads("60 min ──")
            await screen.press("minus", "minus", "minus", "minus")
            await screen.reads("1 min ──")
            assert "11:59:30" in screen.text()

    asyncio.run(story())


def test_tab_and_enter_make_a_panel_large_and_escape_leads_back() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
            await screen.reads("● live")
            await screen.press("tab")
            await screen.reads("▸ throughput")
            await screen.press("enter")
            await screen.until(lambda: "accept length" not in screen.text())
            await screen.press("enter")
            await screen.reads("accept length")
            await screen.press("tab", "enter")
            await screen.until(lambda: "── throughput" not in screen.text())
            assert "▸ accept length" in screen.text()
            await screen.press("escape")
            await screen.reads("── throughput")

    asyncio.run(story())


def test_all_events_are_a_key_away_with_their_zone() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
            await screen.reads("2 more: e")
            await screen.press("e")
            await screen.reads("times UTC")
            assert "restart     SIGTERM; the server left on request" in screen.text()
            assert "throughput" not in screen.text()
            await screen.press("e")
            await screen.reads("throughput")

    asyncio.run(story())


def many_events(count: int) -> Frame:
    story = frames.events(*((1000.0 - place, "ready", "ok", f"event number {place}") for place in range(count)))
    return replace(frames.founding(), history=replace(frames.founding().history, events=story))


def test_what_is_being_read_stays_in_place_when_events_arrive() -> None:
    async def story() -> None:
        async with watched(told(many_events(60))) as screen:
            await screen.reads("● live")
            await screen.press("e")
            await screen.reads("1–21 of 60")
            await screen.press("down", "down", "down")
            await screen.reads("4–24 of 60")
            first = screen.text().split("\n")[2]
            await screen.say(moved(many_events(62), 1.0), "6–26 of 62")
            assert screen.text().split("\n")[2] == first
            await screen.press("end")
            await screen.reads("event number 0")
            await screen.press("home")
            await screen.reads("1–21 of 62")

    asyncio.run(story())


def test_sources_and_help_are_a_key_away() -> None:
    async def story() -> None:
        async with watched(told(frames.source_lost())) as screen:
            await screen.reads("? BLIND")
            await screen.press("s")
            await screen.reads("12 345 lines")
            assert "sidecar 0.4 % cpu, 52 MB · ddwatch 0.1.0" in screen.text()
            await screen.press("escape", "question_mark")
            await screen.reads("freeze the picture")
            await screen.press("escape")
            await screen.reads("? BLIND")

    asyncio.run(story())


def test_the_palette_has_our_commands_only() -> None:
    async def story() -> None:
        async with watched(told(frames.founding())) as screen:
            await screen.reads("● live")
            names = [command.title for command in screen.app.get_system_commands(screen.app.screen)]
            assert names == [
                "Freeze or go on", "Longer time window", "Shorter time window",
                "All events", "All sources", "Help", "Quit",
            ]  # fmt: skip
            await screen.press("ctrl+p")
            await screen.pilot.press(*"longer")
            await screen.pilot.pause(0.3)
            await screen.press("enter")
            await screen.pilot.pause(0.3)
            await screen.reads("15 min ──")

    asyncio.run(story())


def test_a_small_terminal_has_five_lines_and_a_tiny_one_an_honest_one() -> None:
    async def story() -> None:
        async with watched(told(frames.slow()), 50, 8) as screen:
            await screen.reads("✗ SLOW STEP 21.6 tok/s")
            for words in (
                "expected 26.5…34.8, ratio 0.70",
                "batch 1 context 5.9k accept 3.06 step 142 ms",
                "Kimi-K2.6",
            ):
                assert words in screen.text()
        async with watched(told(frames.founding()), 20, 5) as screen:
            await screen.reads("… learning 30.8 tok…")
            await screen.say(GONE, "✗ lost 1 s  30.8 to…")

    asyncio.run(story())


def test_a_simulated_service_says_so_at_every_size() -> None:
    async def story() -> None:
        for size in ((120, 40), (80, 24), (60, 16), (30, 5)):
            async with watched(told(frames.dp8()), *size) as screen:
                await screen.reads("SIMULATED" if size[0] >= 60 else "SIM ")

    asyncio.run(story())


def test_resizing_arranges_anew() -> None:
    async def story() -> None:
        async with watched(told(frames.dp8()), 120, 40) as screen:
            await screen.reads("7 of 8 live")
            await screen.pilot.resize_terminal(80, 24)
            await screen.until(lambda: "7 of 8 live" not in screen.text())
            await screen.reads("e events")
            await screen.pilot.resize_terminal(40, 10)
            await screen.reads("q quit")

    asyncio.run(story())


def test_ascii_is_ascii_everywhere() -> None:
    async def story() -> None:
        for size in ((120, 40), (80, 24), (50, 8)):
            async with watched(told(frames.slow()), *size, ascii_only=True) as screen:
                await screen.reads("X SLOW STEP")
                assert screen.text().isascii()

    asyncio.run(story())


def test_a_model_name_cannot_write_to_the_terminal() -> None:
    frame = frames.founding()
    named = replace(
        frame, snapshot=replace(frame.snapshot, server=replace(frame.snapshot.server, model="a/\x1b[31mX\x07"))
    )

    async def story() -> None:
        async with watched(told(named)) as screen:
            await screen.reads("● live")
            assert "\x1b" not in screen.text()
            assert "\x07" not in screen.text()

    asyncio.run(story())


def test_q_closes_the_feed_and_ends_its_thread() -> None:
    async def story() -> None:
        feed = told(frames.founding())
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
            await screen.press("e")
            await screen.reads("times UTC")
            assert time.monotonic() - begun < 5
            await screen.press("escape", "q")

    asyncio.run(story())


class Controls:
    """A replay's controls that remember what they were told."""

    position, duration, speed, paused = 65.0, 3600.0, 10.0, False

    def __init__(self) -> None:
        self.told: list[str] = []

    def toggle_pause(self) -> None:
        self.told.append("pause")
        self.paused = not self.paused

    def seek(self, seconds: float) -> None:
        self.told.append(f"seek {seconds:+.0f}")

    def faster(self) -> None:
        self.told.append("faster")

    def slower(self) -> None:
        self.told.append("slower")


def test_a_replay_can_be_moved_and_shows_its_place() -> None:
    controls = Controls()

    async def story() -> None:
        async with watched(Told(frames.founding(), controls=controls), 120, 40) as screen:
            await screen.reads("▶ replay ×10")
            assert "1 min 05 s of 1 h 00 min" in screen.text()
            screen.wall.now += 60
            screen.app.look_at_clock()
            await screen.press("p", "left", "right", "right_square_bracket", "left_square_bracket")
            screen.wall.now += 1
            await screen.reads("‖ paused")
            assert "STALE" not in screen.text()
            screen.feed.end()
            await screen.reads("‖ end of replay")

    asyncio.run(story())
    assert controls.told == ["pause", "seek -30", "seek +30", "faster", "slower"]


def test_no_more_than_four_drawings_a_second() -> None:
    async def story() -> None:
        feed = told(frames.founding())
        async with watched(feed) as screen:
            await screen.reads("● live")
            screen.wall.now += 1
            drawn = []
            screen.app.hand_over()
            for part in range(10):
                screen.wall.now += 0.05
                feed.say(moved(frames.founding(), part / 10))
                await screen.until(lambda: screen.app._heard == screen.wall.now)
                drawn.append(screen.app._drawn)
            assert len(set(drawn)) <= 3

    asyncio.run(story())


def test_times_are_in_the_zone_of_this_machine_unless_told() -> None:
    app = DDWatch(told())
    assert app._view.zone.tzname(None) is None or app._view.zone is not timezone.utc
