"""The face before the first data: what is awaited, from where, and what can be done meanwhile."""

from collections.abc import Sequence

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import age
from ddwatch.widgets.rows import Row, clean, width_of, wrapped
from ddwatch.widgets.view import View


def centred(row: Row, width: int) -> Row:
    """The row in the middle of `width` cells."""
    return ((" " * max(0, (width - width_of(row)) // 2), "text"), *row)


def waiting_rows(view: View, width: int, height: int) -> list[Row]:
    """The words of the face, in the middle of the screen."""
    across = max(16, min(72, width - 6))
    rows: list[Row] = []
    if view.link in ("lost", "ended"):
        rows.append((((" ✗ NO DATA " if view.link == "lost" else " ✗ FEED ENDED "), "page-block"),))
        rows.append(())
        rows += [((line, "strong"),) for line in wrapped(clean(view.trouble), across, 5)]
    else:
        rows.append((("waiting for the first data", "strong"),))
        rows.append(())
        rows += [((line, "text"),) for line in wrapped(clean(view.trouble or f"from {view.origin}"), across, 5)]
        rows.append(((f"for {age(view.silence)}", "label"),))
    top = max(0, (height - len(rows)) // 2)
    return [()] * top + [centred(row, width) for row in rows]


class Waiting(Drawn):
    """Stands where the panels will be."""

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """Nothing: there is data."""
        return ()

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The words."""
        return waiting_rows(view, width, height)
