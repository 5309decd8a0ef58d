"""Step time over context shows clean points of the present batch only, and says when there is nothing to compare."""

import asyncio

from msgspec.structs import replace

from ddwatch.core.snapshot import Point
from ddwatch.widgets.step_panel import curve_dots, measured_points, present, several_ranks
from tests.tui import frames, model_frames
from tests.tui.picture import Told
from tests.tui.screen import watched


def test_only_clean_points_of_the_present_batch_are_shown() -> None:
    point = Point(seq=1, at=0.0, batch=2, step_seconds=0.05, total_context_tokens=4000)
    others = (
        replace(point, contaminated=True),
        replace(point, batch=1),
        replace(point, step_seconds=None),
        replace(point, total_context_tokens=None),
        Point(seq=2, at=1.0, state="idle"),
    )
    assert measured_points((point, *others), 2) == [(4000, 50.0)]
    assert measured_points(others, None) == []


def test_the_curve_is_in_milliseconds_and_keeps_where_it_guesses() -> None:
    dots = curve_dots(model_frames.founding_end().snapshot.model)
    assert dots[0].middle == 33.5
    assert [dot.covered for dot in dots].count(False) > 5
    assert curve_dots(None) == []


def test_a_mixed_reading_is_not_marked_as_the_present() -> None:
    frame = model_frames.founding_end()
    assert present(frame) is not None
    now = replace(frame.snapshot.now, flags=("prefill",))
    assert present(replace(frame, snapshot=replace(frame.snapshot, now=now))) is None


def test_sums_over_ranks_are_not_set_beside_the_curve_of_one() -> None:
    assert several_ranks(model_frames.dp8())
    assert not several_ranks(model_frames.founding_end())


def test_a_number_key_brings_it_up_on_a_small_screen_and_says_why_not() -> None:
    async def story() -> None:
        async with watched(Told(model_frames.outside())) as screen:
            await screen.reads("learning")
            assert "step time by context" not in screen.text()
            await screen.press("4")
            await screen.reads("step time by context")
            await screen.reads("outside evidence")
            assert "batch 1 ──" in screen.text()
            assert "◆ now" in screen.text()
            await screen.press("tab")
            await screen.reads("▸ load: context")
            await screen.press("5")
            await screen.reads("── events")
            await screen.say(frames.dp8(), "SIMULATED")
            await screen.press("4")
            await screen.reads("Several ranks: batch and context are sums over them")

    asyncio.run(story())


def test_before_a_model_the_points_stand_alone() -> None:
    async def story() -> None:
        async with watched(Told(frames.founding()), 120, 40) as screen:
            await screen.reads("batch 1, no model yet")
            assert "evidence" not in screen.text()

    asyncio.run(story())
