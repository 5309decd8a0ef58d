"""Events, sources and ranks as rows: what happened, where the data comes from, who is slow."""

from datetime import timedelta, timezone

from msgspec.structs import replace

from ddwatch.core.snapshot import Event, SelfView, SourceView, UnreadExample
from ddwatch.widgets.events import event_rows, when
from ddwatch.widgets.ranks import columns, rank_row
from ddwatch.widgets.rows import plain
from ddwatch.widgets.sources import one_line, source_rows, unread_rows
from ddwatch.widgets.view import View
from tests.tui import frames
from tests.tui.frames import NOON

LIVE = View(link="live")
UTC = timezone.utc


def test_an_event_has_its_local_time_sign_kind_and_words() -> None:
    event = Event(seq=1, at=NOON - 90, kind="retract", severity="notice", text="KV pool full", count=3)
    assert plain(event_rows(event, NOON, UTC, 80)[0]) == " 11:58:30 ! retract     KV pool full ×3"
    east = timezone(timedelta(hours=2))
    assert (
        plain(event_rows(event, NOON, east, 80, date=True)[0]) == " 2026-05-01 13:58:30 ! retract     KV pool full ×3"
    )
    narrow = [plain(row) for row in event_rows(event, NOON, UTC, 36)]
    assert narrow == [" 11:58:30 ! retract     KV pool", " " * 24 + "full ×3"]
    assert [plain(row) for row in event_rows(event, NOON, UTC, 36, 1)] == [" 11:58:30 ! retract     KV pool fu…"]


def test_an_event_of_another_day_shows_the_day() -> None:
    assert when(NOON - 86_400, NOON, UTC) == "Apr 30  "
    assert len(when(NOON - 86_400, NOON, UTC)) == len(when(NOON, NOON, UTC))


def test_words_of_the_world_cannot_steer_the_terminal() -> None:
    event = Event(seq=1, at=NOON, kind="crash", severity="page", text="\x1b]0;owned\x07")
    assert plain(event_rows(event, NOON, UTC, 80)[0]).isprintable()


def test_the_sources_in_one_line_at_three_widths() -> None:
    frame = frames.founding()
    assert plain(one_line(frame, LIVE, 80)) == (
        " ● sglang.log  <10 s ago · 12 345 lines · 0 unread     sidecar 0.4 % cpu, 52 MB "
    )
    assert plain(one_line(frame, LIVE, 60)).startswith(" ● sglang.log  <10 s ago · 12 ")
    assert len(plain(one_line(frame, LIVE, 120))) == 120


def test_the_one_line_shows_the_source_in_trouble_and_how_many_there_are() -> None:
    frame = frames.founding()
    bad = SourceView(name="loads", state="lost", detail="404")
    several = replace(frame, snapshot=replace(frame.snapshot, sources=(*frame.snapshot.sources, bad)))
    assert plain(one_line(several, LIVE, 80)).startswith(" ✗ loads lost  404 · 1 more")
    none = replace(frame, snapshot=replace(frame.snapshot, sources=(), watch=SelfView()))
    assert plain(one_line(none, LIVE, 60)).split() == ["no", "source", "yet", "sidecar", "–"]


def test_losses_stand_out() -> None:
    source = SourceView(name="log", state="up", last_at=NOON, lines=9, unread=2, rotations=1, gaps=3)
    rows = source_rows(source, frames.founding(), LIVE, 120)
    assert plain(rows[1]) == "   9 lines · 2 unread · 3 gaps · 1 rotations"
    assert ("2 unread", "notice") in rows[1]
    assert ("3 gaps", "notice") in rows[1]
    narrow = source_rows(replace(source, gaps=0, rotations=0), frames.founding(), LIVE, 40)
    assert plain(narrow[1]) == "   9 lines · 2 unread"


def test_a_source_that_never_spoke_says_so() -> None:
    source = SourceView(name="log", state="waiting", detail="not there yet")
    assert plain(source_rows(source, frames.founding(), LIVE, 80)[0]) == " ○ log  waiting  never heard"


def test_lines_that_could_not_be_read_are_shown_with_masked_values() -> None:
    example = UnreadExample(at=NOON, head="Decode batch", example="#running-req: ?, accept len: ?")
    frame = frames.founding()
    unread = replace(frame, snapshot=replace(frame.snapshot, unread_examples=(example,)))
    assert plain(unread_rows(unread)[0]) == " ? unread Decode batch: #running-req: ?, accept len: ?"


def test_a_rank_has_one_aligned_row() -> None:
    frame = frames.dp8()
    rows = [plain(rank_row(rank, frame, LIVE, 80)) for rank in frame.snapshot.ranks]
    assert rows[0] == " DP0       1    6.2k   4.80  55.0  70.0   2 %     0  "
    assert rows[5].endswith("  prefill")
    assert rows[6].endswith("  silent <1 s")
    assert len({row.rstrip("prefilsnt<1 ").rfind("%") for row in rows}) == 1
    assert [name for name, _ in columns(58)] == ["rank", "batch", "context", "accept", "ms", "tok/s", "KV"]


def test_a_contaminated_or_silent_rank_is_dim() -> None:
    frame = frames.dp8()
    roles = [{role for _, role in rank_row(rank, frame, LIVE, 80)} for rank in frame.snapshot.ranks]
    assert "tainted" not in roles[0]
    assert "tainted" in roles[5]
    assert "tainted" in roles[6]
