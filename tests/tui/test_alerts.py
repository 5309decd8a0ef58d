"""The alert log on the screen: what each incident says, which one is chosen, and what the reader can ask of it."""

import asyncio
from datetime import timezone

import pytest
from msgspec.structs import replace

from ddwatch.commands.once import reading
from ddwatch.core.alert_view import AlertAction, AlertView
from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.feeds.contract import Feed
from ddwatch.widgets.alert_words import evidence_words, quiet_words, state_words, times_words
from ddwatch.widgets.alerts import alert_rows
from ddwatch.widgets.brief import brief_rows
from ddwatch.widgets.rows import Row, plain, width_of
from ddwatch.widgets.verdict_block import with_since
from ddwatch.widgets.view import View
from tests.tui import alert_frames, frames
from tests.tui.alert_frames import RETRACTIONS, SLOW, SUSPECTED, frame_with
from tests.tui.frames import NOON
from tests.tui.picture import Told
from tests.tui.screen import watched
from tests.tui.test_keys import Controls

UTC = timezone.utc


def said(alert: AlertView, width: int = 80, *, chosen: bool = False) -> list[str]:
    return [plain(row).rstrip() for row in alert_rows(alert, alert_frames.one().snapshot, UTC, width, chosen=chosen)]


class TestOneIncident:
    def test_an_open_one_says_everything_in_four_rows(self) -> None:
        assert said(SLOW) == [
            "  ✗ slow step    firing                                 since 11:46:00 · 14 min",
            "     +31 ms on every step, at all contexts",
            "     likely:  GPU 5 is slowed by heat, 1.62 GHz against 2.41 on the others; CU…",
            "     next:    nvidia-smi -q -d PERFORMANCE -i 5, and look at the airflow",
        ]

    def test_the_chosen_one_says_it_in_full_with_its_numbers(self) -> None:
        rows = said(SLOW, chosen=True)

        assert rows[0].startswith("▸ ✗ slow step    firing")
        assert "              CUDA graph is off at this batch" in rows
        assert "              ddwatch compare --at 11:46" in rows
        assert rows[-1] == "     numbers: offset 30.8 ms · ratio 0.76 · clean steps 412 · strength 3.40"

    def test_one_that_is_over_takes_two_rows_and_tells_how_long_it_was(self) -> None:
        rows = said(alert_frames.over(1))

        assert rows == [
            "  ✓ retractions  over                          09:10:00 – 09:18:51 · 8 min 51 s",
            "     the KV pool keeps filling up: 9 requests sent back in 3 min",
        ]
        assert times_words(alert_frames.over(7), NOON, UTC) == "Apr 30 21:10:00 – 21:28:51 · 18 min"

    def test_a_state_has_a_sign_a_word_and_a_look(self) -> None:
        found = {
            state: state_words(replace(SLOW, state=state, until=until), NOON, UTC)
            for state, until in (
                ("pending", None), ("firing", None), ("acknowledged", None), ("muted", NOON + 60), ("resolved", None),
            )
        }  # fmt: skip

        assert found == {
            "pending": ("…", "suspected", "label"),
            "firing": ("✗", "firing", "page"),
            "acknowledged": ("○", "acknowledged", "strong"),
            "muted": ("‖", "muted until 12:01", "strong"),
            "resolved": ("✓", "over", "ok"),
        }
        assert state_words(RETRACTIONS, NOON, UTC)[::2] == ("!", "notice")
        assert (
            state_words(replace(SLOW, state="muted", until=NOON + 86_400), NOON, UTC)[1] == "muted until May 02 12:00"
        )

    @pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
    @pytest.mark.parametrize("chosen", [False, True])
    def test_nothing_is_wider_than_the_screen(self, width: int, chosen: bool) -> None:
        long = replace(SLOW, note="a" * 300, sentence="word " * 80, state="acknowledged", until=NOON + 90_000)
        for alert in (*alert_frames.many().snapshot.alerts, long):
            rows = alert_rows(alert, alert_frames.one().snapshot, UTC, width, chosen=chosen)
            assert all(width_of(row) <= width for row in rows)

    def test_words_of_the_world_cannot_steer_the_terminal(self) -> None:
        dirty = "\x1b]0;owned\x07"
        alert = replace(SLOW, sentence=dirty, cause=dirty, note=dirty, next_steps=(dirty,), evidence={dirty: dirty})

        assert all(row.isprintable() for row in said(alert, chosen=True))

    def test_numbers_are_said_with_their_unit(self) -> None:
        numbers = {"silent_seconds": 192.0, "running": 3, "gone": None, "where": "DP3"}
        assert evidence_words(replace(SLOW, evidence=numbers)) == "silent 3 min 12 s · running 3 · where DP3"


