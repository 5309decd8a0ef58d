"""A table of cards: aligned at every width, columns by worth, the odd card by sign and word, absent never zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ddwatch.core.hardware_view import GpuView
from ddwatch.core.snapshot import Frame
from ddwatch.widgets.gpu_table import COLUMNS, card_row, layout, name_row, rows_needed, sign_of, table
from ddwatch.widgets.gpu_words import (
    error_words,
    gravest,
    link_text,
    normal_words,
    notable,
    odd_words,
    state_word,
    throttle_words,
)
from ddwatch.widgets.rows import plain, to_ascii, width_of
from ddwatch.widgets.trend_line import trend_line
from tests.tui import gpu_frames

STORIES = (
    gpu_frames.loaded, gpu_frames.idle, gpu_frames.throttled, gpu_frames.lost, gpu_frames.straggler,
    gpu_frames.power_cap, gpu_frames.pcie, gpu_frames.errors, gpu_frames.stale, gpu_frames.one, gpu_frames.sixteen,
    gpu_frames.unsupported, gpu_frames.shared_memory,
)  # fmt: skip


def rows(frame: Frame, width: int = 120, room: int = 40, chosen: int | None = None) -> list[str]:
    return [plain(row) for row in table(frame.snapshot.gpus, width, room, chosen)]


def cells(frame: Frame, index: int, width: int = 200) -> dict[str, str]:
    """What stands under each heading."""
    gpus = frame.snapshot.gpus
    plan = layout(gpus, width)
    text = plain(card_row(gpus[index], plan, width))
    found, x = {}, 1
    for column, gap in zip(plan.columns, plan.gaps, strict=True):
        found[column.heading] = text[x + gap : x + gap + column.width].strip()
        x += gap + column.width
    return found


def test_a_healthy_card_in_full() -> None:
    assert cells(gpu_frames.loaded(), 3) == {
        "GPU": "3", "rank": "TP3", "state": "✓ ok", "util %": "97", "mem %": "61", "P": "P1", "SM GHz": "2.42",
        "normal": "2.42", "mem GHz": "12.5", "W/limit": "417/600", "°C": "65", "mem GiB": "88/96", "PCIe": "x16 G5",
        "throttle": "none", "errors": "none", "clock 2 min": "⠈⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉", "power 2 min": "⠐⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒",
        "°C 2 min": "⠐⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒", "util 2 min": "⠈⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉",
    }  # fmt: skip


def test_at_80_columns_what_matters_most_is_left() -> None:
    frame = gpu_frames.throttled()
    names, *cards = rows(frame, 80)
    assert names.split() == ["GPU", "state", "util", "%", "SM", "GHz", "normal", "W/limit", "°C", "PCIe", "throttle"]
    assert cards[5].split() == ["5", "!", "too", "hot", "98", "↓1.62", "2.42", "284/600", "↑88", "x16", "G5", "thermal"]
    assert cards[0].split() == ["0", "✓", "ok", "98", "2.40", "2.42", "414/600", "63", "x16", "G5", "none"]


@given(st.integers(16, 240), st.sampled_from(STORIES))
def test_columns_are_aligned_and_nothing_is_cut_at_any_width(width: int, story: object) -> None:
    gpus = story().snapshot.gpus  # type: ignore[operator]
    plan = layout(gpus, width)
    wanted = width_of(name_row(plan))
    assert wanted <= width
    for gpu in gpus:
        row = card_row(gpu, plan, width)
        assert width_of(row) <= width
        if gpu.state != "lost":
            assert width_of(row) == wanted


@pytest.mark.parametrize("worth", [60, 80, 120, 200])
def test_a_column_gives_way_only_to_those_of_more_worth(worth: int) -> None:
    shown = {column.key for column in layout(gpu_frames.loaded().snapshot.gpus, worth).columns}
    least = min(column.worth for column in COLUMNS if column.key in shown)
    assert all(column.key in shown or column.optional for column in COLUMNS if column.worth > least)


def test_figures_that_change_move_nothing() -> None:
    frame = gpu_frames.loaded()
    gpus = frame.snapshot.gpus
    low = tuple(
        replace(gpu, card=replace(gpu.card, utilization_ratio=0.0, power_watts=7.0, sm_clock_hertz=0.18e9))
        for gpu in gpus
    )
    before, after = table(gpus, 120, 20), table(low, 120, 20)
    assert [width_of(row) for row in before] == [width_of(row) for row in after]
    assert plain(before[0]) == plain(after[0])
    assert plain(before[1]).index("88/96") == plain(after[1]).index("88/96")


def test_a_card_with_longer_limits_and_a_longer_rank_is_not_cut_and_moves_no_other() -> None:
    frame = gpu_frames.loaded()
    gpus = list(frame.snapshot.gpus)
    large = replace(gpus[2].card, power_watts=1012.0, power_limit_watts=1200.0, memory_used_bytes=170 * 2**30)
    gpus[2] = replace(gpus[2], card=large, rank="DP0 TP2", reasons=("hw_slowdown", "hw_thermal_slowdown", "sync_boost"))
    rows = table(gpus, 160, 20)
    assert len({width_of(row) for row in rows}) == 1
    assert " 1012/1200 " in plain(rows[3]) and " DP0 TP2 " in plain(rows[3])
    assert plain(rows[3]).index("x16 G5") == plain(rows[1]).index("x16 G5")


def test_the_odd_card_stands_out_by_sign_word_and_arrow_in_any_colour() -> None:
    frame = gpu_frames.straggler()
    odd = cells(frame, 2)
    assert (odd["state"], odd["mem GHz"]) == ("! straggler", "↓9.00")
    assert cells(gpu_frames.pcie(), 1)["PCIe"] == "x8/16 G4/5"
    assert ("x8/16 G4/5", "notice") in table(gpu_frames.pcie().snapshot.gpus, 120, 20)[2]
    assert [state_word(gpu) for gpu in frame.snapshot.gpus].count("ok") == 7
    assert sign_of(frame.snapshot.gpus) == ("!", "notice")


def test_a_figure_has_the_colour_of_the_gravest_that_shows_in_it() -> None:
    hot = gpu_frames.throttled().snapshot.gpus[5]
    grave = tuple(replace(each, grade="critical") if each.kind == "thermal" else each for each in hot.findings)
    row = table((replace(hot, findings=grave),), 80, 9)[1]
    assert ("↓1.62", "page") in [(text.strip(), role) for text, role in row]


def test_a_resting_card_is_well_though_its_link_and_clock_are_low() -> None:
    resting = cells(gpu_frames.idle(), 0)
    assert (resting["state"], resting["PCIe"], resting["P"], resting["throttle"]) == (
        "✓ idle",
        "x16 G1/5",
        "P8",
        "none",
    )
    assert resting["clock 2 min"] == "⠈⠉⢆⣀⣀⣀⣀⣀⣀⣀⣀⣀"
    assert not any(
        role in ("notice", "page") for row in table(gpu_frames.idle().snapshot.gpus, 120, 20) for _, role in row
    )


def test_a_power_cap_alone_is_told_and_accuses_nobody() -> None:
    capped = gpu_frames.power_cap().snapshot.gpus
    assert {throttle_words(gpu, 11) for gpu in capped} == {("power cap", "text")}
    assert {state_word(gpu) for gpu in capped} == {"ok"}
    assert normal_words(capped) == "8 of 8 normal"


def test_a_lost_card_says_so_in_words_and_keeps_its_row() -> None:
    frame = gpu_frames.lost()
    assert rows(frame, 80)[4].rstrip() == "   3  ✗ lost        Xid 79; GPU is lost"
    assert odd_words(frame.snapshot.gpus[3], frame.snapshot.gpus) == "GPU 3 lost (Xid 79): GPU is lost"
    assert normal_words(frame.snapshot.gpus) == "7 of 8 normal"


def test_stale_cards_are_dim() -> None:
    gpus = gpu_frames.stale().snapshot.gpus
    rest = {role for row in table(gpus, 120, 20)[1:] for _, role in row}
    assert rest == {"tainted"}
    assert (state_word(gpus[0]), normal_words(gpus)) == ("stale", "8 not read")


def test_what_a_card_does_not_report_is_a_dash_and_never_zero() -> None:
    bare = cells(gpu_frames.unsupported(), 0, 120)
    assert [bare[name] for name in ("util %", "normal", "W/limit", "PCIe", "throttle", "errors")] == ["–"] * 6
    assert "rank" not in bare
    unified = cells(gpu_frames.shared_memory(), 0, 120)
    assert (unified["mem GiB"], unified["mem GHz"], unified["W/limit"]) == ("–", "–", "61")


def test_what_failed_on_a_card_is_counted_gravest_first() -> None:
    gpu = gpu_frames.errors().snapshot.gpus[0]
    assert error_words(gpu, 40) == ("ECC 2, reset due, remap, 3 replays", "page")
    assert error_words(gpu, 11) == ("ECC 2 +3", "page")
    seen = replace(gpu_frames.loaded().snapshot.gpus[0], xids={"31": 2})
    assert error_words(seen, 11) == ("Xid 31 ×2", "text")
    loose = replace(seen, xids={}, card=replace(seen.card, nvlinks=18, nvlinks_active=17))
    assert error_words(loose, 12) == ("NVLink 17/18", "text")


def test_a_card_is_named_with_what_sets_it_apart() -> None:
    def said(frame: Frame) -> str:
        gpus = frame.snapshot.gpus
        odd = gravest(gpus)
        assert odd is not None
        return odd_words(odd, gpus)

    assert said(gpu_frames.throttled()) == "GPU 5 too hot, 1.62 GHz, others 2.40, 88 °C"
    assert said(gpu_frames.straggler()) == "GPU 2 straggler, 9.00 GHz memory, others 12.5"
    assert said(gpu_frames.pcie()) == "GPU 1 straggler, PCIe x8/16 G4/5"
    assert said(gpu_frames.errors()) == "GPU 0: ECC 2, reset due, remap"
    assert gravest(gpu_frames.loaded().snapshot.gpus) is None


def test_a_reason_comes_before_what_follows_from_it() -> None:
    assert notable(gpu_frames.throttled().snapshot.gpus[5])[0].kind == "thermal"
    gpu = gpu_frames.throttled().snapshot.gpus[5]
    both = replace(gpu, reasons=("sw_power_cap", "sw_thermal_slowdown"))
    assert throttle_words(both, 11) == ("thermal +1", "notice")
    assert throttle_words(both, 8) == ("thermal", "notice")
    hard = replace(gpu, reasons=("hw_slowdown", "hw_thermal_slowdown", "sw_power_cap"))
    assert throttle_words(hard, 13) == ("HW thermal +1", "notice")
    assert throttle_words(replace(hard, reasons=hard.reasons[:2]), 11) == ("HW thermal", "notice")
    assert throttle_words(replace(hard, reasons=("hw_slowdown",)), 11) == ("HW slowdown", "notice")
    strange = replace(gpu, reasons=("0x400",), findings=())
    assert throttle_words(strange, 11) == ("0x400", "text")


def test_sixteen_cards_stand_in_two_halves_where_there_is_room_and_are_else_told_to_be_hidden() -> None:
    frame = gpu_frames.sixteen()
    assert rows_needed(16, 120) == 9
    assert rows_needed(16, 100) == 17
    halves = rows(frame, 120, 9)
    assert len(halves) == 9
    assert "13  ! too hot" in halves[6] and halves[6].split()[0] == "5"
    few = rows(frame, 80, 8)
    assert len(few) == 8
    assert few[-1] == "   … 10 more, all normal: g"
    assert "13  ! too hot" in few[-2]


def test_a_chosen_card_is_marked() -> None:
    assert [row[0] for row in rows(gpu_frames.one(), chosen=0)] == [" ", "▸"]


def test_half_a_link_is_told_as_far_as_it_is_known() -> None:
    gpu: GpuView = gpu_frames.loaded().snapshot.gpus[0]
    assert link_text(replace(gpu, card=replace(gpu.card, pcie_generation=None))) == "x16 –"
    assert link_text(replace(gpu, card=replace(gpu.card, pcie_width=None, pcie_generation_max=None))) == "–   G5"


def test_a_trend_starts_from_zero_ends_at_the_right_and_breaks_where_nothing_was_read() -> None:
    assert trend_line((1.0, 1.0, 1.0, 1.0), 1.0, 4) == "  ⠉⠉"
    assert trend_line((0.0, 0.0), 1.0, 1) == "⣀"
    assert trend_line((1.0, None, None, 1.0), 1.0, 2) == "⠁⠈"
    assert trend_line((1.0, 0.0), 1.0, 1) == "⢱"
    assert trend_line((5.0,), None, 3) == "   "
    assert trend_line(tuple([0.0] * 99 + [1.0]), 1.0, 2) == "⣀⡸"
    assert to_ascii("⣀⠒⠉") == "_-'"
