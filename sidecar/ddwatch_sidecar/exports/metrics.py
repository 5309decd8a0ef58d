"""The table of exported metrics as data: name, type, meaning, labels and how each is read."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_args

from ddwatch.core.alert_orders import ALARMS
from ddwatch.core.snapshot import VerdictName
from ddwatch.core.tallies import ACCEPT_BOUNDS, LATENCY_BOUNDS, Histogram, SeriesKey, Tallies
from ddwatch_sidecar.exports.gpu_metrics import GPU_METRICS
from ddwatch_sidecar.exports.metric import (
    HistogramReadings,
    Labels,
    Metric,
    Readings,
    View,
    clean_label,
    one,
    rank_label,
)


def _summed(values: Iterable[tuple[int | None, float | None]]) -> list[tuple[Labels, float]]:
    """Adds up what live engines with the same DP rank report; a rank that reports nothing is left out."""
    sums: dict[int | None, float] = {}
    for rank, value in values:
        if value is not None:
            sums[rank] = sums.get(rank, 0.0) + value
    return [((rank_label(rank),), value) for rank, value in sums.items()]


def _throughput(view: View) -> Iterable[tuple[Labels, float]]:
    return _summed((r.sample.dp_rank, r.sample.throughput) for r in view.snapshot.ranks if r.live)


def _running(view: View) -> Iterable[tuple[Labels, float]]:
    return _summed((r.sample.dp_rank, r.sample.batch) for r in view.snapshot.ranks if r.live)


def _queued(view: View) -> Iterable[tuple[Labels, float]]:
    return _summed((r.sample.dp_rank, r.queued) for r in view.snapshot.ranks if r.live)


def _total_context(view: View) -> Iterable[tuple[Labels, float]]:
    return _summed((r.sample.dp_rank, r.sample.total_context_tokens) for r in view.snapshot.ranks if r.live)


def _context(view: View) -> Iterable[tuple[Labels, float]]:
    """Mean per running request, so engines with the same DP rank are weighted by their batch."""
    weighted: dict[int | None, list[tuple[float, int]]] = defaultdict(list)
    for rank in view.snapshot.ranks:
        if rank.live and rank.sample.context_tokens is not None:
            weighted[rank.sample.dp_rank].append((rank.sample.context_tokens, rank.sample.batch or 1))
    for dp_rank, items in weighted.items():
        yield (rank_label(dp_rank),), sum(c * w for c, w in items) / sum(w for _, w in items)


def _per_rank(
    counts: Callable[[Tallies], Mapping[int | None, float]],
) -> Readings:
    return lambda view: [((rank_label(rank),), float(count)) for rank, count in counts(view.tallies).items()]


def _per_name(counts: Callable[[Tallies], Mapping[str, float]]) -> Readings:
    return lambda view: [((clean_label(name),), float(count)) for name, count in counts(view.tallies).items()]


def _of_readers(counts: Callable[[Tallies], Mapping[str, float]]) -> Readings:
    """Counts per source, 0 for a source whose lines are read and that never gave cause to count."""

    def readings(view: View) -> Iterator[tuple[Labels, float]]:
        found = counts(view.tallies)
        for name in sorted({*found, *view.tallies.lines_read}):
            yield (clean_label(name),), float(found.get(name, 0))

    return readings


def _per_series(
    histograms: Callable[[Tallies], Mapping[SeriesKey, Histogram]],
) -> HistogramReadings:
    return lambda view: [
        ((rank_label(key.dp_rank), key.span, key.provenance, key.resolution), histogram)
        for key, histogram in histograms(view.tallies).items()
    ]


def _verdicts(view: View) -> Iterable[tuple[Labels, float]]:
    return [((name,), float(name == view.snapshot.verdict.name)) for name in get_args(VerdictName)]


def _firing(view: View) -> Iterable[tuple[Labels, float]]:
    lasting = {alert.name for alert in view.snapshot.alerts if alert.open}
    return [((name,), float(name in lasting)) for name in ALARMS]


FACTORS = ("accept_length", "context", "batch", "idle", "unexplained")


def _factors(view: View) -> Iterable[tuple[Labels, float]]:
    factors = view.snapshot.factors
    for name in FACTORS if factors is not None else ():
        value: float | None = getattr(factors, name)
        if value is not None:
            yield (name,), value


SERVER_LABELS = ("model", "algorithm", "version", "tp", "dp", "pp", "ep", "tree_budget", "block_size")


def _server_info(view: View) -> Iterable[tuple[Labels, float]]:
    values = tuple(clean_label(getattr(view.snapshot.server, label)) for label in SERVER_LABELS)
    return [(values, 1.0)] if any(values) else []


def _source_up(view: View) -> Iterable[tuple[Labels, float]]:
    return [((clean_label(s.name),), float(s.state == "up")) for s in view.snapshot.sources]


def _source_age(view: View) -> Iterable[tuple[Labels, float]]:
    at = view.snapshot.at
    return [((clean_label(s.name),), max(0.0, at - s.last_at)) for s in view.snapshot.sources if s.last_at is not None]


SERIES_LABELS = ("dp_rank", "span", "provenance", "resolution")

METRICS: tuple[Metric, ...] = (
    Metric(
        "ddwatch_accept_length",
        "histogram",
        "Tokens committed per request and step, bonus token included; clean samples only",
        SERIES_LABELS,
        read_histogram=_per_series(lambda tallies: tallies.accept_length),
        bounds=ACCEPT_BOUNDS,
    ),
    Metric(
        "ddwatch_verify_latency_seconds",
        "histogram",
        "Time of one step; the label span says from where to where; clean samples only",
        SERIES_LABELS,
        read_histogram=_per_series(lambda tallies: tallies.step_seconds),
        bounds=LATENCY_BOUNDS,
    ),
    Metric(
        "ddwatch_steps_total",
        "counter",
        "Decode steps, only where they are counted",
        ("dp_rank",),
        _per_rank(lambda tallies: tallies.steps),
    ),
    Metric(
        "ddwatch_tokens_total",
        "counter",
        "Generated tokens, only where they are counted",
        ("dp_rank",),
        _per_rank(lambda tallies: tallies.tokens),
    ),
    Metric(
        "ddwatch_context_tokens",
        "gauge",
        "Mean context of one running request, prompt included",
        ("dp_rank",),
        _context,
    ),
    Metric(
        "ddwatch_total_context_tokens",
        "gauge",
        "Context summed over running requests; shared prefixes count once when a log is the source",
        ("dp_rank",),
        _total_context,
    ),
    Metric("ddwatch_running_requests", "gauge", "Requests that are decoding (the batch)", ("dp_rank",), _running),
    Metric("ddwatch_queued_requests", "gauge", "Requests that wait", ("dp_rank",), _queued),
    Metric(
        "ddwatch_throughput_tokens_per_second",
        "gauge",
        "Generated tokens per second, newest sample of each live rank",
        ("dp_rank",),
        _throughput,
    ),
    Metric(
        "ddwatch_clean_ratio",
        "gauge",
        "Share of clean samples in the last five minutes",
        (),
        one(lambda view: view.snapshot.window.clean_ratio),
    ),
    Metric(
        "ddwatch_expected_throughput_tokens_per_second",
        "gauge",
        "What the model holds for this batch, context and accept length",
        (),
        one(lambda view: view.snapshot.expected.tokens_per_second if view.snapshot.expected else None),
    ),
    Metric(
        "ddwatch_expected_throughput_tokens_per_second_low",
        "gauge",
        "Lower end of the expected band",
        (),
        one(lambda view: view.snapshot.expected.low if view.snapshot.expected else None),
    ),
    Metric(
        "ddwatch_expected_throughput_tokens_per_second_high",
        "gauge",
        "Upper end of the expected band",
        (),
        one(lambda view: view.snapshot.expected.high if view.snapshot.expected else None),
    ),
    Metric(
        "ddwatch_throughput_ratio",
        "gauge",
        "Measured over expected tokens per second",
        (),
        one(lambda view: view.snapshot.ratio),
    ),
    Metric(
        "ddwatch_expected_verify_latency_seconds",
        "gauge",
        "Step time that the model holds for this batch and context",
        (),
        one(lambda view: view.snapshot.expected.step_seconds if view.snapshot.expected else None),
    ),
    Metric(
        "ddwatch_factor_ratio",
        "gauge",
        "What separates the measured throughput from the reference; the product of all factors is their ratio",
        ("factor",),
        _factors,
    ),
    Metric("ddwatch_verdict", "gauge", "1 for the verdict that holds now, 0 for every other", ("verdict",), _verdicts),
    Metric(
        "ddwatch_alerts_total",
        "counter",
        "Alerts that fired since the watch began",
        ("alert",),
        _per_name(lambda tallies: tallies.alerts),
    ),
    Metric(
        "ddwatch_alert_firing",
        "gauge",
        "1 while an incident of this name lasts, whether it is the verdict or not, 0 for every other",
        ("alert",),
        _firing,
    ),
    Metric(
        "ddwatch_restarts_total",
        "counter",
        "Restarts of the watched server since the watch began",
        (),
        one(lambda view: view.tallies.restarts),
    ),
    Metric(
        "ddwatch_server_info", "gauge", "1, with what the watched server said of itself", SERVER_LABELS, _server_info
    ),
    Metric("ddwatch_source_up", "gauge", "1 while the source delivers", ("source",), _source_up),
    Metric("ddwatch_source_age_seconds", "gauge", "Time since the source delivered anything", ("source",), _source_age),
    Metric(
        "ddwatch_lines_read_total",
        "counter",
        "Physical lines that the source delivered",
        ("source",),
        _per_name(lambda tallies: tallies.lines_read),
    ),
    Metric(
        "ddwatch_lines_unread_total",
        "counter",
        "Lines with a known head whose fields could not be read",
        ("source",),
        _of_readers(lambda tallies: tallies.lines_unread),
    ),
    Metric(
        "ddwatch_log_rotations_total",
        "counter",
        "Rotations of the log that were followed without loss",
        ("source",),
        _per_name(lambda tallies: tallies.rotations),
    ),
    Metric(
        "ddwatch_log_gaps_total",
        "counter",
        "Places in the log where lines may have been lost",
        ("source",),
        _of_readers(lambda tallies: tallies.gaps),
    ),
    *GPU_METRICS,
    Metric(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of the sidecar itself",
        (),
        one(lambda view: view.process.cpu_seconds),
    ),
    Metric(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of the sidecar itself",
        (),
        one(lambda view: view.process.resident_bytes),
    ),
    Metric(
        "process_virtual_memory_bytes",
        "gauge",
        "Virtual memory of the sidecar itself",
        (),
        one(lambda view: view.process.virtual_bytes),
    ),
    Metric(
        "process_start_time_seconds",
        "gauge",
        "Start of the sidecar, seconds since the epoch",
        (),
        one(lambda view: view.process.started_at),
    ),
    Metric(
        "process_open_fds",
        "gauge",
        "Open file descriptors of the sidecar itself",
        (),
        one(lambda view: view.process.open_files),
    ),
    Metric(
        "process_max_fds",
        "gauge",
        "Limit of open file descriptors of the sidecar itself",
        (),
        one(lambda view: view.process.max_files),
    ),
)


def metric_table_markdown() -> str:
    """The table of the README, one row per metric, ending in a newline."""
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |")
    return "\n".join(rows) + "\n"
