"""Step time against context: whether the machine costs what this context should cost, in one picture."""

from collections.abc import Hashable, Sequence

from ddwatch.core.snapshot import Frame, ModelView, Point
from ddwatch.widgets.axis import limit
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import count, milliseconds, percent, tokens
from ddwatch.widgets.plot_panel import FIGURES, NARROW, NARROW_FIGURES, beside_rows
from ddwatch.widgets.rows import Role, Row, clean, faded, heading, wrapped
from ddwatch.widgets.scatter import CurveDot, Scatter, draw
from ddwatch.widgets.view import View

PACE = 2.0
"""Seconds between two drawings: what was measured so far changes slowly."""
LEAST_TOKENS = 1000.0
"""The smallest upper limit of the context axis."""
LEAST_MILLISECONDS = 20.0
"""The smallest upper limit of the time axis."""
BEYOND = 1.15
"""The context axis reaches this far beyond the evidence, so that its end is seen."""
TITLE, UNIT = "step time by context", "ms over total tokens"
SEVERAL = (
    "Several ranks: batch and context are sums over them, and a step carries those of one rank. "
    "Compare measured and expected in the verify latency panel."
)


def measured_points(points: Sequence[Point], batch: int | None) -> list[tuple[float, float]]:
    """Total context and milliseconds of the clean points at one batch."""
    return [
        (point.total_context_tokens, point.step_seconds * 1000)
        for point in points
        if point.batch == batch
        and not point.contaminated
        and point.step_seconds is not None
        and point.total_context_tokens is not None
    ]


def curve_dots(model: ModelView | None) -> list[CurveDot]:
    """The model's curve in milliseconds."""
    if model is None:
        return []
    return [
        CurveDot(p.total_context_tokens, p.step_seconds * 1000, p.low * 1000, p.high * 1000, p.covered)
        for p in model.curve
    ]


def present(frame: Frame) -> tuple[float, float] | None:
    """The newest reading, where it may be compared with the curve."""
    now = frame.snapshot.now
    if now.flags or now.step_seconds is None or now.total_context_tokens is None:
        return None
    return now.total_context_tokens, now.step_seconds * 1000


def several_ranks(frame: Frame) -> bool:
    """Whether the points are sums over ranks, which no curve of one rank can be compared with."""
    return sum(1 for rank in frame.snapshot.ranks if rank.live) > 1


class StepPanel(Drawn, can_focus=True):
    """The model's step time over context, with what was measured at the present batch."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._batch: int | None = None
        self._x_limit: float | None = None
        self._y_limit: float | None = None
        self._model: tuple[str | None, ModelView] | None = None

    def model_of(self, frame: Frame) -> ModelView | None:
        """The model in force; while nothing runs, the one that was in force for the same server."""
        snapshot = frame.snapshot
        if snapshot.model is not None:
            self._model = (snapshot.server.model, snapshot.model)
        elif self._model is None or snapshot.now.batch or self._model[0] != snapshot.server.model:
            self._model = None
        return self._model[1] if self._model is not None else None

    def memory(self, frame: Frame, view: View) -> Hashable:
        """Every PACE seconds while there is news."""
        newest = frame.history.points[-1].seq if frame.history.points else 0
        at = frame.snapshot.now.at
        return (
            newest and int((at or 0.0) // PACE),
            frame.snapshot.now.batch,
            frame.snapshot.model is not None and frame.snapshot.model.samples,
            frame.snapshot.now.flags,
            view.dimmed(),
            view.outdated(frame),
        )

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """Heading, picture, figures."""
        now, model = frame.snapshot.now, self.model_of(frame)
        if several_ranks(frame):
            lines = wrapped(SEVERAL, max(8, width - 6), max(1, height - 1))
            rows = [heading(TITLE, UNIT, "", width, focused=self.has_focus)]
            rows += [(("   ", "text"), (line, "label")) for line in lines]
            return faded(rows) if view.dimmed() else rows
        self._batch = now.batch or self._batch or (model.batch if model is not None else None)
        points = measured_points(frame.history.points, self._batch)
        curve = curve_dots(model)
        if model is not None and model.batch != self._batch:
            curve = []
        here = present(frame) if not view.outdated(frame) else None
        marked = [*points, *([here] if here is not None else [])]
        known = [dot for dot in curve if dot.covered]
        reach = max([*(x for x, _ in marked), *(dot.x * BEYOND for dot in known)], default=None)
        peak = max([*(y for _, y in marked), *(dot.high for dot in known)], default=None)
        self._x_limit = limit(self._x_limit, reach, LEAST_TOKENS)
        self._y_limit = limit(self._y_limit, peak, LEAST_MILLISECONDS)
        scatter = Scatter(
            points=points,
            curve=curve,
            here=here,
            x_limit=self._x_limit,
            y_limit=self._y_limit,
            ascii=view.ascii,
        )
        beside = (FIGURES if width >= NARROW else NARROW_FIGURES) if width >= 34 else 0
        field = draw(scatter, width - beside, height - 1)
        words = f"batch {count(self._batch)}"
        if model is None and now.batch:
            words += ", no model yet"
        rows = [heading(TITLE, UNIT, words, width, focused=self.has_focus)]
        rows += beside_rows(field, self.figures(frame, view, len(points)), beside)
        return faded(rows) if view.dimmed() else rows

    def figures(self, frame: Frame, view: View, points: int) -> list[tuple[str, str, Role]]:
        """Now, expected, where on the axis, how many points, how good the fit."""
        now, model, expected = frame.snapshot.now, self.model_of(frame), frame.snapshot.expected
        role: Role = "tainted" if now.flags or view.outdated(frame) else "measured"
        pairs: list[tuple[str, str, Role]] = [("◆ now", milliseconds(now.step_seconds), role)]
        if expected is not None:
            pairs.append(("expected", milliseconds(expected.step_seconds), "expected"))
        pairs.append(("at", tokens(now.total_context_tokens), "text"))
        pairs.append(("points", count(points), "text"))
        if model is not None and model.fit_error is not None:
            pairs.append(("fit error", f"{model.fit_error * 100:.1f} %", "text"))
        if model is not None:
            pairs.append(("samples", count(model.samples), "text"))
        pairs.append(("clean", percent(frame.snapshot.window.clean_ratio), "text"))
        return pairs

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading alone."""
        return [heading(clean(TITLE), UNIT, "", width, focused=self.has_focus)]
