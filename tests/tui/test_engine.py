"""What the engine's own mouths say is told in words that fit, and what they do not say is left out."""

import pytest
from msgspec.structs import replace

from ddwatch.core.engine_view import EngineView, ForwardView
from ddwatch.core.snapshot import Frame, SourceView
from ddwatch.widgets.engine import forward_words, page_words, words_of
from ddwatch.widgets.plot_panel import LatencyPanel
from ddwatch.widgets.quantities import LATENCY, summary
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.sources import source_rows
from ddwatch.widgets.view import View
from ddwatch.widgets.why import WhyListing
from tests.tui import model_frames
from tests.tui.frames import NOON

LIVE = View(link="live")
PAGE = EngineView(
    at=NOON,
    ranks=1,
    running=3,
    queued=0,
    total_context_tokens=12_400,
    decode_tokens_per_second=412.0,
    error=0.08,
    graph_ratio=1.0,
)
PASSES = ForwardView(
    at=NOON,
    ranks=1,
    forward_seconds=0.0150,
    step_seconds=0.0199,
    wait_seconds=0.0049,
    prefill_ratio=0.03,
    passes_per_second=50.3,
    batch=3,
    total_context_tokens=12_400,
    queued=0,
)


def with_both() -> Frame:
    frame = model_frames.slow()
    sources = (
        *frame.snapshot.sources,
        SourceView(name="metrics", state="up", last_at=NOON, witness=False),
        SourceView(name="fpm", state="up", last_at=NOON, witness=False),
    )
    return replace(frame, snapshot=replace(frame.snapshot, engine=PAGE, forward=PASSES, sources=sources))


def test_the_page_in_words() -> None:
    assert page_words(PAGE) == "running 3 · queue 0 · context 12.4k in all · 412 tok/s ±8 % · graphs 100 %"
    assert page_words(EngineView(at=NOON, ranks=1)) == ""


def test_passes_in_words() -> None:
    assert forward_words(PASSES) == "GPU 15.0 of 19.9 ms per step, waits 4.90 · prefill 3 % · 50.3 passes/s"
    alone = replace(PASSES, step_seconds=None, wait_seconds=None, lost=1200, ranks=2)
    assert forward_words(alone).startswith("GPU 15.0 ms per pass · ")
    assert forward_words(alone).endswith(" · 2 ranks · 1 200 lost")
    assert forward_words(ForwardView(at=NOON, ranks=1, resting=True, prefill_ratio=0.5)) == "at rest"


def test_words_stand_under_their_own_source_only() -> None:
    snapshot = with_both().snapshot
    assert words_of("metrics", snapshot).startswith("running 3")
    assert words_of("fpm", snapshot).startswith("GPU 15.0")
    assert words_of("log", snapshot) == ""
    assert words_of("fpm", replace(snapshot, forward=None)) == ""


@pytest.mark.parametrize("width", [30, 44, 80, 120])
def test_the_panel_shows_them_whole_at_any_width(width: int) -> None:
    frame = with_both()
    for source in frame.snapshot.sources[-2:]:
        rows = source_rows(source, frame, LIVE, width)
        assert all(width_of(row) <= width for row in rows[1:])
        text = " ".join(" ".join(plain(row) for row in rows).split())
        if width >= 44:
            assert words_of(source.name, frame.snapshot) in text
    lost = replace(frame.snapshot.sources[-1], state="lost", detail="DP0 has fallen silent")
    assert "GPU" not in " ".join(plain(row) for row in source_rows(lost, frame, LIVE, width))


def test_a_source_without_lines_counts_none() -> None:
    frame = with_both()
    passes = frame.snapshot.sources[-1]
    text = "\n".join(plain(row) for row in source_rows(passes, frame, LIVE, 80))
    assert "lines" not in text
    assert "gaps" not in text
    torn = "\n".join(plain(row) for row in source_rows(replace(passes, gaps=3), frame, LIVE, 80))
    assert "3 gaps" in torn
    assert "lines" not in torn


def test_the_gpus_part_stands_under_the_step() -> None:
    frame = with_both()
    pairs = LatencyPanel(id="latency").figures(frame, LIVE, summary((), LATENCY))
    names = [name for name, _, _ in pairs]
    assert names[:4] == ["now", "expected", "GPU", "it waits"]
    assert {name: value for name, value, _ in pairs}["it waits"] == "4.90"
    plainly = LatencyPanel(id="latency").figures(model_frames.slow(), LIVE, summary((), LATENCY))
    assert "GPU" not in [name for name, _, _ in plainly]
    text = "\n".join(plain(row) for row in WhyListing(id="listing").content(frame, LIVE, 80))
    assert "GPU 15.0 of 19.9 ms per step, waits 4.90" in text
