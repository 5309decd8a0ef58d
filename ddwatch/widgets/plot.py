"""An honest plot: zero-based stated axis, gaps are gaps, contaminated samples are dim dots, expectation behind.

Pure: readings, a width and a height in, exactly that many rows and cells out. Columns are buckets of time that
are anchored to the clock, so that the picture moves by whole columns and never shimmers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timezone, tzinfo
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from ddwatch.widgets.axis import label, time_ticks
from ddwatch.widgets.canvas import FULL, Layer, braille, stroke
from ddwatch.widgets.rows import Role, Row, Span, block, merged

GUTTER = 6
"""Cells left of the plot: a label of four, a blank, the axis."""

SHORT = 3
"""An idle stretch of fewer cells breaks the line and is not marked: requests one after the other are not idleness."""
NARROW = 30
"""Below this many cells the time row names only its two ends."""

JOIN = 3.0
"""Two clean readings are joined when they are at most this many usual distances apart …"""
USUAL_MOST = 60.0
"""… where the usual distance counts as at most this many seconds."""

Kind = Literal["clean", "tainted", "idle", "gap"]


class Reading(NamedTuple):
    """One reading of one quantity; `idle` and `gap` mark where such a stretch begins and have no value."""

    at: float
    kind: Kind
    value: float | None = None
    low: float | None = None
    """Lower end of the expected band at this moment."""
    high: float | None = None
    expected: float | None = None
    """What the model holds of this moment."""


class Mark(NamedTuple):
    """An event on the time axis."""

    at: float
    sign: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Everything that a plot shows."""

    readings: Sequence[Reading]
    """In order of time."""
    end: float
    """Time at the right edge, seconds since the epoch."""
    window: float
    """Seconds from the left edge to the right."""
    limit: float
    """Upper end of the axis; its lower end is 0."""
    marks: Sequence[Mark] = ()
    range: tuple[float, float] | None = None
    """A range that holds for the whole picture, drawn as a band."""
    range_words: str = ""
    """What that range is, written into it where there is room."""
    zone: tzinfo = field(default=timezone.utc)
    ascii: bool = False


class _Bucket(NamedTuple):
    """The clean readings of one dot column."""

    column: int
    first: float
    last: float
    low: float
    middle: float
    high: float
    joined: bool
    """Whether a line leads here from the bucket before."""


def usual_distance(readings: Sequence[Reading]) -> float:
    """The median distance in seconds between neighbouring readings with a value; USUAL_MOST when there is none."""
    distances = [
        after.at - before.at
        for before, after in pairwise(readings)
        if before.value is not None and after.value is not None and after.at > before.at
    ]
    return min(USUAL_MOST, median(distances)) if distances else USUAL_MOST


