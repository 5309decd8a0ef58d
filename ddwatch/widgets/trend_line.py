"""The last minutes of one value as a thin line in a few cells: from zero, broken where nothing was read."""

from collections.abc import Sequence

from ddwatch.widgets.canvas import Layer, braille


def trend_line(values: Sequence[float | None], top: float | None, cells: int) -> str:
    """The newest values, one per dot column, at the right end of exactly `cells` cells.

    Args:
        values: in equal steps, newest last.
        top: where the line touches the upper edge; None or 0 draws nothing.
        cells: width.
    """
    layer = Layer(cells, 1)
    if top and top > 0:
        shown = list(values[-layer.across :])
        first = layer.across - len(shown)
        before: int | None = None
        for x, value in enumerate(shown, first):
            if value is None:
                before = None
                continue
            y = round((1 - min(1.0, max(0.0, value / top))) * (layer.down - 1))
            if before is None:
                layer.dot(x, y)
            else:
                layer.line(x - 1, before, x, y)
            before = y
    return "".join(braille(layer.bits(column, 0)) for column in range(cells))
