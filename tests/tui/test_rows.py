"""Rows of styled text have exactly the width that was asked for, and carry nothing that a terminal would obey."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.widgets.rows import (
    block,
    clean,
    faded,
    fit,
    heading,
    merged,
    plain,
    spread,
    to_ascii,
    width_of,
    wrapped,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Mn", "Me", "Cf", "Mc")), max_size=30)


@given(TEXTS, TEXTS, st.integers(0, 60))
def test_fitted_rows_have_the_width(first: str, second: str, width: int) -> None:
    assert width_of(fit(((first, "text"), (second, "label")), width)) == width


@given(TEXTS, TEXTS, st.integers(1, 60))
def test_spread_rows_have_the_width(left: str, right: str, width: int) -> None:
    assert width_of(spread(((left, "text"),), ((right, "label"),), width)) == width


@given(TEXTS, st.integers(1, 60))
def test_headings_have_the_width(title: str, width: int) -> None:
    assert width_of(heading(title, "ms", "5 min", width)) == width


@given(st.text(max_size=40))
def test_no_control_byte_of_the_world_is_left(text: str) -> None:
    assert clean(text).isprintable()
    assert "\x1b" not in clean("\x1b[31mred\x07")


@given(TEXTS)
def test_ascii_keeps_the_width(text: str) -> None:
    assert to_ascii(text).isascii()
    assert width_of(((to_ascii(text), "text"),)) == width_of(((text, "text"),))


def test_what_is_cut_says_so_but_lost_blanks_do_not() -> None:
    assert plain(fit((("throughput", "text"),), 6)) == "throu…"
    assert plain(fit((("thru      ", "text"),), 6)) == "thru  "
    assert plain(fit((("– a", "text"), ("   ", "label"), ("  ", "text")), 5)) == "– a  "


def test_the_right_end_keeps_its_place_and_never_touches_the_left() -> None:
    assert plain(spread((("abcdefgh", "text"),), (("xyz", "label"),), 10)) == "abcde… xyz"


def test_neighbours_of_one_role_become_one_span() -> None:
    assert merged((("a", "text"), ("", "label"), ("b", "text"), ("c", "label"))) == (("ab", "text"), ("c", "label"))


def test_a_block_is_cut_and_filled() -> None:
    assert [plain(row) for row in block([(("abc", "text"),)], 2, 2)] == ["a…", "  "]
    assert block([(("a", "text"),), (("b", "text"),)], 1, 1) == ((("a", "text"),),)


def test_faded_rows_have_no_colour_left() -> None:
    assert faded([(("1", "measured"), ("─", "faint"), ("x", "page"))]) == [
        (("1", "tainted"), ("─", "faint"), ("x", "tainted"))
    ]


@given(TEXTS, st.integers(4, 40), st.integers(1, 4))
def test_wrapped_lines_stay_inside(text: str, width: int, limit: int) -> None:
    lines = wrapped(text, width, limit)
    assert len(lines) <= limit
    assert all(width_of(((line, "text"),)) <= width for line in lines)


def test_a_sentence_is_wrapped_at_blanks_and_ends_in_dots_when_it_is_too_long() -> None:
    assert wrapped("the engine died of an illegal access", 14, 2) == ["the engine", "died of an il…"]
    assert wrapped("", 14, 2) == []