class TestBesideTheVerdict:
    def shown(self, frame: Frame, width: int, row: Row) -> str:
        return plain(with_since([row], frame, View(link="live"), width)[0])

    def test_what_is_quiet_stands_beside_it(self) -> None:
        assert quiet_words(alert_frames.acknowledged().snapshot, UTC) == "acknowledged until 15:00"
        assert quiet_words(alert_frames.muted().snapshot, UTC) == "muted until 12:30"
        assert quiet_words(alert_frames.one().snapshot, UTC) == ""
        row: Row = (("   a sentence", "text"),)
        assert self.shown(alert_frames.muted(), 80, row).endswith("muted until 12:30 · since 11:58:00 ")

    def test_small_screens_and_plain_text_say_it_too(self) -> None:
        frame = alert_frames.acknowledged()
        assert any(
            "acknowledged until 15:00: step 142 ms" in plain(row) for row in brief_rows(frame, View(link="live"))
        )
        assert "\nalerts: acknowledged until " in reading(frame.snapshot)
        assert "alerts:" not in reading(alert_frames.one().snapshot)

    def test_it_is_shortened_before_it_is_left_out_and_never_left_out(self) -> None:
        frame = alert_frames.acknowledged()
        full: Row = ((f"   {'x' * 100}", "text"),)

        row: Row = (("   a sentence", "text"),)

        assert self.shown(frame, 56, row).endswith("acknowledged until 15:00 · since 11:58 ")
        assert self.shown(frame, 50, row).endswith("  acknowledged · since 11:58:00 ")
        assert self.shown(frame, 80, full).endswith("… acknowledged · since 11:58 ")
        assert self.shown(alert_frames.one(), 80, full) == plain(full)


def test_a_key_lists_the_open_ones_first_and_says_when_there_are_none() -> None:
    async def story() -> None:
        async with watched(Told(alert_frames.many())) as screen:
            await screen.reads("a alerts")
            await screen.press("a")
            await screen.reads("2 open · 1 suspected · 19 over")
            lines = screen.text().split("\n")
            assert lines[2].startswith("▸ ○ retractions  acknowledged until 15:00")
            assert [line[2:3] for line in lines[2:] if line[4:5].strip()][:3] == ["○", "✗", "…"]
            await screen.press("a")
            await screen.reads("throughput")
        async with watched(Told(alert_frames.none())) as screen:
            await screen.reads("● live")
            assert "a alerts" not in screen.text()
            await screen.press("a")
            await screen.reads("nothing is wrong, and nothing was as far as this log goes back")
            await screen.press("enter", "c", "m", "u", "down", "up", "end")

    asyncio.run(story())


def test_the_choice_moves_the_list_and_stays_when_others_come() -> None:
    async def story() -> None:
        async with watched(Told(alert_frames.many())) as screen:
            await screen.press("a")
            await screen.reads("▸ ○ retractions")
            await screen.press("down", "down")
            await screen.reads("▸ … low accept")
            fresh = replace(SLOW, name="blind", incident="blind-1", severity="unknown")
            before = alert_frames.many()
            after = replace(before, snapshot=replace(before.snapshot, alerts=(fresh, *before.snapshot.alerts)))
            await screen.say(after, "? blind")
            assert "▸ … low accept" in screen.text()
            await screen.press("end")
            await screen.reads("▸ ✓")
            assert screen.text().split("\n")[1].rstrip(" ─").endswith("of 53")
            await screen.press("home")
            await screen.reads("▸ ? blind")

    asyncio.run(story())


def test_what_is_muted_and_not_wrong_stands_below() -> None:
    async def story() -> None:
        async with watched(Told(alert_frames.muted())) as screen:
            await screen.press("a")
            await screen.reads("‖  blind tells nobody until 12:30 · log moves")
            assert "‖ slow step    muted until 12:30" in screen.text()

    asyncio.run(story())


