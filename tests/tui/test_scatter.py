"""The picture of step time over context is honest: from zero, present marked, and shaded where nobody measured."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.widgets.plot import GUTTER
from ddwatch.widgets.rows import plain, width_of
from ddwatch.widgets.scatter import CurveDot, Scatter, draw
from tests.tui.test_plot import cells_of

CURVE = tuple(CurveDot(x, 20 + x / 100, 16 + x / 100, 24 + x / 100, 1000 <= x <= 6000) for x in range(0, 10001, 250))
NUMBERS = st.floats(min_value=0, max_value=1e9)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20),
    st.lists(st.builds(CurveDot, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans()), max_size=10),
    st.none() | st.tuples(NUMBERS, NUMBERS),
    st.integers(0, 90),
    st.integers(0, 20),
    st.booleans(),
)
def test_exactly_height_rows_of_width_cells(
    points: list[tuple[float, float]],
    curve: list[CurveDot],
    here: tuple[float, float] | None,
    width: int,
    height: int,
    ascii_only: bool,
) -> None:
    curve.sort(key=lambda dot: dot.x)
    scatter = Scatter(points=points, curve=curve, here=here, x_limit=8e3, y_limit=160.0, ascii=ascii_only)
    rows = draw(scatter, width, height)
    assert len(rows) == height
    assert all(width_of(row) == width for row in rows)


def test_both_axes_begin_at_zero_and_say_their_ends() -> None:
    rows = [plain(row) for row in draw(Scatter(points=(), x_limit=8e3, y_limit=160.0), 66, 8)]
    assert rows[0].startswith(" 160 ┤")
    assert rows[6].startswith("   0 ┤")
    assert rows[7].split() == ["0", "4k", "8k"]


def test_where_nobody_measured_is_shaded_and_named_and_has_no_band() -> None:
    rows = draw(Scatter(points=(), curve=CURVE, x_limit=1e4, y_limit=160.0), 66, 9)
    shaded = {x - GUTTER for x, _ in cells_of(rows, "outside")}
    band = {x - GUTTER for role in ("band", "band-full", "expected-on-band") for x, _ in cells_of(rows, role)}
    assert band == set(range(6, 36))
    assert shaded == set(range(6)) | set(range(36, 60))
    assert sum("outside evidence" in plain(row) for row in rows) == 1
    # The model still guesses there, as a broken line.
    assert any(x - GUTTER > 40 for x, _ in cells_of(rows, "expected"))


def test_without_a_model_nothing_is_shaded() -> None:
    rows = draw(Scatter(points=[(2000.0, 50.0)], x_limit=8e3, y_limit=160.0), 66, 8)
    assert cells_of(rows, "outside") == set()
    assert len(cells_of(rows, "measured")) == 1


def test_what_lies_beyond_the_axes_is_not_drawn_at_their_edge() -> None:
    steep = tuple(CurveDot(x, x / 10, x / 11, x / 9, True) for x in range(0, 8001, 250))
    rows = draw(Scatter(points=[(9e9, 50.0), (100.0, 9e9)], curve=steep, x_limit=8e3, y_limit=160.0), 66, 8)
    assert cells_of(rows, "measured") == set()
    assert max(x for role in ("expected", "expected-on-band") for x, _ in cells_of(rows, role)) < 30


def test_the_present_stands_out_among_the_others() -> None:
    many = [(float(x), 20 + x / 100) for x in range(1000, 6000, 20)]
    rows = draw(Scatter(points=many, curve=CURVE, here=(5900.0, 140.0), x_limit=1e4, y_limit=160.0), 66, 9)
    assert cells_of(rows, "here") == {(GUTTER + 35, 1)}
    assert "◆" in plain(rows[1])


def test_ascii_draws_the_same_story() -> None:
    here = (5900.0, 140.0)
    drawn = draw(Scatter(points=[(2e3, 60.0)], curve=CURVE, here=here, x_limit=1e4, y_limit=160.0, ascii=True), 66, 9)
    text = "\n".join(plain(row) for row in drawn).translate({ord("┤"): "|", ord("│"): "|"})
    assert text.isascii()
    assert all(sign in text for sign in "@o=/")
