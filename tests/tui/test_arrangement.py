"""Panels never overlap, never leave the screen, fill it, and fold by priority."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.screens.arrangement import arrange, verdict_height
from ddwatch.screens.overview import Held

WIDTHS, HEIGHTS = st.integers(60, 220), st.integers(16, 80)


@pytest.mark.parametrize("height", range(16, 34))
@pytest.mark.parametrize("cards", [0, 8])
def test_the_longest_verdict_of_a_low_screen_leaves_the_keys_their_row(height: int, cards: int) -> None:
    places = arrange(80, height, wanted=20, cards=cards)
    assert all(place.y + place.height <= height - 1 for name, place in places.items() if name != "keys")


CARDS = st.sampled_from([0, 1, 2, 8, 16, 64])


@given(WIDTHS, HEIGHTS, st.sampled_from([1, 2, 8, 64]), st.integers(0, 20), st.booleans(), CARDS)
def test_panels_lie_inside_and_never_overlap(
    width: int, height: int, ranks: int, wanted: int, data: bool, cards: int
) -> None:
    taken: set[tuple[int, int]] = set()
    for place in arrange(width, height, ranks=ranks, cards=cards, wanted=wanted, data=data).values():
        cells = {(x, y) for x in range(place.x, place.x + place.width) for y in range(place.y, place.y + place.height)}
        assert place.width > 0
        assert place.height > 0
        assert not cells & taken
        assert all(x < width and y < height for x, y in cells)
        taken |= cells
    # Every row is used from its first cell on; only the space between panels side by side is free.
    assert {y for x, y in taken if x == 0} == set(range(height))


@given(WIDTHS, HEIGHTS, st.sampled_from([1, 8]))
def test_what_matters_most_is_always_there(width: int, height: int, ranks: int) -> None:
    assert {"server", "verdict", "throughput", "accept", "latency", "keys"} <= arrange(
        width, height, ranks=ranks
    ).keys()


@given(st.integers(1, 59), st.integers(1, 80))
def test_a_narrow_screen_has_only_the_brief_reading(width: int, height: int) -> None:
    assert arrange(width, height) == {"brief": (0, 0, width, height)}


def test_a_low_screen_has_only_the_brief_reading() -> None:
    assert arrange(200, 15) == {"brief": (0, 0, 200, 15)}


def test_panels_fold_by_priority() -> None:
    assert arrange(60, 16).keys() == {"server", "verdict", "throughput", "accept", "latency", "keys"}
    assert arrange(80, 24).keys() == arrange(60, 16).keys() | {"events", "sources"}
    assert arrange(120, 24).keys() == arrange(80, 24).keys() | {"step"}
    assert arrange(120, 40).keys() == arrange(80, 24).keys() | {"step", "load"}
    assert arrange(120, 40, ranks=8).keys() == arrange(80, 24).keys() | {"load", "ranks"}
    assert arrange(160, 50).keys() == arrange(120, 40).keys()


@given(WIDTHS, HEIGHTS, st.sampled_from([1, 8]), CARDS)
def test_cards_take_room_only_where_there_are_any_and_never_that_of_what_matters_more(
    width: int, height: int, ranks: int, cards: int
) -> None:
    shown = arrange(width, height, ranks=ranks, cards=cards).keys()
    assert {"server", "verdict", "throughput", "accept", "latency", "keys"} <= shown
    assert ("gpus" in shown) == (cards > 0)
    assert "events" in shown or height < 20


@given(WIDTHS, st.integers(32, 80), st.sampled_from([1, 8]), st.integers(1, 64), st.integers(0, 20))
def test_a_longer_verdict_moves_no_panel_away(width: int, height: int, ranks: int, cards: int, wanted: int) -> None:
    assert (
        arrange(width, height, ranks=ranks, cards=cards, wanted=wanted).keys()
        == arrange(width, height, ranks=ranks, cards=cards).keys()
    )


def test_cards_are_a_row_on_a_low_screen_and_a_table_on_a_tall_one() -> None:
    low = arrange(80, 24, cards=8)
    assert (low["gpus"].height, low["gpus"].y) == (1, low["sources"].y - 1)
    assert low.keys() == arrange(80, 24).keys() | {"gpus"}
    assert arrange(80, 30, cards=8)["gpus"].height == 3
    for width, height in ((80, 40), (120, 40), (200, 50)):
        assert arrange(width, height, cards=8, wanted=9)["gpus"].height >= 10
        assert arrange(width, height, cards=1, wanted=9)["gpus"].height >= 3
    assert arrange(120, 40, cards=8).keys() == arrange(120, 40).keys() - {"load"} | {"gpus"}
    assert arrange(120, 40, cards=1).keys() == arrange(120, 40).keys() | {"gpus"}
    assert arrange(120, 40, cards=16)["gpus"].height >= 10
    assert arrange(80, 40, cards=16)["gpus"].height == 3
    both = arrange(120, 40, cards=8, ranks=8)
    assert both["gpus"].y == both["ranks"].y


@given(WIDTHS, HEIGHTS, st.sampled_from(["throughput", "step", "events", "ranks"]))
def test_an_expanded_panel_has_what_the_verdict_leaves(width: int, height: int, panel: str) -> None:
    places = arrange(width, height, expanded=panel)
    assert places.keys() == {"server", "verdict", panel, "keys"}
    assert places[panel].height == height - 5 - (height >= 20)


@given(st.integers(16, 80), st.integers(0, 20))
def test_the_verdict_gets_the_rows_that_it_wants_and_never_the_screen(height: int, wanted: int) -> None:
    rows = verdict_height(height, wanted)
    assert 3 <= rows <= 9
    assert rows <= height / 3
    assert rows <= verdict_height(height + 1, wanted)
    assert rows <= verdict_height(height, wanted + 1) <= rows + 1


def test_a_block_that_has_grown_shrinks_only_after_a_while() -> None:
    held = Held(60.0)
    assert [held.see(at, value) for at, value in ((0, 4), (1, 6), (2, 4), (40, 6), (99, 4), (101, 4), (102, 5))] == [
        4, 6, 6, 6, 6, 4, 5,
    ]  # fmt: skip
    # A replay that goes back in time begins anew.
    assert held.see(10, 3) == 3


def test_before_data_the_middle_is_one_face() -> None:
    assert arrange(80, 24, data=False).keys() == {"server", "waiting", "keys"}
