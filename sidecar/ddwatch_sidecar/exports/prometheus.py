"""The Prometheus page: formats the newest snapshot, does no I/O and keeps no state."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from ddwatch.core.tallies import Histogram
from ddwatch_sidecar.exports.metric import Metric, View
from ddwatch_sidecar.exports.metrics import METRICS


class Page(NamedTuple):
    """One scrape."""

    body: bytes
    content_type: str


def _buckets(bounds: tuple[float, ...], histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound, as Prometheus wants them."""
    names = [*(str(bound) for bound in bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(histogram.counts), strict=True)]


def family(metric: Metric, view: View) -> Family | None:
    """One metric with its series; None when it has none now."""
    found: Family
    if metric.kind == "histogram":
        histograms = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for labels, histogram in metric.read_histogram(view):
            histograms.add_metric(labels, _buckets(metric.bounds, histogram), histogram.total)
        found = histograms
    elif metric.kind == "counter":
        counters = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for labels, value in metric.read(view):
            counters.add_metric(labels, value)
        found = counters
    else:
        gauges = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for labels, value in metric.read(view):
            gauges.add_metric(labels, value)
        found = gauges
    return found if found.samples else None


class _Table(Collector):
    def __init__(self, view: Callable[[], View]) -> None:
        self._view = view

    def collect(self) -> Iterator[Family]:
        view = self._view()
        for metric in METRICS:
            found = family(metric, view)
            if found is not None:
                yield found

    def describe(self) -> Iterator[Family]:
        """Nothing: a name is free to have no series."""
        return iter(())


class PrometheusPage:
    """Formats METRICS in the dialect that the reader asks for; its registry is its own."""

    def __init__(self, view: Callable[[], View]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Table(view))

    def page(self, accept: str) -> Page:
        """The page for an Accept header: OpenMetrics when asked for, else the Prometheus text format."""
        encode, content_type = choose_encoder(accept)
        return Page(encode(self._registry), content_type)
