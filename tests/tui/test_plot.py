"""The plot is honest: noise looks flat, gaps stay gaps, contaminated samples are dots, the axis starts at zero."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.widgets.axis import limit
from ddwatch.widgets.plot import GUTTER, Kind, Mark, Plot, Reading, draw, usual_distance
from ddwatch.widgets.rows import Row, plain, width_of

END = 1_777_636_800.0


def drawn(readings: Sequence[Reading], *, top: float = 150.0, ascii_only: bool = False, **more: object) -> list[str]:
    plot = Plot(readings=readings, end=END, window=300.0, limit=top, ascii=ascii_only, **more)  # type: ignore[arg-type]
    return [plain(row) for row in draw(plot, 66, 7)]


def cells_of(rows: Sequence[Row], role: str) -> set[tuple[int, int]]:
    """(column, row) of every cell of a role."""
    found = set()
    for y, row in enumerate(rows):
        x = 0
        for text, kind in row:
            for sign in text:
                if kind == role and sign != " ":
                    found.add((x, y))
                x += 1
    return found


def steady(first: int = 300, last: int = 0, value: float = 100.0, kind: Kind = "clean") -> list[Reading]:
    """A reading each second from `first` to `last` seconds before the end."""
    return [Reading(END - before, kind, value) for before in range(first, last, -1)]


KINDS = st.sampled_from(["clean", "tainted", "idle", "gap"])
VALUES = st.one_of(st.none(), st.floats(min_value=0, max_value=1e7), st.floats(min_value=-10, max_value=0))
READINGS = st.lists(
    st.builds(
        Reading,
        st.floats(min_value=END - 5000, max_value=END + 100),
        KINDS,
        VALUES,
        st.one_of(st.none(), st.floats(min_value=0, max_value=1e4)),
        st.one_of(st.none(), st.floats(min_value=0, max_value=1e4)),
    ),
    max_size=40,
).map(lambda found: sorted(found, key=lambda reading: reading.at))


@given(
    READINGS,
    st.integers(0, 90),
    st.integers(0, 20),
    st.booleans(),
    st.sampled_from([60.0, 300.0, 900.0, 3600.0]),
    st.floats(min_value=0.1, max_value=1e6),
)
def test_exactly_height_rows_of_width_cells(
    readings: list[Reading], width: int, height: int, ascii_only: bool, window: float, top: float
) -> None:
    marks = (Mark(END - 10, "▲", "text"), Mark(END + 900, "✗", "page"))
    plot = Plot(readings=readings, end=END, window=window, limit=top, ascii=ascii_only, marks=marks)
    rows = draw(plot, width, height)
    assert len(rows) == height
    assert all(width_of(row) == width for row in rows)


def test_noise_between_100_and_101_is_a_flat_line() -> None:
    noisy = [Reading(END - before, "clean", 100.0 + before % 2) for before in range(300, 0, -1)]
    top = limit(None, 101.0, 10.0)
    rows = draw(Plot(readings=noisy, end=END, window=300.0, limit=top), 66, 7)
    assert len({y for _, y in cells_of(rows, "measured")}) == 1
    assert plain(rows[0]).startswith(" 120 ┤")
    assert plain(rows[5]).startswith("   0 ┤")


def test_a_fall_to_a_quarter_reaches_the_lower_quarter() -> None:
    falling = [Reading(END - before, "clean", 32 + 106 * before / 300) for before in range(300, 0, -1)]
    rows = draw(Plot(readings=falling, end=END, window=300.0, limit=160.0), 66, 7)
    places = cells_of(rows, "measured")
    assert min(y for x, y in places if x < GUTTER + 3) == 0
    assert min(y for x, y in places if x > 62) == 4


@pytest.mark.parametrize("kind", ["idle", "gap"])
def test_the_line_is_never_joined_across_an_idle_stretch_or_a_gap(kind: Kind) -> None:
    readings = [*steady(300, 200), Reading(END - 200, kind), *steady(100, 0)]
    places = {
        x for x, y in cells_of(draw(Plot(readings=readings, end=END, window=300.0, limit=150.0), 66, 7), "measured")
    }
    assert places & set(range(29, 44)) == set()
    # The base says why the space is empty.
    assert kind in drawn(readings)[5]


def test_a_gap_of_no_length_breaks_the_line_and_is_marked() -> None:
    readings = [*steady(300, 150), Reading(END - 150, "gap"), *steady(150, 0)]
    assert "┊" in drawn(readings)[0]


def test_sparse_readings_are_joined_when_that_is_their_cadence() -> None:
    sparse = [Reading(END - before, "clean", 100.0) for before in range(300, 0, -20)]
    columns = {
        x for x, _ in cells_of(draw(Plot(readings=sparse, end=END, window=300.0, limit=150.0), 66, 7), "measured")
    }
    assert columns >= set(range(GUTTER + 1, 60))


def test_a_silence_out_of_cadence_is_not_joined() -> None:
    readings = [*steady(300, 200), *steady(150, 0)]
    columns = {
        x for x, _ in cells_of(draw(Plot(readings=readings, end=END, window=300.0, limit=150.0), 66, 7), "measured")
    }
    assert columns & set(range(28, 35)) == set()


def test_contaminated_readings_are_single_dim_dots_that_join_nothing() -> None:
    readings = steady(290, 0, kind="tainted")[::20]
    rows = draw(Plot(readings=readings, end=END, window=300.0, limit=150.0), 66, 7)
    assert cells_of(rows, "measured") == set()
    assert len(cells_of(rows, "tainted")) == len(readings)


def test_the_band_lies_behind_the_line() -> None:
    readings = [Reading(END - before, "clean", 100.0, 80.0, 120.0) for before in range(300, 0, -1)]
    rows = draw(Plot(readings=readings, end=END, window=300.0, limit=150.0), 66, 13)
    assert cells_of(rows, "measured-on-band")
    assert {y for _, y in cells_of(rows, "measured-on-band")} == {4}
    assert {y for _, y in cells_of(rows, "band")} == {2, 3, 5}
    assert cells_of(rows, "band") & cells_of(rows, "measured-on-band") == set()


def test_what_is_above_the_axis_stays_at_its_upper_edge() -> None:
    rows = draw(Plot(readings=[Reading(END - 50, "tainted", 9e9)], end=END, window=300.0, limit=150.0), 66, 7)
    assert {y for _, y in cells_of(rows, "tainted")} == {0}


def test_the_spread_within_a_column_is_drawn() -> None:
    readings = [Reading(END - before / 10, "clean", 20.0 if before % 2 else 140.0) for before in range(3000, 0, -1)]
    rows = draw(Plot(readings=readings, end=END, window=300.0, limit=150.0), 66, 7)
    assert {y for _, y in cells_of(rows, "measured")} == {0, 1, 2, 3, 4, 5}


def test_the_picture_moves_by_whole_columns_only() -> None:
    rng = random.Random(5)
    readings = [Reading(END - before, "clean", rng.uniform(20, 140)) for before in range(300, 0, -1)]

    def at(end: float) -> list[str]:
        rows = draw(Plot(readings=readings, end=end, window=300.0, limit=150.0), 66, 7)
        return [plain(row)[GUTTER:] for row in rows[:6]]

    # 60 cells for 300 s: a cell is 5 s, so five seconds later the same picture stands one cell to the left.
    assert [row[1:] for row in at(END)] == [row[:-1] for row in at(END + 5)]


def test_events_stand_on_the_time_axis_and_labels_give_way() -> None:
    rows = drawn(steady(), marks=(Mark(END - 120, "✗", "page"),))
    assert "✗" in rows[6]
    assert "11:58" not in rows[6]
    assert "11:57" in rows[6]


def test_ascii_draws_the_same_story() -> None:
    rows = drawn(steady(300, 150), ascii_only=True)
    assert all(row.isascii() for row in (row.translate({ord("┤"): "|", ord("│"): "|"}) for row in rows))
    assert any("---" in row or "'''" in row for row in rows)


def test_the_usual_distance_is_a_median_and_bounded() -> None:
    assert usual_distance([]) == 60.0
    assert usual_distance(steady(10, 0)) == 1.0
    assert usual_distance([Reading(0.0, "clean", 1.0), Reading(500.0, "clean", 1.0)]) == 60.0
