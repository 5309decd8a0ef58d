"""The quantities that are plotted: where each stands in a point, its unit, and what its clean samples come to."""

from collections.abc import Callable, Sequence
from statistics import median

from msgspec import Struct

from ddwatch.core.snapshot import Event, Frame, Point
from ddwatch.widgets.figures import figure, tokens
from ddwatch.widgets.plot import Mark, Reading
from ddwatch.widgets.rows import Role


class Quantity(Struct, frozen=True, kw_only=True):
    """One plotted quantity."""

    title: str
    unit: str
    floor: float
    """The smallest upper limit of its axis."""
    of_point: Callable[[Point], float | None]
    of_frame: Callable[[Frame], float | None]
    """The present value, in the same unit."""
    band: Callable[[Point], tuple[float, float] | None] = lambda _point: None
    """The expected range at a point."""
    middle: Callable[[Point], float | None] = lambda _point: None
    """The expected value at a point."""
    expected: Callable[[Frame], float | None] = lambda _frame: None
    """The expected value now."""
    range: Callable[[Frame], tuple[float, float] | None] = lambda _frame: None
    """The range that was learned of it, for the whole picture."""
    range_words: str = ""
    show: Callable[[float | None], str] = figure
    """How its values are written."""
    worst: str = "min"
    """Which extreme is the bad one: `min` or `max`."""


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _throughput_band(point: Point) -> tuple[float, float] | None:
    if point.expected_low is None or point.expected_high is None:
        return None
    return point.expected_low, point.expected_high


def _step_band(point: Point) -> tuple[float, float] | None:
    """The throughput band turned into step times: a step is longer by the factor that the rate is lower."""
    middle, low, high = point.expected_throughput, point.expected_low, point.expected_high
    step = point.expected_step_seconds
    if middle is None or not low or not high or step is None:
        return None
    return step * 1000 * middle / high, step * 1000 * middle / low


def _accept_range(frame: Frame) -> tuple[float, float] | None:
    """What was learned of the accept length at the present context; nothing without a model."""
    model = frame.snapshot.model
    if model is None or model.accept_low is None or model.accept_high is None:
        return None
    return model.accept_low, model.accept_high


THROUGHPUT = Quantity(
    title="throughput",
    unit="tok/s",
    floor=10.0,
    of_point=lambda point: point.throughput,
    of_frame=lambda frame: frame.snapshot.now.throughput,
    band=_throughput_band,
    middle=lambda point: point.expected_throughput,
    expected=lambda frame: frame.snapshot.expected.tokens_per_second if frame.snapshot.expected else None,
)
ACCEPT = Quantity(
    title="accept length",
    unit="tokens/step",
    floor=4.0,
    of_point=lambda point: point.accept_length,
    of_frame=lambda frame: frame.snapshot.now.accept_length,
    range=_accept_range,
    range_words="learned 10–90 %",
)
LATENCY = Quantity(
    title="verify latency",
    unit="ms",
    floor=20.0,
    of_point=lambda point: _milliseconds(point.step_seconds),
    of_frame=lambda frame: _milliseconds(frame.snapshot.now.step_seconds),
    band=_step_band,
    middle=lambda point: _milliseconds(point.expected_step_seconds),
    expected=lambda frame: _milliseconds(frame.snapshot.expected.step_seconds) if frame.snapshot.expected else None,
    worst="max",
)
CONTEXT = Quantity(
    title="context",
    unit="tokens/request",
    floor=1000.0,
    of_point=lambda point: point.context_tokens,
    of_frame=lambda frame: frame.snapshot.now.context_tokens,
    show=tokens,
    worst="max",
)

SPANS = {"step": "ms, whole step", "forward": "ms, forward pass", "verify": "ms, verify alone"}
"""What a step time covers, as the unit of the latency plot says it."""


class Summary(Struct, frozen=True, kw_only=True):
    """Figures over the clean samples in view; None where there are none."""

    middle: float | None
    least: float | None
    most: float | None
    clean_ratio: float | None
    """Share of the points with a value that are clean."""


def summary(points: Sequence[Point], quantity: Quantity) -> Summary:
    """Median and extremes of a quantity; contaminated points only count against the clean share."""
    values = []
    seen = 0
    for point in points:
        value = quantity.of_point(point) if point.state == "data" else None
        if value is None:
            continue
        seen += 1
        if not point.contaminated:
            values.append(value)
    return Summary(
        middle=median(values) if values else None,
        least=min(values, default=None),
        most=max(values, default=None),
        clean_ratio=len(values) / seen if seen else None,
    )


def readings(points: Sequence[Point], quantity: Quantity) -> list[Reading]:
    """The points as a plot takes them."""
    found = []
    for point in points:
        if point.state != "data":
            found.append(Reading(point.at, point.state))
            continue
        low, high = quantity.band(point) or (None, None)
        kind = "tainted" if point.contaminated else "clean"
        found.append(Reading(point.at, kind, quantity.of_point(point), low, high, quantity.middle(point)))  # type: ignore[arg-type]
    return found


def peak(seen: Sequence[Reading]) -> float | None:
    """The largest value that an axis must hold: clean readings and the expected band, never a contaminated one."""
    most = 0.0
    for reading in seen:
        if reading.kind == "clean" and reading.value is not None and reading.value > most:
            most = reading.value
        if reading.high is not None and reading.high > most:
            most = reading.high
    return most or None


SIGNS: dict[str, tuple[str, Role]] = {
    "start": ("▲", "text"),
    "ready": ("▲", "text"),
    "restart": ("▲", "text"),
    "stop": ("▲", "text"),
    "crash": ("✗", "page"),
    "xid": ("✗", "page"),
    "retract": ("!", "notice"),
    "gpu": ("!", "notice"),
    "host": ("!", "notice"),
}
"""Events that stand on the time axis."""


def marks(events: Sequence[Event]) -> list[Mark]:
    """The events that belong on the time axis, oldest first; not the end of what was wrong with a card."""
    shown = (event for event in events if event.kind in SIGNS)
    return [
        Mark(event.at, *SIGNS[event.kind])
        for event in shown
        if not (event.kind in ("gpu", "host") and event.severity == "ok")
    ]
