"""The first lines answer: what, how much against what, why, and what to do; and they are loud only when not well."""

import pytest
from msgspec.structs import replace

from ddwatch.core.snapshot import Frame, Verdict, VerdictName
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.verdict_block import SIGNS, headline, numbers, reasons, trouble_rows, verdict_words
from ddwatch.widgets.view import View
from tests.tui import frames

LIVE = View(link="live")


def changed(frame: Frame, **fields: object) -> Frame:
    return replace(frame, snapshot=replace(frame.snapshot, **fields))


def test_the_headline_at_three_widths() -> None:
    frame = frames.slow()
    assert plain(headline(frame, LIVE, 120)) == (
        " ✗ SLOW STEP       21.6 tok/s     expected 30.6 (26.5 … 34.8)     ratio 0.70"
    )
    assert plain(headline(frame, LIVE, 70)) == (" ✗ SLOW STEP    21.6 tok/s  expected 30.6 (26.5 … 34.8)  ratio 0.70")
    assert plain(headline(frame, LIVE, 60)) == " ✗ SLOW STEP    21.6 tok/s  expected 30.6  ratio 0.70"


def test_the_numbers_at_three_widths_are_left_out_and_never_cut() -> None:
    frame = frames.founding()
    words = plain(numbers(frame, LIVE, 120)).split()
    assert " ".join(words) == "batch 1 context 5.9k accept 3.06 step 99.4 ms queue 0 KV 3 % log <1 s ago"
    assert "queue 0" in plain(numbers(frame, LIVE, 80))
    assert "KV" not in plain(numbers(frame, LIVE, 80))
    assert plain(numbers(frame, LIVE, 60)) == "   batch 1    context 5.9k   accept 3.06       log <1 s ago "


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


def test_cause_next_steps_and_notes_follow_the_sentence_as_room_allows() -> None:
    note = Verdict(name="low-accept", severity="notice", since=0.0, sentence="1.2 tokens per step")
    snapshot = changed(frames.slow(), notes=(note,)).snapshot
    rows = [plain(row) for row in reasons(snapshot, 120, 6)]
    assert [row[3:11] for row in rows] == ["step 137", "likely: ", "next:   ", "also:   "]
    assert "low accept: 1.2 tokens per step" in rows[3]
    assert [plain(row)[3:11] for row in reasons(snapshot, 80, 2)] == ["step 137", "likely: "]
    assert reasons(snapshot, 80, 0) == []


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
