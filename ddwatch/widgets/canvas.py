"""A grid of braille dots: set dots per layer, read back one sign per cell."""

from collections.abc import Iterable

BRAILLE = 0x2800
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bit of each dot of a braille sign, by column and row."""
ROWS_OF = tuple(tuple(row for row in range(4) if bits & (DOTS[0][row] | DOTS[1][row])) for bits in range(256))
"""Which dot rows of a cell are in use, by its bits."""


class Layer:
    """Dots of one meaning; `width` and `height` are in cells, dots are twice as many across and four times down."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.across = width * 2
        self.down = height * 4
        self._cells = [0] * (width * height)

    def dot(self, x: int, y: int) -> None:
        """Sets one dot; outside the grid nothing happens."""
        if 0 <= x < self.across and 0 <= y < self.down:
            self._cells[(y >> 2) * self.width + (x >> 1)] |= DOTS[x & 1][y & 3]

    def column(self, x: int, ys: Iterable[int]) -> None:
        """Sets several dots of one dot column."""
        for y in ys:
            self.dot(x, y)

    def line(self, x0: int, y0: int, x1: int, y1: int) -> None:
        """A connected line from left to right; a steep part is drawn as a vertical stroke in its column."""
        if x1 <= x0:
            self.column(x0, range(min(y0, y1), max(y0, y1) + 1))
            return
        before = y0
        for x in range(x0, x1 + 1):
            y = round(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
            # The stroke begins one dot after the last column's so that a slope stays one dot thin.
            if y > before + 1:
                self.column(x, range(before + 1, y + 1))
            elif y < before - 1:
                self.column(x, range(y, before))
            else:
                self.dot(x, y)
            before = y

    def bits(self, column: int, row: int) -> int:
        """The dots of one cell, 0 for none."""
        return self._cells[row * self.width + column]


FULL = 0xFF
"""All dots of a cell."""


def braille(bits: int) -> str:
    """The braille sign of a cell's dots."""
    return chr(BRAILLE + bits) if bits else " "


def stroke(bits: int) -> str:
    """The ASCII sign nearest to a cell's dots: three heights, or a bar where the line is steep."""
    rows = ROWS_OF[bits]
    if not rows:
        return " "
    if len(rows) > 2:
        return "|"
    middle = (rows[0] + rows[-1]) / 2
    if middle < 1:
        return "'"
    return "-" if middle < 2.5 else "_"
