"""Step time against context: the model's curve and band, what was measured, and where the model only guesses.

Pure: a curve, points, a width and a height in, exactly that many rows and cells out. Both axes begin at zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ddwatch.widgets.axis import label
from ddwatch.widgets.canvas import FULL, Layer, braille
from ddwatch.widgets.plot import GUTTER, axis_label, write_whole
from ddwatch.widgets.rows import Role, Row, Span, block, merged

OUTSIDE_WORDS = (" outside evidence ", " no evidence ", " unseen ", " ? ")
"""What is written on the shaded region, the longest that fits."""
DASH = 2
"""Dots of a dash, and of the space after it, of the curve where it guesses."""


class CurveDot(NamedTuple):
    """The model at one context."""

    x: float
    middle: float
    low: float
    high: float
    covered: bool
    """Whether the evidence reaches here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Everything that the picture shows; x and y in the units of their axes."""

    points: Sequence[tuple[float, float]]
    curve: Sequence[CurveDot] = ()
    """In order of x."""
    here: tuple[float, float] | None = None
    """The present reading."""
    x_limit: float
    y_limit: float
    ascii: bool = False


class _Picture:
    """The layers of one scatter plot while it is drawn; sizes in cells."""

    def __init__(self, scatter: Scatter, width: int, height: int) -> None:
        self.scatter = scatter
        self.width, self.height = width, height
        self.points = Layer(width, height)
        self.curve = Layer(width, height)
        self.band = Layer(width, height)
        self.outside = [bool(scatter.curve)] * width

    def x(self, value: float) -> int:
        """The dot column of a value; it may lie right of the picture."""
        return int(min(2.0, value / self.scatter.x_limit) * (self.width * 2 - 1) + 0.5)

    def y(self, value: float) -> int:
        """The dot row of a value; it may lie above the picture."""
        return round((1 - min(2.0, value / self.scatter.y_limit)) * (self.height * 4 - 1))

    def draw_points(self) -> None:
        """One dot per point, none where the axis ends."""
        across = (self.width * 2 - 1) / self.scatter.x_limit
        down = self.height * 4 - 1
        up = down / self.scatter.y_limit
        ends = self.scatter.x_limit, self.scatter.y_limit
        inside = ((x, y) for x, y in self.scatter.points if x <= ends[0] and y <= ends[1])
        for x, y in {(int(x * across + 0.5), round(down - y * up)) for x, y in inside}:
            self.points.dot(x, y)

    def draw_curve(self) -> None:
        """Line and band where the model knows; a dashed line alone where it guesses."""
        curve = self.scatter.curve
        for before, after in pairwise(curve):
            covered = before.covered and after.covered
            first, last = self.x(before.x), self.x(after.x)
            above: int | None = None
            for x in range(max(0, first), min(self.width * 2 - 1, last) + 1):
                share = (x - first) / (last - first) if last > first else 0.0
                middle = self.y(before.middle + (after.middle - before.middle) * share)
                if covered:
                    self.outside[x >> 1] = False
                    top = self.y(before.high + (after.high - before.high) * share)
                    bottom = self.y(before.low + (after.low - before.low) * share)
                    self.band.column(x, range(max(0, top), bottom + 1))
                if covered or x // DASH % 2 == 0:
                    # A steep piece stays connected: it begins one dot after the last one.
                    start = middle if above is None else min(middle, above - 1)
                    stop = middle if above is None else max(start, min(middle, above - 1))
                    self.curve.column(x, range(max(0, start), max(start, stop) + 1))
                above = middle

    def cell(self, column: int, row: int) -> Span:
        """The sign and role of one cell: measured before the curve, the curve before its band."""
        shaded = self.band.bits(column, row)
        bits = self.points.bits(column, row)
        if bits:
            return "o" if self.scatter.ascii else braille(bits), "measured-on-band" if bits & shaded else "measured"
        bits = self.curve.bits(column, row)
        if bits:
            return "=" if self.scatter.ascii else braille(bits), "expected-on-band" if bits & shaded else "expected"
        if shaded:
            return ":" if self.scatter.ascii else braille(shaded), "band-full" if shaded == FULL else "band"
        if self.outside[column]:
            pattern = "/" if self.scatter.ascii else "╱"
            return pattern if (column + row) % 3 == 0 else " ", "outside"
        return " ", "text"


def _name_outside(picture: _Picture, grid: list[list[Span]]) -> None:
    """Writes on the widest shaded stretch what it is, on the row where most of it is free."""
    stretches: list[tuple[int, int]] = []
    begin: int | None = None
    for column, outside in enumerate([*picture.outside, False]):
        if outside and begin is None:
            begin = column
        elif not outside and begin is not None:
            stretches.append((begin, column))
            begin = None
    for begin, end in sorted(stretches, key=lambda each: each[0] - each[1])[:1]:
        for words in OUTSIDE_WORDS:
            first = begin + (end - begin - len(words)) // 2
            # From the bottom up: that is where a curve is not.
            for cells in reversed(grid[1:] or grid):
                if first >= begin and all(role == "outside" for _, role in cells[first : first + len(words)]):
                    cells[first : first + len(words)] = [(sign, "label") for sign in words]
                    return


def _context_row(scatter: Scatter, width: int) -> Row:
    """Zero, half and limit under the picture."""
    cells: list[Span] = [(" ", "label")] * width
    end = label(scatter.x_limit)
    write_whole(cells, 0, "0")
    write_whole(cells, width - len(end), end)
    half = label(scatter.x_limit / 2)
    write_whole(cells, width // 2 - len(half) // 2, half)
    return tuple(cells)


def draw(scatter: Scatter, width: int, height: int) -> tuple[Row, ...]:
    """The picture in exactly `height` rows of `width` cells: gutter, field and, from four rows on, the contexts."""
    across = width - GUTTER
    with_contexts = height >= 4
    down = height - with_contexts
    if across < 4 or down < 1:
        return block((), width, height)
    picture = _Picture(scatter, across, down)
    picture.draw_curve()
    picture.draw_points()
    grid = [[picture.cell(column, row) for column in range(across)] for row in range(down)]
    if scatter.curve:
        _name_outside(picture, grid)
    if scatter.here is not None:
        column = min(across - 1, max(0, picture.x(scatter.here[0]) // 2))
        row = min(down - 1, max(0, picture.y(scatter.here[1]) // 4))
        role: Role = "here"
        grid[row][column] = ("@" if scatter.ascii else "◆", role)
    rows: list[Row] = []
    for row, cells in enumerate(grid):
        text, sign = axis_label(row, down, scatter.y_limit)
        rows.append(merged(((f"{text:>4} ", "label"), (sign, "faint"), *cells)))
    if with_contexts:
        rows.append(merged(((" " * GUTTER, "label"), *_context_row(scatter, across))))
    return block(rows, width, height)
