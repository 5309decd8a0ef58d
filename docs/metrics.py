"""Writes docs/metrics.md from the table of metrics and the rules (`make metrics`); a test says that it is current."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from ddwatch_sidecar.exports.metric import Metric
from ddwatch_sidecar.exports.metrics import METRICS

from ddwatch.commands.alert_rules import ALERTS, RECORDINGS
from ddwatch.core.gpus.reasons import REASONS

PAGE = Path(__file__).parent / "metrics.md"
HEAD = """\
# Metrics

Written by `make metrics` from the table in the code; a test keeps this page equal to it.

The sidecar serves these at `/metrics` on 127.0.0.1:9477. Names follow the conventions of Prometheus: base units in the
name, `_total` for counters. **A series that has no source does not exist: absent is never 0.** Histograms hold clean
samples only.

Prometheus scrapes them with [prometheus.yml](../sidecar/deploy/prometheus.yml); `ddwatch rules` prints the rules below,
`ddwatch dashboard` a [Grafana dashboard](../sidecar/deploy/grafana-dashboard.json) over all of them.
"""
LABELS = {
    "dp_rank": "the data-parallel rank as the log names it; empty without",
    "span": "what a time covers: `step` (launch to launch: draft, verify, CPU), `forward` (the GPU alone), `verify`",
    "provenance": "where it was read: `log`, `moments` (SGLang's own load), `fpm` (forward passes), `fork-log`",
    "resolution": "`step` where one observation is one step, `window` where it is the mean of a window of steps",
    "factor": "`accept_length`, `context`, `batch`, `idle`, `unexplained`",
    "verdict": "one of the [verdicts](operator-guide.md)",
    "alert": "a verdict that accuses, or `retractions`, `restarts`",
    "source": "what is read: the log, `loads`, `metrics`, `fpm`, `nvml`, `host`, …",
    "gpu": "index of the card as the driver counts",
    "uuid": "the card itself, wherever it sits",
    "reason": "clock-event reason: " + ", ".join(f"`{reason.name}`" for reason in REASONS),
    "kind": "kind of error",
    "xid": "number of the driver's fault",
}
"""What each label says; one that is missing fails a test. Those of `ddwatch_server_info` are the server's own words."""
OF_THE_SERVER = "ddwatch_server_info"


def groups() -> dict[str, list[Metric]]:
    """Metrics by subject, in the order of the table."""
    found: dict[str, list[Metric]] = {}
    for metric in METRICS:
        found.setdefault(_subject(metric.name), []).append(metric)
    return found


def _subject(name: str) -> str:
    for start, subject in (
        ("ddwatch_gpu_", "GPUs"),
        ("process_", "ddwatch itself"),
        ("ddwatch_source_", "Sources"),
        ("ddwatch_lines_", "Sources"),
        ("ddwatch_log_", "Sources"),
        ("ddwatch_expected_", "Judgement"),
        ("ddwatch_throughput_ratio", "Judgement"),
        ("ddwatch_factor_", "Judgement"),
        ("ddwatch_verdict", "Judgement"),
        ("ddwatch_alert", "Judgement"),
        ("ddwatch_restarts", "Judgement"),
        ("ddwatch_clean", "Judgement"),
    ):
        if name.startswith(start):
            return subject
    return "The service"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        # A bar inside a cell would begin another one.
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def lines() -> Iterator[str]:
    """The page, line by line, after its head."""
    for subject, metrics in groups().items():
        yield f"\n## {subject}\n"
        rows = (
            (f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.meaning)
            for one in metrics
        )
        yield from _table(("metric", "type", "labels", "meaning"), rows)
    yield "\n## Labels\n"
    yield from _table(("label", "says"), ((f"`{label}`", says) for label, says in LABELS.items()))
    yield "\n## Buckets\n"
    for metric in METRICS:
        if metric.bounds:
            bounds = ", ".join(f"{bound:.4g}" for bound in metric.bounds)
            yield f"`{metric.name}`: {bounds}\n"
    yield "## Recording rules\n"
    yield from _table(("series", "is"), ((f"`{one.record}`", f"`{' '.join(one.expr.split())}`") for one in RECORDINGS))
    yield "\n## Alerts\n"
    yield from _table(
        ("alert", "severity", "after", "means"),
        ((f"`{one.alert}`", one.severity, one.lasting, one.meaning) for one in ALERTS),
    )


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
