"""A plot with its heading and its figures: one widget per plotted quantity."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.widgets.axis import limit
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import count, milliseconds, percent, short, tokens
from ddwatch.widgets.plot import Plot, draw
from ddwatch.widgets.quantities import (
    ACCEPT,
    CONTEXT,
    LATENCY,
    SPANS,
    THROUGHPUT,
    Quantity,
    Summary,
    marks,
    peak,
    readings,
    summary,
)
from ddwatch.widgets.rows import Role, Row, block, faded, fit, heading, merged
from ddwatch.widgets.view import View, points_in_view, window_text

FIGURES = 17
"""Cells of the figures beside a plot."""
NARROW_FIGURES = 15
"""The same where a panel is narrower than NARROW cells."""
NARROW = 56


def figure_rows(pairs: Sequence[tuple[str, str, Role]], width: int) -> list[Row]:
    """A name and a value per row, values flush right."""
    rows = []
    for name, value, role in pairs:
        room = max(1, width - 2 - len(value))
        rows.append(merged(((" ", "text"), *fit(((name, "label"),), room, "label"), (value, role), (" ", "text"))))
    return rows


def beside_rows(field: Sequence[Row], pairs: Sequence[tuple[str, str, Role]], width: int) -> list[Row]:
    """The rows of a picture with its figures beside them in `width` cells."""
    texts = block(figure_rows(pairs, width), width, len(field))
    return [merged((*left, *end)) for left, end in zip(field, texts, strict=True)]


def standard_figures(quantity: Quantity, frame: Frame, view: View, sums: Summary) -> list[tuple[str, str, Role]]:
    """Now, expected where known, median, the worse extreme, clean share, the other extreme: in order of worth."""
    present: Role = "tainted" if frame.snapshot.now.flags or view.outdated(frame) else "measured"
    pairs: list[tuple[str, str, Role]] = [("now", quantity.show(quantity.of_frame(frame)), present)]
    expected = quantity.expected(frame)
    if expected is not None:
        pairs.append(("expected", quantity.show(expected), "expected"))
    known = quantity.range(frame)
    if known is not None:
        pairs.append(("range", "…".join(short(value) for value in known), "expected"))
    pairs.append(("median", quantity.show(sums.middle), "text"))
    extremes = {"min": quantity.show(sums.least), "max": quantity.show(sums.most)}
    other = "max" if quantity.worst == "min" else "min"
    pairs.append((quantity.worst, extremes[quantity.worst], "text"))
    pairs.append((other, extremes[other], "text"))
    pairs.append(("clean", percent(sums.clean_ratio), "text"))
    return pairs


def load_figures(snapshot: Snapshot) -> list[tuple[str, str, Role]]:
    """What the service carries at this moment."""
    now = snapshot.now
    return [
        ("now", tokens(now.context_tokens), "measured"),
        ("batch", count(now.batch), "text"),
        ("total", tokens(now.total_context_tokens), "text"),
        ("queue", count(now.queued), "text"),
        ("KV in use", percent(now.token_usage), "text"),
    ]


class PlotPanel(Drawn, can_focus=True):
    """One quantity over time."""

    QUANTITY: ClassVar[Quantity]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._limit: float | None = None
        self._range: tuple[float, float] | None = None

    def memory(self, frame: Frame, view: View) -> Hashable:
        """Once a second, or less often where a column stands for longer; at once when the reader changes something."""
        at = frame.snapshot.at
        pace = max(1.0, view.window / 400)
        newest = frame.history.points[-1].at if frame.history.points else None
        if newest is None or newest < at - 3 * pace:
            # Nothing new: the picture only slides, and it may do so in larger steps.
            pace = view.window / 30
        return (
            int(at // pace),
            pace,
            view.window,
            view.dimmed(),
            view.outdated(frame),
            view.frozen,
            view.zone,
            len(frame.history.events),
            self.QUANTITY.range(frame) is None,
        )

    def title(self, frame: Frame) -> tuple[str, str]:
        """The heading's name and unit."""
        return self.QUANTITY.title, self.QUANTITY.unit

    def figures(self, frame: Frame, view: View, sums: Summary) -> list[tuple[str, str, Role]]:
        """The figures beside the plot."""
        return standard_figures(self.QUANTITY, frame, view, sums)

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """Heading, plot, figures."""
        points = points_in_view(frame, view.window)
        seen = readings(points, self.QUANTITY)
        known = self.QUANTITY.range(frame)
        if known is None and frame.snapshot.now.at is None:
            # Silence takes nothing back of what was learned.
            known = self._range
        self._range = known
        most = max([each for each in (peak(seen), known[1] if known else None) if each is not None], default=None)
        self._limit = limit(self._limit, most, self.QUANTITY.floor)
        start = frame.snapshot.at - view.window
        sums = summary([point for point in points if point.at >= start], self.QUANTITY)
        beside = FIGURES if width >= NARROW else NARROW_FIGURES
        if width < 34:
            beside = 0
        field = draw(
            Plot(
                readings=seen,
                end=frame.snapshot.at,
                window=view.window,
                limit=self._limit,
                marks=marks(frame.history.events),
                range=known,
                range_words=self.QUANTITY.range_words,
                zone=view.zone,
                ascii=view.ascii,
            ),
            width - beside,
            height - 1,
        )
        title, unit = self.title(frame)
        right = window_text(view.window) if width >= NARROW else ""
        rows = [heading(title, unit, right, width, focused=self.has_focus)]
        rows += beside_rows(field, self.figures(frame, view, sums), beside)
        return faded(rows) if view.dimmed() else rows

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading alone."""
        return [heading(self.QUANTITY.title, self.QUANTITY.unit, "", width, focused=self.has_focus)]


class ThroughputPanel(PlotPanel):
    """Committed tokens per second over all ranks."""

    QUANTITY = THROUGHPUT


class AcceptPanel(PlotPanel):
    """Tokens committed per request and step."""

    QUANTITY = ACCEPT


class LatencyPanel(PlotPanel):
    """Time of a step, with what the time spans in its heading, and the GPU's part of it where that is told."""

    QUANTITY = LATENCY

    def figures(self, frame: Frame, view: View, sums: Summary) -> list[tuple[str, str, Role]]:
        """The GPU's own time stands under what was measured and expected."""
        pairs = super().figures(frame, view, sums)
        forward = frame.snapshot.forward
        if forward is None or forward.forward_seconds is None:
            return pairs
        place = 2 if len(pairs) > 1 and pairs[1][0] == "expected" else 1
        own: list[tuple[str, str, Role]] = [("GPU", milliseconds(forward.forward_seconds), "text")]
        if forward.wait_seconds is not None:
            own.append(("it waits", milliseconds(forward.wait_seconds), "text"))
        return [*pairs[:place], *own, *pairs[place:]]

    def title(self, frame: Frame) -> tuple[str, str]:
        """The unit says which part of a step was timed."""
        return self.QUANTITY.title, SPANS[frame.snapshot.now.span]


class LoadPanel(PlotPanel):
    """Context per request over time, and what else the service carries."""

    QUANTITY = CONTEXT

    def figures(self, frame: Frame, view: View, sums: Summary) -> list[tuple[str, str, Role]]:
        """Batch, queue and pool use in place of extremes."""
        return load_figures(frame.snapshot)

    def title(self, frame: Frame) -> tuple[str, str]:
        """Says that this is the load."""
        return "load: context", self.QUANTITY.unit
