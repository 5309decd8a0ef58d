"""The lines at the top and the bottom, the brief reading and the face before data, at three widths each."""

from msgspec.structs import replace

from ddwatch.core.snapshot import Expected, Now, ServerView
from ddwatch.widgets.brief import brief_rows
from ddwatch.widgets.key_line import key_row
from ddwatch.widgets.rows import fit, plain
from ddwatch.widgets.server_line import model_name, server_row
from ddwatch.widgets.view import ReplayStatus, View
from ddwatch.widgets.waiting import waiting_rows
from tests.tui import frames, gpu_frames, model_frames

LIVE = View(link="live")


def server_text(width: int, view: View = LIVE) -> str:
    return plain(server_row(frames.founding(), view, width))


def test_the_server_line_gives_up_its_parts_by_worth() -> None:
    wide = " ddwatch  Kimi-K2.6 · DDTREE budget 32 · TP8 · gpu01:30000 · up 1 h 00 min"
    assert server_text(120) == f"{wide:<113}● live "
    assert server_text(80).startswith(" ddwatch  Kimi-K2.6 · DDTREE budget 32 · TP8 · up 1 h 00 min ")
    assert server_text(40) == " ddwatch  Kimi-K2.6              ● live "
    assert server_text(20).startswith(" ddwatch ")
    assert all(len(server_text(width)) == width for width in range(1, 140))


def test_the_server_line_says_how_the_screen_stands_to_its_data() -> None:
    frozen = replace(LIVE, frozen=True)
    replay = ReplayStatus(position=1.0, duration=2.0, speed=2.5, paused=False)
    for view, words in (
        (replace(LIVE, link="stale", silence=7.0), "○ stale 7 s"),
        (replace(LIVE, link="lost", silence=130.0), "✗ lost 2 min"),
        (replace(LIVE, link="ended"), "✗ feed ended"),
        (frozen, "‖ FROZEN 12:00:00"),
        (replace(LIVE, replay=replay), "▶ replay ×2.5"),
        (replace(LIVE, replay=replace(replay, paused=True)), "‖ paused"),
    ):
        assert server_text(100, view).rstrip().endswith(words)


def test_what_is_not_known_of_a_server_is_not_made_up() -> None:
    frame = frames.founding()
    unnamed = replace(frame, snapshot=replace(frame.snapshot, server=ServerView()))
    assert "server not named yet" in plain(server_row(unnamed, LIVE, 80))
    starting = replace(frame, snapshot=replace(frame.snapshot, server=ServerView(state="starting", model="m")))
    assert " m · starting " in plain(server_row(starting, LIVE, 80))
    assert [model_name(name) for name in (None, "a/b/", "/models/K2")] == ["", "b", "K2"]


def test_the_key_line_keeps_help_and_quit_longest() -> None:
    assert plain(key_row(LIVE, frames.founding(), 110)).startswith(
        " ? help  x why  space freeze  + - window  1-9 panels "
    )
    assert plain(key_row(LIVE, frames.founding(), 60)).startswith(" ? help  x why  + - window  1-9 panels  q quit ")
    assert plain(key_row(LIVE, frames.founding(), 30)) == " ? help  q quit     times UTC "
    with_cards = plain(key_row(LIVE, gpu_frames.loaded(), 110))
    assert "g GPUs" in with_cards and "g GPUs" not in plain(key_row(LIVE, frames.founding(), 110))
    estimated = replace(frames.founding(), snapshot=replace(frames.founding().snapshot, stamped=False))
    assert plain(key_row(LIVE, estimated, 100)).endswith("times UTC (estimated) ")


def brief(width: int, view: View = LIVE) -> list[str]:
    return [plain(fit(row, width)) for row in brief_rows(model_frames.slow(), view)]


def test_the_brief_reading_is_honest_in_its_first_line() -> None:
    assert brief(58)[:4] == [
        f"{'✗ SLOW STEP 20.6 tok/s':<58}",
        f"{'expected 30.9 (28.6…33.4), ratio 0.67':<58}",
        f"{'138 → 20.6 accept ×0.40 context ×0.56 rest ×0.66':<58}",
        f"{'batch 1 context 5.9k accept 2.96 step 144 ms':<58}",
    ]
    assert brief(30)[0] == f"{'✗ SLOW STEP 20.6 tok/s':<30}"
    assert brief(20)[0] == "✗ SLOW STEP 20.6 to…"
    gone = replace(LIVE, link="lost", silence=41.0, trouble="the sidecar is gone")
    assert brief(20, gone)[0] == "✗ lost 41 s  20.6 t…"
    assert "the sidecar is gone" in "\n".join(brief(58, gone))


def test_absent_values_are_dashes_in_the_brief_reading() -> None:
    frame = replace(frames.founding(), snapshot=replace(frames.founding().snapshot, now=Now(), expected=None))
    text = "\n".join(plain(row) for row in brief_rows(frame, LIVE))
    assert "– tok/s" in text
    assert "batch – context – " in text
    assert "no reading yet" in text
    assert "0" not in text.replace("K2.6", "").replace("budget 32", "").split("\n")[0]


def test_the_expected_band_is_shown_when_it_is_known() -> None:
    frame = frames.founding()
    expected = Expected(profile="p", tokens_per_second=30.0, low=25.0, high=35.0, step_seconds=0.1)
    known = replace(frame, snapshot=replace(frame.snapshot, expected=expected))
    assert plain(brief_rows(known, LIVE)[1]) == "expected 30.0 (25.0…35.0)"


def test_the_waiting_face_stands_in_the_middle_at_every_width() -> None:
    view = View(link="waiting", origin="http://127.0.0.1:9477", silence=12.0)
    for width in (60, 80, 120):
        rows = [plain(row) for row in waiting_rows(view, width, 22)]
        title = next(row for row in rows if "waiting" in row)
        assert abs((len(title) - len(title.lstrip())) - (width - len(title.strip())) / 2) <= 1
        assert any("for 12 s" in row for row in rows)
