"""A repaint covers every cell that changed, and not the rest of a long sentence in which one figure moved."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ddwatch.widgets.drawn import changed_cells
from ddwatch.widgets.rows import Role, Row, block


def row(*spans: tuple[str, Role], width: int = 40) -> Row:
    return block([spans], width, 1, "text")[0]


def cells(given_row: Row) -> list[tuple[str, Role]]:
    """Each cell with its character; the second cell of a wide one holds nothing of its own."""
    found: list[tuple[str, Role]] = []
    for text, role in given_row:
        for mark in text:
            if cell_len(mark):
                found += [(mark, role), *[("", role)] * (cell_len(mark) - 1)]
            elif found:
                found[-1] = (found[-1][0] + mark, found[-1][1])
    return found


def test_of_a_sentence_only_the_figure_is_painted_anew() -> None:
    assert changed_cells(row(("no decode line for 16 s", "text")), row(("no decode line for 17 s", "text"))) == (20, 21)
    assert changed_cells(row(("no line for 9 s", "text")), row(("no line for 10 s", "text"))) == (12, 16)


def test_another_role_is_another_picture() -> None:
    assert changed_cells(row(("same", "text")), row(("same", "faint"))) == (0, 4)


def test_equal_rows_need_nothing() -> None:
    assert changed_cells(row(("same", "text")), row(("same", "text"))) is None


def test_characters_that_may_be_wide_or_join_are_not_cut() -> None:
    before, after = row(("cafe\u0301 1", "text")), row(("cafe 1", "text"))
    changed = changed_cells(before, after)
    assert changed is not None
    assert changed[0] <= 3


ROLES = st.sampled_from(("text", "strong", "faint"))
SPANS = st.lists(st.tuples(st.text("ab 1…é語\u0301", max_size=6), ROLES), max_size=4)


@given(SPANS, SPANS)
def test_what_lies_outside_is_the_same_before_and_after(
    before: list[tuple[str, Role]], after: list[tuple[str, Role]]
) -> None:
    old, new = row(*before), row(*after)
    changed = changed_cells(old, new)
    if changed is None:
        assert old == new
        return
    first, last = changed
    was, now = cells(old), cells(new)
    assert len(was) == len(now) == 40
    assert was[:first] == now[:first]
    assert was[last:] == now[last:]
