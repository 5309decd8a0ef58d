"""What the reader can do: freeze, choose a window, make a panel large, read everything, move a replay."""

import asyncio

from msgspec.structs import replace

from ddwatch.core.snapshot import Frame
from ddwatch.screens.pages import PAGES
from ddwatch.widgets.listing import HELP
from tests.tui import frames
from tests.tui.picture import Told
from tests.tui.screen import moved, watched


def test_freeze_holds_the_picture_while_data_goes_on() -> None:
    async def story() -> None:
        async with watched(Told(frames.founding())) as screen:
            await screen.reads("● live")
            await screen.press("space")
            await screen.reads("‖ FROZEN 12:00:00")
            screen.feed.say(moved(frames.founding(), 9.0))
            await screen.until(lambda: screen.app.current.newest is not screen.app.current.shown)
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
        async with watched(Told(frames.founding())) as screen:
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
        async with watched(Told(frames.founding())) as screen:
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
        async with watched(Told(frames.founding())) as screen:
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
        async with watched(Told(many_events(60))) as screen:
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
        async with watched(Told(frames.source_lost())) as screen:
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
        async with watched(Told(frames.founding())) as screen:
            await screen.reads("● live")
            names = [command.title for command in screen.app.get_system_commands(screen.app.screen)]
            pages = [entry.title for entry in PAGES]
            assert names == ["Freeze or go on", "Longer time window", "Shorter time window", *pages, "Quit"]
            await screen.press("ctrl+p")
            # A letter that is also a key is only a letter while one types.
            await screen.pilot.press(*"q", "backspace", *"longer")
            await screen.pilot.pause(0.3)
            await screen.press("enter")
            await screen.pilot.pause(0.3)
            await screen.reads("15 min ──")

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


def test_the_help_fits_a_small_screen_and_names_every_key_of_the_footer() -> None:
    assert all(len(sign) <= 11 and len(words) <= 64 for sign, words in HELP)
    named = " ".join(sign for sign, _ in HELP)
    assert all(key in named for key in ("space", "+ -", "tab", "e", "s", "p", "← →", "[ ]", "q"))
