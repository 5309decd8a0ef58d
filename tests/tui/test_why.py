"""The page of reasons says everything that the first lines have no room for, and cuts nothing."""

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.view import View
from ddwatch.widgets.why import WhyListing
from tests.tui import frames, gpu_frames, model_frames


def page(frame: Frame | None, width: int = 80) -> str:
    rows = WhyListing(id="listing").content(frame, View(link="live"), width)
    assert all(width_of(row) <= width for row in rows)
    return "\n".join(plain(row) for row in rows)


def test_a_slow_service_is_told_in_full() -> None:
    text = " ".join(page(model_frames.slow()).split())
    for words in (
        "SLOW STEP since 2026-05-01 11:58:00",
        "because step 142 ms, expected 96: +46 ms on every step since 11:58:00 (112 clean steps)",
        "likely GPU 5 thermal slowdown, 1.62 GHz against 2.41 on the others, since 11:58",
        "ddwatch compare --at 11:58",
        "from 138, what was remembered before the restart (inferred)",
        "unexplained ×0.66 offset ×0.71, slope ×0.99",
        "together ×0.15 138 → 20.6 tok/s",
        "step 144 ms, expected 95.8 (span step)",
        "accept length 1.82 … 7.90, median 3.40 at this context (10–90 %)",
    ):
        assert words in text


def test_every_difference_and_caveat_is_there() -> None:
    text = page(model_frames.differing(), 60)
    assert "version: the profile has 0.5.15" in text
    assert "attention_backend: the profile has triton" in text
    assert "not calibrated: explains, never accuses" in page(model_frames.founding_end())


def test_what_is_wrong_with_cards_and_host_is_there_whether_it_is_the_cause_or_not() -> None:
    text = " ".join(page(gpu_frames.lost()).split())
    assert "cards 7 of 8 normal: g shows them" in text
    assert "GPU 3 cannot be read: GPU is lost next: look at dmesg for Xid" in text
    assert "cards 8 of 8 normal the model" in " ".join(page(gpu_frames.loaded()).split())
    assert "the tokenizer keeps one core full" in " ".join(page(gpu_frames.busy_host()).split())
    assert "cards" not in page(model_frames.slow())


def test_what_is_not_known_is_not_made_up() -> None:
    assert "none for this service at this load" in page(frames.founding())
    assert "remembered" not in page(frames.founding())
    assert page(None).strip() == "no data yet"
