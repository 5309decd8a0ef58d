"""The first lines answer: what, how much against what, why, and what to do; and they are loud only when not well."""

import pytest
from msgspec.structs import replace

from ddwatch.core.snapshot import Frame, Verdict, VerdictName
from ddwatch.widgets.rows import Row, plain, width_of
from ddwatch.widgets.verdict_block import (
    SIGNS,
    headline,
    numbers,
    reason_rows,
    trouble_rows,
    verdict_words,
    wanted_rows,
    with_since,
)
from ddwatch.widgets.view import View
from tests.tui import frames, model_frames

LIVE = View(link="live")


def changed(frame: Frame, **fields: object) -> Frame:
    return replace(frame, snapshot=replace(frame.snapshot, **fields))


def test_the_headline_at_three_widths() -> None:
    frame = model_frames.slow()
    assert plain(headline(frame, LIVE, 120)) == (
        " ✗ SLOW STEP       20.6 tok/s     expected 30.9 (28.6 … 33.4)     ratio 0.67"
    )
    assert plain(headline(frame, LIVE, 70)) == (" ✗ SLOW STEP    20.6 tok/s  expected 30.9 (28.6 … 33.4)  ratio 0.67")
    assert plain(headline(frame, LIVE, 60)) == " ✗ SLOW STEP    20.6 tok/s  expected 30.9  ratio 0.67"


def test_the_numbers_at_three_widths_are_left_out_and_never_cut() -> None:
    frame = frames.founding()
    words = plain(numbers(frame, LIVE, 120)).split()
    assert " ".join(words) == "batch 1 context 5.9k accept 3.06 step 99.4 ms queue 0 KV 3 % log <1 s ago"
    assert "queue 0" in plain(numbers(frame, LIVE, 80))
    assert "KV" not in plain(numbers(frame, LIVE, 80))
    assert plain(numbers(frame, LIVE, 60)) == "   batch 1    context 5.9k   accept 3.06  step 99.4 ms  log "


@pytest.mark.parametrize("name", SIGNS)
def test_every_verdict_has_a_sign_and_its_name_in_words(name: VerdictName) -> None:
    words = plain(verdict_words(Verdict(name=name, severity="unknown", since=0.0, sentence="")))
    assert SIGNS[name] in words
    assert name.replace("-", " ") in words.lower()


def test_only_what_needs_somebody_is_a_block() -> None:
    def roles(name: VerdictName, severity: str) -> set[str]:
        return {role for _, role in verdict_words(Verdict(name=name, severity=severity, since=0.0, sentence=""))}  # type: ignore[arg-type]

    assert roles("as-expected", "ok") == {"ok", "strong"}
    assert roles("learning", "unknown") == {"unknown", "strong"}
    assert roles("slow-step", "page") == {"page-block"}
    assert roles("low-accept", "notice") == {"notice-block"}
    assert roles("blind", "unknown") == {"unknown-block"}


def said(frame: Frame, width: int, room: int) -> list[str]:
    return [plain(row) for row in reason_rows(frame.snapshot, width, room)]


def test_when_all_is_well_the_factors_are_the_reason() -> None:
    rows = said(model_frames.narrow(), 80, 2)
    assert rows[0].startswith("   138 → 29.4   accept ×0.40")
    assert rows[1] == "   from:    138, what was remembered before the restart (inferred)"
    # A comparison that has not been made is said, not hidden behind the factors.
    sentence = "as expected so far; the newest sample is mixed and not compared"
    verdict = replace(model_frames.AS_EXPECTED, sentence=sentence)
    assert f"   {sentence}" in said(changed(model_frames.narrow(), verdict=verdict, ratio=None), 80, 2)


def test_cause_next_steps_and_notes_follow_the_sentence_as_room_allows() -> None:
    note = Verdict(name="low-accept", severity="notice", since=0.0, sentence="1.2 tokens per step")
    frame = changed(model_frames.slow(), notes=(note,))
    rows = said(frame, 120, 7)
    assert [row[3:11].strip() for row in rows] == [
        "138 → 20",
        "step 142",
        "likely:",
        "next:",
        "from:",
        "model:",
        "also:",
    ]
    assert "low accept: 1.2 tokens per step" in rows[6]
    assert [row[3:11].strip() for row in said(frame, 120, 2)] == ["138 → 20", "step 142"]
    # With room for a single row the sentence is worth more than the factors.
    assert [row[3:11] for row in said(frame, 120, 1)] == ["step 142"]
    assert said(frame, 120, 0) == []


