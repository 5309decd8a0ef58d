"""The Prometheus page: both dialects, cumulative buckets, silent under promtool."""

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from ddwatch_sidecar.exports.metric import View
from ddwatch_sidecar.exports.metrics import METRICS
from ddwatch_sidecar.exports.prometheus import PrometheusPage
from ddwatch_sidecar.metering import OwnFigures
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ddwatch.core.tallies import Count, Tallies
from tests.conftest import Golden
from tests.sidecar.exports.supplied import full_snapshot, full_tallies, snapshot

PAGE = Path(__file__).parent.parent.parent / "golden" / "metrics" / "full.prom"
FIGURES = OwnFigures(
    cpu_seconds=1.5, resident_bytes=50_000_000, virtual_bytes=90_000_000, started_at=1.0, open_files=9, max_files=1024
)


def parse_openmetrics(page: str) -> Iterable[Metric]:
    families: Iterable[Metric] = openmetrics.text_string_to_metric_families(page)  # type: ignore[no-untyped-call]
    return families


def full_page(accept: str = "") -> str:
    view = View(full_snapshot(), full_tallies(), FIGURES)
    return PrometheusPage(lambda: view).page(accept).body.decode()


def test_the_whole_page_is_as_reviewed(golden: Golden) -> None:
    golden.check(PAGE, full_page())


def test_promtool_has_nothing_to_say(needs_command: Callable[[str], Path]) -> None:
    promtool = needs_command("promtool")
    for page in (
        full_page(),
        PrometheusPage(lambda: View(snapshot(), Count().frozen(0), FIGURES)).page("").body.decode(),
    ):
        result = subprocess.run(
            [promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=30, check=False
        )
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_row_of_the_table_is_on_the_page_and_nothing_else() -> None:
    families = {family.name: family for family in parse_text(full_page())}

    assert set(families) == {metric.name.removesuffix("_total") for metric in METRICS}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)


def test_a_reader_that_asks_for_openmetrics_gets_it() -> None:
    view = View(full_snapshot(), full_tallies(), FIGURES)
    page = PrometheusPage(lambda: view).page("application/openmetrics-text; version=1.0.0,text/plain;q=0.5")

    assert page.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert page.body.endswith(b"# EOF\n")
    names = {family.name for family in parse_openmetrics(page.body.decode())}
    assert names == {metric.name.removesuffix("_total") for metric in METRICS}


def test_a_reader_that_asks_for_nothing_gets_plain_text() -> None:
    page = PrometheusPage(lambda: View(snapshot(), Tallies(), FIGURES)).page("")

    assert page.content_type.startswith("text/plain; version=0.0.4")


def test_buckets_are_cumulative_and_end_with_all() -> None:
    family = next(f for f in parse_text(full_page()) if f.name == "ddwatch_accept_length")
    rank_0 = [s for s in family.samples if s.labels["dp_rank"] == "0"]
    buckets = {s.labels["le"]: s.value for s in rank_0 if s.name.endswith("_bucket")}

    assert (buckets["1.0"], buckets["2.5"], buckets["3.0"], buckets["17.0"], buckets["+Inf"]) == (1, 1, 3, 3, 4)
    assert [s.value for s in rank_0 if s.name.endswith("_sum")] == [1.0 + 2.9 + 2.9 + 40.0]
    assert [s.value for s in rank_0 if s.name.endswith("_count")] == [4]


def test_a_hostile_label_cannot_break_the_page() -> None:
    tallies = Tallies(alerts={'a"b\\c\n} 1': 2})
    page = PrometheusPage(lambda: View(snapshot(), tallies, FIGURES)).page("").body.decode()
    (family,) = [f for f in parse_text(page) if f.name == "ddwatch_alerts"]

    assert [(s.labels["alert"], s.value) for s in family.samples] == [('a"b\\c} 1', 2)]


def test_the_page_is_made_of_our_own_registry() -> None:
    before = list(REGISTRY.collect())
    full_page()

    assert [f.name for f in REGISTRY.collect()] == [f.name for f in before]
    assert "python_gc" not in full_page()