def time_of_column(plot: Plot, columns: int) -> tuple[float, int]:
    """Seconds per dot column, and the number of the leftmost column counted from the epoch."""
    step = plot.window / columns
    return step, int(plot.end // step) - columns + 1


def _buckets(plot: Plot, columns: int) -> list[_Bucket]:
    step, leftmost = time_of_column(plot, columns)
    farthest = max(JOIN * usual_distance(plot.readings), 1.5 * step)
    buckets: list[_Bucket] = []
    values: list[float] = []
    column, first, last, cut = -1, 0.0, 0.0, True

    def finish() -> None:
        """Turns the collected values into a bucket; the values are sorted in place."""
        if not values:
            return
        values.sort()
        near = bool(buckets) and not cut and first - buckets[-1].last <= farthest
        buckets.append(_Bucket(column, first, last, values[0], median(values), values[-1], near))

    for reading in plot.readings:
        if reading.kind in ("idle", "gap"):
            finish()
            values.clear()
            cut = True
            column = -1
            continue
        if reading.kind != "clean" or reading.value is None:
            continue
        here = int(reading.at // step) - leftmost
        if here != column:
            finish()
            if values:
                cut = False
            values.clear()
            column, first = here, reading.at
        values.append(reading.value)
        last = reading.at
    finish()
    # Buckets left of the edge stay: the line from the last of them enters the picture.
    return [bucket for bucket in buckets if bucket.column < columns]


class _Expectation(NamedTuple):
    """What was expected during one dot column."""

    column: int
    first: float
    last: float
    low: float
    middle: float | None
    high: float
    joined: bool
    """False when an idle stretch or a gap lies before it."""


def _expectations(readings: Sequence[Reading], column_of: Callable[[float], int]) -> Iterator[_Expectation]:
    """The medians of low, middle and high of each dot column that has any."""
    held: list[Reading] = []
    joined = after_cut = True

    def whole() -> _Expectation:
        """The collected readings as one."""
        middles = [reading.expected for reading in held if reading.expected is not None]
        return _Expectation(
            column=column_of(held[0].at),
            first=held[0].at,
            last=held[-1].at,
            low=median(reading.low or 0.0 for reading in held),
            middle=median(middles) if middles else None,
            high=median(reading.high or 0.0 for reading in held),
            joined=joined,
        )

    for reading in readings:
        cut = reading.kind in ("idle", "gap")
        if held and (cut or (reading.low is not None and column_of(reading.at) != column_of(held[0].at))):
            yield whole()
            held = []
            joined = True
        if cut:
            after_cut = True
        elif reading.low is not None and reading.high is not None:
            if not held:
                joined, after_cut = not after_cut, False
            held.append(reading)
    if held:
        yield whole()


class _Picture:
    """The layers of one plot while it is drawn; sizes in cells."""

    def __init__(self, plot: Plot, width: int, height: int) -> None:
        self.plot = plot
        self.width = width
        self.height = height
        self.measured = Layer(width, height)
        self.tainted = Layer(width, height)
        self.band = Layer(width, height)
        self.expected = Layer(width, height)
        self.step, self.leftmost = time_of_column(plot, width * 2)

    def column(self, at: float) -> int:
        """The dot column of a time."""
        return int(at // self.step) - self.leftmost

    def y(self, value: float) -> int:
        """The dot row of a value, kept inside the axis."""
        down = self.height * 4 - 1
        inside = min(self.plot.limit, max(0.0, value))
        return round((1 - inside / self.plot.limit) * down)

    def draw_band(self) -> None:
        """The expected range and line behind, the median of each dot column, carried on to the next one nearby."""
        if self.plot.range is not None:
            low, high = self.plot.range
            for x in range(self.width * 2):
                self.band.column(x, range(self.y(high), self.y(low) + 1))
        farthest = max(JOIN * usual_distance(self.plot.readings), 1.5 * self.step)
        known: _Expectation | None = None
        for here in _expectations(self.plot.readings, self.column):
            start = here.column
            if known is not None and here.joined and here.first - known.last <= farthest:
                start = min(here.column, known.column + 1)
                if known.middle is not None and here.middle is not None:
                    self.expected.line(known.column, self.y(known.middle), here.column, self.y(here.middle))
            elif here.middle is not None:
                self.expected.dot(here.column, self.y(here.middle))
            top, bottom = self.y(here.high), self.y(here.low)
            for x in range(max(0, start), min(self.width * 2 - 1, here.column) + 1):
                self.band.column(x, range(top, bottom + 1))
            known = here

    def draw_readings(self) -> None:
        """Contaminated readings as single dots, clean ones as a line with its spread."""
        for reading in self.plot.readings:
            if reading.kind == "tainted" and reading.value is not None:
                self.tainted.dot(self.column(reading.at), self.y(reading.value))
        before: _Bucket | None = None
        for bucket in _buckets(self.plot, self.width * 2):
            self.measured.column(bucket.column, range(self.y(bucket.high), self.y(bucket.low) + 1))
            if before is not None and bucket.joined:
                self.measured.line(before.column, self.y(before.middle), bucket.column, self.y(bucket.middle))
            before = bucket

    def cell(self, column: int, row: int) -> Span:
        """The sign and role of one cell: measured before contaminated before expected."""
        sign = stroke if self.plot.ascii else braille
        shaded = self.band.bits(column, row)
        bits = self.measured.bits(column, row)
        if bits:
            return sign(bits), "measured-on-band" if bits & shaded else "measured"
        bits = self.tainted.bits(column, row)
        if bits:
            return "." if self.plot.ascii else braille(bits), "tainted"
        bits = self.expected.bits(column, row)
        if bits:
            return "=" if self.plot.ascii else braille(bits), "expected-on-band" if bits & shaded else "expected"
        if shaded:
            return ":" if self.plot.ascii else braille(shaded), "band-full" if shaded == FULL else "band"
        return " ", "text"

    def stretches(self) -> list[tuple[Kind, int, int]]:
        """Idle and gap stretches as (kind, first cell, cell after the last)."""
        found: list[tuple[Kind, int, int]] = []
        begun: tuple[Kind, int] | None = None
        for reading in self.plot.readings:
            here = self.column(reading.at) // 2
            if begun is not None:
                found.append((begun[0], max(0, begun[1]), min(self.width, here)))
                begun = None
            if reading.kind in ("idle", "gap"):
                begun = (reading.kind, here)
        if begun is not None:
            found.append((begun[0], max(0, begun[1]), self.width))
        return [(kind, first, after) for kind, first, after in found if first < self.width and after >= 0]


def _write(cells: list[Span], first: int, text: str, role: Role) -> None:
    """Puts a text over cells that are empty; leaves the others."""
    for place, sign in enumerate(text, first):
        if 0 <= place < len(cells) and cells[place][0] == " ":
            cells[place] = (sign, role)


def write_whole(cells: list[Span], first: int, text: str) -> None:
    """Puts a label over empty cells, or leaves it out where it would be cut or touch something."""
    around = cells[max(0, first - 1) : first + len(text) + 1]
    if first >= 0 and first + len(text) <= len(cells) and all(sign == " " for sign, _ in around):
        _write(cells, first, text, "label")


def _mark_stretches(picture: _Picture, grid: list[list[Span]]) -> None:
    """Says `idle` or `gap` at the base of each such stretch, so that emptiness is never mistaken for zero."""
    for kind, first, after in picture.stretches():
        if kind == "gap":
            for cells in grid:
                _write(cells, first, "┊", "label")
            first += 1
        room = after - first
        if kind == "idle" and room < SHORT:
            continue
        text = next((text for text in (f" {kind} ", kind) if len(text) <= room), "")
        left = (room - len(text)) // 2
        # Words and dashes alike only on free cells: what was measured is never covered.
        _write(grid[-1], first, "╌" * left + text + "╌" * (room - len(text) - left), "label")


def _name_range(plot: Plot, grid: list[list[Span]]) -> None:
    """Writes into the band of the whole picture what it is, where nothing measured is covered."""
    words = f" {plot.range_words} "
    for cells in grid:
        for first in (1, len(cells) - len(words) - 1):
            under = cells[first : first + len(words)]
            if len(under) == len(words) and first > 0 and all(role in ("band", "band-full") for _, role in under):
                cells[first : first + len(words)] = [(sign, "expected-on-band") for sign in words]
                return


def axis_label(row: int, height: int, top: float) -> tuple[str, str]:
    """The text left of a plot row, and the axis sign."""
    if row == 0:
        return label(top), "┤"
    if row == height - 1:
        return "0", "┤"
    # A middle label only where a row lies exactly in the middle.
    if height >= 5 and height % 2 == 1 and row == height // 2:
        return label(top / 2), "┤"
    return "", "│"


def _time_row(plot: Plot, width: int) -> Row:
    """Round local times under the plot, and the events' signs between them."""
    cells: list[Span] = [(" ", "label")] * width
    step, leftmost = time_of_column(plot, width * 2)
    for mark in plot.marks:
        place = (int(mark.at // step) - leftmost) // 2
        if 0 <= place < width:
            cells[place] = (mark.sign, mark.role)
    begin = leftmost * step
    if width < NARROW:
        minutes = f"−{plot.window / 60:.0f} min"
        write_whole(cells, 0, minutes)
        write_whole(cells, width - 3, "now")
    else:
        for at, text in time_ticks(begin, begin + plot.window, plot.zone, width // 10):
            first = (int(at // step) - leftmost) // 2 - len(text) // 2
            write_whole(cells, first, text)
    return tuple(cells)


def draw(plot: Plot, width: int, height: int) -> tuple[Row, ...]:
    """The plot in exactly `height` rows of `width` cells: gutter, field and, from four rows on, a time row."""
    across = width - GUTTER
    with_time = height >= 4
    down = height - with_time
    if across < 4 or down < 1:
        return block((), width, height)
    picture = _Picture(plot, across, down)
    picture.draw_band()
    picture.draw_readings()
    grid = [[picture.cell(column, row) for column in range(across)] for row in range(down)]
    if plot.range is not None and plot.range_words:
        _name_range(plot, grid)
    _mark_stretches(picture, grid)
    rows: list[Row] = []
    for row, cells in enumerate(grid):
        text, sign = axis_label(row, down, plot.limit)
        rows.append(merged(((f"{text:>4} ", "label"), (sign, "faint"), *cells)))
    if with_time:
        rows.append(merged(((" " * GUTTER, "label"), *_time_row(plot, across))))
    return block(rows, width, height)
