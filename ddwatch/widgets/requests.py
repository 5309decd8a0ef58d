"""The table of finished requests: what each got, what it should have got, and why one is not judged."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import ClassVar

from textual.binding import Binding, BindingType

from ddwatch.core.request_view import FinishedRequest, RequestVerdict
from ddwatch.core.snapshot import Frame
from ddwatch.widgets.accept_bars import accept_rows
from ddwatch.widgets.figures import clock, figure, tokens
from ddwatch.widgets.listing import Listing
from ddwatch.widgets.rows import Role, Row, Span, merged
from ddwatch.widgets.view import View

ROOM_FOR_BARS = 19
"""Rows from which on the distribution of accepted tokens stands above the table."""

SIGNS: dict[RequestVerdict, tuple[str, str, Role]] = {
    "as-expected": ("✓", "as expected", "ok"),
    "slow": ("✗", "slow", "page"),
    "fast": ("↑", "fast", "label"),
    "unjudged": ("?", "", "label"),
}
"""Sign, word and look of each verdict; an unjudged one has its reason for a word."""

NOBODY_TELLS: tuple[str, ...] = (
    "no finished request is known",
    "",
    "SGLang tells of them in two ways; ddwatch takes the numbers, never the text:",
    "  sglang   --export-metrics-to-file --export-metrics-to-file-dir DIR",
    "  ddwatch  --request-metrics DIR",
    "or, in the log that ddwatch reads anyhow:",
    "  sglang   --log-requests",
)


def seconds(value: float | None) -> str:
    """A time in seconds."""
    return figure(value)


def rate(request: FinishedRequest) -> str:
    """Tokens per second; with prefill inside, decoding was at least that fast."""
    return f"≥{figure(request.throughput)}" if request.whole else figure(request.throughput)


COLUMNS: tuple[tuple[str, int, int, Callable[[FinishedRequest], str]], ...] = (
    ("prompt", 7, 0, lambda request: tokens(request.prompt_tokens)),
    ("cached", 7, 100, lambda request: tokens(request.cached_tokens)),
    ("output", 7, 0, lambda request: tokens(request.completion_tokens)),
    ("queue s", 8, 124, lambda request: seconds(request.queue_seconds)),
    ("first s", 8, 92, lambda request: seconds(request.first_token_seconds)),
    ("total s", 8, 110, lambda request: seconds(request.latency_seconds)),
    ("tok/s", 7, 0, rate),
    ("expected", 9, 0, lambda request: figure(request.expected)),
    ("low", 6, 138, lambda request: figure(request.expected_low)),
    ("high", 6, 138, lambda request: figure(request.expected_high)),
    ("ratio", 6, 0, lambda request: figure(request.ratio)),
    ("accept", 7, 0, lambda request: figure(request.accept_length)),
)
"""Name, cells, width of the screen from which on it is shown, text."""


def columns(width: int) -> list[tuple[str, int, Callable[[FinishedRequest], str]]]:
    """The columns that a table of this width has."""
    return [(name, cells, text) for name, cells, least, text in COLUMNS if width >= least]


def head_row(width: int) -> Row:
    """The names of the columns."""
    names = "".join(f"{name:>{cells}}" for name, cells, _ in columns(width))
    return merged(((f" {'ended':<8}", "label"), (names, "label"), ("  verdict", "label")))


def request_row(request: FinishedRequest, view: View, width: int) -> Row:
    """One request; what is absent is a dash."""
    look: Role = "tainted" if request.verdict == "unjudged" else "text"
    spans: list[Span] = [(f" {clock(request.at, view.zone)}", "label")]
    for _, cells, text in columns(width):
        spans.append((f"{text(request):>{cells}}", look))
    sign, words, role = SIGNS[request.verdict]
    spans.append((f"  {sign} ", role))
    spans.append((words or request.reason or "", role))
    return merged(spans)


def summary(requests: Sequence[FinishedRequest]) -> str:
    """How the requests did, in one line."""
    parts = [f"{len(requests)} kept"]
    for verdict in ("as-expected", "slow", "fast", "unjudged"):
        number = sum(1 for request in requests if request.verdict == verdict)
        if number:
            parts.append(f"{number} {verdict.replace('-', ' ')}")
    rates = [request.throughput for request in requests if request.throughput is not None and not request.whole]
    if rates:
        parts.append(f"median {figure(median(rates))} tok/s")
    return " · ".join(parts)


def _worst_first(requests: Sequence[FinishedRequest]) -> list[FinishedRequest]:
    return sorted(requests, key=lambda request: (request.ratio is None, request.ratio or 0.0, -request.at))


def _longest_first(requests: Sequence[FinishedRequest]) -> list[FinishedRequest]:
    return sorted(requests, key=lambda request: (-(request.completion_tokens or -1), -request.at))


ORDERS: tuple[tuple[str, Callable[[Sequence[FinishedRequest]], list[FinishedRequest]]], ...] = (
    ("newest first", lambda requests: sorted(requests, key=lambda request: (-request.at, -request.seq))),
    ("lowest ratio first", _worst_first),
    ("longest first", _longest_first),
)
"""What `o` goes through."""


class RequestListing(Listing):
    """Finished requests under the distribution of their accepted tokens."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "order", show=False)]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._order = 0
        self._newest = -1

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """Names the order."""
        return "finished requests", f"{ORDERS[self._order][0]} (o)"

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """One row per request."""
        requests = frame.history.requests if frame is not None else ()
        if not requests:
            return [((f"   {line}", "label"),) for line in NOBODY_TELLS]
        if self.top and self._order == 0:
            # What is being read stays in place when new ones arrive above it.
            self.top += sum(1 for request in requests if request.seq > self._newest)
        self._newest = max(request.seq for request in requests)
        return [request_row(request, view, width) for request in ORDERS[self._order][1](requests)]

    def draw(self, frame: Frame | None, view: View, width: int, height: int) -> Sequence[Row]:
        """Bars where there is room, summary and column names that stay, rows that move."""
        requests = frame.history.requests if frame is not None else ()
        histogram = frame.snapshot.accepted if frame is not None else None
        above: list[Row] = []
        if histogram is not None and height >= ROOM_FOR_BARS:
            above = [*accept_rows(histogram, width, ascii_only=view.ascii), ()]
        if not requests:
            return [*above, *super().draw(frame, view, width, height - len(above))]
        listed = list(super().draw(frame, view, width, height - len(above) - 2))
        return [*above, listed[0], ((f" {summary(requests)}", "label"),), head_row(width), *listed[1:]]

    def action_order(self) -> None:
        """The next order, from its beginning."""
        self._order = (self._order + 1) % len(ORDERS)
        self.top = 0
        self.bring_up_to_date()