def test_what_does_not_fit_is_left_out_in_whole_pieces() -> None:
    rows = said(model_frames.slow(), 80, wanted_rows(model_frames.slow().snapshot, 80) - 2)
    assert any(row.endswith("check airflow") for row in rows)
    assert [row.strip() for row in rows[1:3]] == [
        "step 142 ms, expected 96: +46 ms on every step since 11:58:00 (112 clean", "steps)",
    ]  # fmt: skip


def test_caveats_and_differences_are_always_shown() -> None:
    rows = said(model_frames.founding_end(), 80, wanted_rows(model_frames.founding_end().snapshot, 80) - 2)
    assert any("not calibrated: explains, never accuses" in row for row in rows)
    frame = model_frames.differing()
    rows = said(frame, 80, wanted_rows(frame.snapshot, 80) - 2)
    assert "   differs: version: the profile has 0.5.15, the service 0.5.18 · 1 more: x" in rows


def test_a_guess_is_not_called_an_expectation() -> None:
    assert "guessed  30.9" in plain(headline(model_frames.outside(), LIVE, 80))
    assert "expected 30.9" in plain(headline(model_frames.narrow(), LIVE, 80))


def test_the_expected_step_stands_beside_the_measured_one() -> None:
    assert "step  101 ms, expected 95.8" in plain(numbers(model_frames.narrow(), LIVE, 80))


def test_since_when_stands_where_there_is_room() -> None:
    frame = model_frames.narrow()
    long: Row = (("x" * 76, "text"),)
    short: Row = (("x" * 60, "text"),)
    assert plain(with_since([short, long], frame, LIVE, 80)[0]).endswith(" since 11:10:00 ")
    assert plain(with_since([(("x" * 66, "text"),)], frame, LIVE, 80)[0]).endswith(" since 11:10 ")
    assert with_since([long], frame, LIVE, 80) == [long]


def test_contaminated_and_old_figures_are_dim_and_say_why() -> None:
    frame = frames.founding()
    mixed = changed(frame, now=replace(frame.snapshot.now, flags=("prefill",)))
    assert ("prefill · log <1 s ago", "label") in numbers(mixed, LIVE, 120)
    # Where the reasons would push numbers out, they are one word.
    several = changed(frame, now=replace(frame.snapshot.now, flags=("batch-changed", "request-ended")))
    assert plain(numbers(several, LIVE, 80)).endswith("queue 0  mixed log <1 s ")
    assert (" 30.8", "tainted") in headline(mixed, LIVE, 80)
    old = changed(frame, now=replace(frame.snapshot.now, at=frame.snapshot.at - 40))
    assert (" 30.8", "tainted") in headline(old, LIVE, 80)
    assert ("5.9k", "tainted") in numbers(old, LIVE, 80)
    assert "log 40 s ago" in plain(numbers(old, LIVE, 80))


def test_what_is_absent_is_a_dash() -> None:
    assert "– tok/s" in plain(headline(frames.warming(), LIVE, 80))
    text = plain(numbers(frames.warming(), LIVE, 80))
    assert "batch –" in text
    assert "0" not in text


def test_trouble_with_the_feed_itself_stands_on_top() -> None:
    assert trouble_rows(LIVE, 80) == []
    lost = View(link="lost", trouble="the sidecar at http://127.0.0.1:9477 is gone (connection refused); trying again")
    rows = trouble_rows(lost, 60)
    assert plain(rows[0]).startswith(" ✗ NO DATA   the sidecar at")
    assert len(rows) == 2
    assert all(width_of(row) <= 60 for row in rows)
    assert "for 12 s" in plain(trouble_rows(View(link="stale", silence=12.0), 80)[0])