def test_the_keys_ask_and_the_answer_stands_there_for_a_while() -> None:
    asked: list[tuple[AlertAction, str]] = []

    def asks(snapshot: Snapshot, action: AlertAction, alert: AlertView) -> str:
        assert snapshot.alerts
        asked.append((action, alert.name))
        return f"{alert.name}: {action} is done"

    async def story() -> None:
        async with watched(Told(alert_frames.many()), asks=asks) as screen:
            await screen.press("a")
            await screen.reads("▸ ○ retractions")
            await screen.press("down", "c")
            await screen.reads("› slow-step: acknowledge is done")
            await screen.press("m")
            await screen.reads("› slow-step: mute is done")
            await screen.press("u")
            await screen.reads("› slow-step: undo is done")

    asyncio.run(story())
    assert asked == [("acknowledge", "slow-step"), ("mute", "slow-step"), ("undo", "slow-step")]


def test_where_nothing_can_be_asked_or_shown_it_says_so() -> None:
    async def story() -> None:
        async with watched(Told(alert_frames.one())) as screen:
            await screen.press("a", "c")
            await screen.reads("› nothing can be asked here")
            await screen.press("enter")
            await screen.reads("› nothing is recorded here that could be shown")

    asyncio.run(story())


class TestThePast:
    def past(self) -> Frame:
        before = frames.founding()
        return replace(before, snapshot=replace(before.snapshot, at=NOON - 900))

    def test_enter_opens_the_minute_before_and_live_goes_on_behind_it(self) -> None:
        wanted: list[float] = []
        past = Told(self.past(), controls=Controls())

        def opens(_: Snapshot, at: float) -> Feed | str:
            wanted.append(at)
            return past

        async def story() -> None:
            async with watched(Told(alert_frames.one()), past=opens) as screen:
                await screen.press("a")
                await screen.reads("▸ ✗ slow step")
                await screen.press("enter")
                await screen.reads("REPLAY 11:45:00  ▶ ×10 · b: live")
                assert "… LEARNING" in screen.text() or "… learning" in screen.text()
                assert "b live" in screen.text().split("\n")[-1]
                live = alert_frames.one()
                now = replace(live.snapshot.now, throughput=77.7)
                screen.feed.say(replace(live, snapshot=replace(live.snapshot, now=now, at=NOON + 5)))
                await screen.press("a", "c")
                await screen.reads("nothing is wrong")
                await screen.press("escape", "b")
                await screen.reads("77.7 tok/s")
                assert past.closed
                assert "● live" in screen.text() and "REPLAY" not in screen.text()

        asyncio.run(story())
        assert wanted == [SLOW.since - 60.0]

    def test_escape_leads_back_too_once_nothing_else_is_left_to_close(self) -> None:
        async def story() -> None:
            past = Told(self.past(), controls=Controls())
            async with watched(Told(alert_frames.one()), past=lambda _snapshot, _at: past) as screen:
                await screen.press("a", "enter")
                await screen.reads("b: live")
                await screen.press("1", "escape")
                await screen.reads("accept length")
                assert "b: live" in screen.text()
                await screen.press("escape", "escape")
                await screen.reads("● live")

        asyncio.run(story())

    def test_where_it_cannot_be_opened_one_sentence_says_why(self) -> None:
        async def story() -> None:
            async with watched(Told(alert_frames.one()), past=lambda _snapshot, _at: "nothing was recorded") as screen:
                await screen.press("a", "enter")
                await screen.reads("› nothing was recorded")

        asyncio.run(story())

    def test_in_a_replay_it_moves_there_and_asks_nothing(self) -> None:
        controls = Controls()

        async def story() -> None:
            async with watched(Told(alert_frames.one(), controls=controls)) as screen:
                await screen.press("a", "c")
                await screen.reads("› this is the past")
                await screen.press("enter")
                await screen.reads("throughput")

        asyncio.run(story())
        assert controls.told == [f"seek {SLOW.since - 60 - NOON:+.0f}"]

    def test_a_past_that_ends_or_fails_leaves_the_present_alone(self) -> None:
        async def story() -> None:
            past = Told(self.past(), controls=Controls())
            async with watched(Told(alert_frames.one()), past=lambda _snapshot, _at: past) as screen:
                await screen.press("a", "enter")
                await screen.reads("b: live")
                past.end()
                await screen.press("b")
                await screen.reads("● live")
                assert "FEED ENDED" not in screen.text()

        asyncio.run(story())


def test_the_bell_rings_through_the_app_once() -> None:
    rang: list[None] = []

    async def story() -> None:
        feed = Told(frame_with())
        async with watched(feed, bell="page", ring=lambda: rang.append(None)) as screen:
            await screen.reads("● live")
            await screen.say(frame_with(SLOW), "a alerts")
            await screen.say(frame_with(SLOW, SUSPECTED), "a alerts")

    asyncio.run(story())
    assert rang == [None]
