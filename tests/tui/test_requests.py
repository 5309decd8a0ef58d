"""The page of finished requests: aligned, honest about what it cannot judge, and quiet while it is being read."""

import asyncio

from msgspec.structs import replace

from ddwatch.core.request_view import AcceptHistogram, FinishedRequest
from ddwatch.widgets.accept_bars import accept_rows, folded
from ddwatch.widgets.requests import ORDERS, columns, head_row, request_row, summary
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.view import View
from tests.tui import frames, request_frames
from tests.tui.frames import NOON
from tests.tui.picture import Told
from tests.tui.screen import watched

LIVE = View(link="live", zone=request_frames.UTC)
DONE = FinishedRequest(
    seq=1,
    at=NOON,
    prompt_tokens=512,
    completion_tokens=3000,
    throughput=29.04,
    accept_length=2.9,
    expected=30.2,
    expected_low=26.0,
    expected_high=34.4,
    ratio=0.9616,
    verdict="as-expected",
)


def test_a_request_has_one_aligned_row_at_every_width() -> None:
    assert plain(request_row(DONE, LIVE, 80)) == (" 12:00:00    512   3.0k   29.0     30.2  0.96   2.90  ✓ as expected")
    for width in (60, 80, 100, 120, 160):
        head, row = plain(head_row(width)), plain(request_row(DONE, LIVE, width))
        assert head.index("  verdict") == row.index("  ✓")
        assert len(columns(width)) <= len(columns(width + 1))
    assert "26.0" in plain(request_row(DONE, LIVE, 160))


def test_what_is_absent_is_a_dash_and_why_it_is_unjudged_is_said() -> None:
    bare = FinishedRequest(
        seq=1, at=NOON, completion_tokens=40, throughput=12.0, whole=True, reason="with queue and prefill"
    )
    row = plain(request_row(bare, LIVE, 80))
    assert row == " 12:00:00      –     40  ≥12.0        –     –      –  ? with queue and prefill"
    assert len(row) <= 80
    assert {role for _, role in request_row(bare, LIVE, 80)} == {"label", "tainted"}


def test_every_reason_fits_beside_the_figures_at_80_columns() -> None:
    reasons = (
        "its time is not told",
        "with queue and prefill",
        "too short",
        "not seen throughout",
        "others' prefills inside",
        "no model for this load",
        "too few clean seconds",
        "accept length not told",
        "no band for this load",
    )
    for reason in reasons:
        request = replace(DONE, verdict="unjudged", reason=reason)
        assert width_of(request_row(request, LIVE, 80)) <= 80


def test_the_summary_counts_verdicts() -> None:
    requests = request_frames.finished(10).history.requests
    assert summary(requests).startswith("10 kept · 7 as expected · 1 slow · 2 unjudged · median ")
    assert summary([replace(DONE, whole=True)]) == "1 kept · 1 as expected"


def test_orders_put_the_newest_the_slowest_or_the_longest_first() -> None:
    requests = request_frames.finished(10).history.requests
    newest, worst, longest = [order(requests)[0] for _, order in ORDERS]
    assert newest.at == max(request.at for request in requests)
    assert worst.verdict == "slow"
    assert longest.completion_tokens == max(request.completion_tokens or 0 for request in requests)
    assert ORDERS[1][1](requests)[-1].ratio is None


def test_bars_show_each_share_and_fold_what_is_deep() -> None:
    histogram = AcceptHistogram(steps=(50, 0, 25, 25), requests=3, since=NOON)
    rows = [plain(row) for row in accept_rows(histogram, 60, ascii_only=False)]
    assert "mean 2.25 · 100 steps of 3 requests" in rows[0]
    assert rows[1:4] == ["   ███             ", "   ███     ▄▄▄ ▄▄▄ ", "   ███     ███ ███ "]
    assert rows[4].split() == ["1", "2", "3", "4"]
    assert rows[5].split() == ["50%", "25%", "25%"]
    plainly = [plain(row) for row in accept_rows(histogram, 60, ascii_only=True)]
    assert all(set(row) <= {" ", "█"} for row in plainly[1:4])
    assert folded((5, 4, 3, 2, 1), 3) == [5, 4, 6]
    deep = replace(histogram, steps=(1,) * 64)
    rows = [plain(row) for row in accept_rows(deep, 80, ascii_only=False)]
    assert rows[4].split()[-1] == "19+"
    assert max(len(row) for row in rows) <= 80


def test_the_page_is_a_key_away_and_the_order_is_a_key_on_it() -> None:
    async def story() -> None:
        async with watched(Told(request_frames.finished())) as screen:
            await screen.reads("● live")
            await screen.press("r")
            await screen.reads("newest first (o)")
            assert "steps of 60 requests" in screen.text()
            assert "✗ slow" in screen.text()
            await screen.press("down", "down")
            await screen.reads("3–14 of 60")
            await screen.press("o")
            await screen.reads("lowest ratio first")
            assert screen.text().split("\n")[11].rstrip().endswith("✗ slow")
            await screen.press("r")
            await screen.reads("throughput")

    asyncio.run(story())


def test_what_is_being_read_stays_in_place_when_requests_end() -> None:
    async def story() -> None:
        frame = request_frames.finished(60)
        async with watched(Told(frame)) as screen:
            await screen.reads("● live")
            await screen.press("r", "down", "down")
            await screen.reads("3–14 of 60")
            first = screen.text().split("\n")[11]
            newer = replace(frame.history.requests[-1], seq=99_999, at=NOON - 1)
            later = replace(frame, history=replace(frame.history, requests=(*frame.history.requests, newer)))
            await screen.say(later, "4–15 of 61")
            assert screen.text().split("\n")[11] == first

    asyncio.run(story())


def test_without_any_request_it_says_how_to_get_them() -> None:
    async def story() -> None:
        async with watched(Told(frames.founding())) as screen:
            await screen.reads("● live")
            await screen.press("r")
            await screen.reads("--export-metrics-to-file")
            assert "--request-metrics DIR" in screen.text()
            assert all(len(line) <= 80 for line in screen.text().split("\n"))

    asyncio.run(story())
