"""What a row of the metric table is made of, and the labels that it may carry."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from ddwatch.core.snapshot import Snapshot
from ddwatch.core.tallies import Histogram, Tallies
from ddwatch_sidecar.exports.contract import ProcessFigures

Kind = Literal["counter", "gauge", "histogram"]

LABEL_LENGTH = 128
"""A label value taken from the watched server is cut to this many characters."""


class View(NamedTuple):
    """All that a metric may be read from."""

    snapshot: Snapshot
    tallies: Tallies
    process: ProcessFigures


Labels = tuple[str, ...]
Readings = Callable[[View], Iterable[tuple[Labels, float]]]
"""Label values and value of each series of a counter or gauge."""
HistogramReadings = Callable[[View], Iterable[tuple[Labels, Histogram]]]
"""Label values and counts of each series of a histogram."""


class Metric(NamedTuple):
    """One row of the table. A metric without a reading has no series."""

    name: str
    """As exported, `_total` included."""
    kind: Kind
    meaning: str
    labels: Labels = ()
    read: Readings = lambda view: ()
    """Empty for a histogram."""
    read_histogram: HistogramReadings = lambda view: ()
    """Empty for a counter or gauge."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""


def rank_label(rank: int | None) -> str:
    """The value of `dp_rank`; a service without DP ranks has the empty value, which Prometheus treats as no label."""
    return "" if rank is None else str(rank)


def clean_label(value: object) -> str:
    """A bounded label value without control characters; empty when not known."""
    if value is None:
        return ""
    return "".join(mark for mark in str(value) if mark.isprintable())[:LABEL_LENGTH]


def one(read: Callable[[View], float | None]) -> Readings:
    """The reading of a metric with a single series and no labels."""

    def readings(view: View) -> Iterator[tuple[Labels, float]]:
        value = read(view)
        if value is not None:
            yield (), float(value)

    return readings
