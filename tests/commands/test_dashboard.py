"""`ddwatch dashboard`: Grafana can read it, and each query asks for metrics and labels that are exported."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ddwatch_sidecar.exports.metrics import METRICS

from ddwatch.commands.alert_rules import RECORDINGS
from ddwatch.commands.dashboard import dashboard, text
from ddwatch.commands.dashboard_shapes import WIDTH, Panel, Query, Row, placed
from ddwatch.core.exits import Exit
from tests.commands.dashboard_queries import asked, panels, plain
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.conftest import ROOT, Golden

DEPLOYED = ROOT / "sidecar" / "deploy" / "grafana-dashboard.json"
OF_PROMETHEUS = {"ALERTS": {"alertname", "alertstate", "severity"}, "up": set[str]()}
"""Series that Prometheus makes itself."""
OF_A_SCRAPE = {"job", "instance"}
WORDS = {"by", "sum", "rate", "increase", "histogram_quantile", "count", "time", "changes", "or", "on"}
"""What else stands in the queries as a bare word."""


def known() -> dict[str, set[str]]:
    """Every series that may be asked for, with its labels."""
    found = {name: labels | OF_A_SCRAPE for name, labels in OF_PROMETHEUS.items()}
    for metric in METRICS:
        labels = {*metric.labels, *OF_A_SCRAPE}
        if metric.kind == "histogram":
            found |= {f"{metric.name}_sum": labels, f"{metric.name}_count": labels}
            found[f"{metric.name}_bucket"] = {*labels, "le"}
        else:
            found[metric.name] = labels
    # The two that are shown keep the labels of what they are made of, or the scrape's.
    return found | {recording.record: set(OF_A_SCRAPE) for recording in RECORDINGS}


def complaints(expr: str, legend: str) -> list[str]:
    """Names and labels in a query that nobody exports."""
    series = known()
    bare = re.sub(r'"[^"]*"', '""', expr)
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", bare) for label in re.split(r", *", group)}
    bare = re.sub(r"\bby \([^)]*\)|\[[^]]*\]", " ", bare)
    selectors = dict(re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", bare))
    rest = re.sub(r"\{[^}]*\}", "", bare)
    names = set(re.findall(r"(?<![\w.])[a-zA-Z_:][\w:]*", rest)) - WORDS
    found = [f"{name} is not exported" for name in sorted(names - series.keys())]
    labels: set[str] = set()
    for name in names & series.keys():
        labels |= series[name]
        used = set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", selectors.get(name, "")))
        found += [f"{name} has no label {label}" for label in sorted(used - series[name])]
        if name not in selectors:
            found.append(f"{name} is asked for from every sidecar")
    asked_for = grouped | set(re.findall(r"\{\{(\w+)\}\}", legend))
    return found + [f"no label {label} in {expr}" for label in sorted(asked_for - labels)]


def test_every_query_asks_for_what_is_exported() -> None:
    assert {one.where: complaints(one.expr, one.legend) for one in asked() if complaints(one.expr, one.legend)} == {}


@pytest.mark.parametrize(
    ("expr", "legend", "complaint"),
    [
        ('ddwatch_no_such{job=~"$job"}', "", "ddwatch_no_such is not exported"),
        ('ddwatch_verdict{verdikt="down"}', "", "ddwatch_verdict has no label verdikt"),
        ('sum by (gpu) (ddwatch_verdict{job="a"})', "", "no label gpu in"),
        ('ddwatch_clean_ratio{job="a"}', "{{dp_rank}}", "no label dp_rank in"),
        ('rate(ddwatch_accept_length{job="a"}[5m])', "", "ddwatch_accept_length is not exported"),
        ("ddwatch_clean_ratio == 1", "", "ddwatch_clean_ratio is asked for from every sidecar"),
    ],
)
def test_a_query_for_what_nobody_exports_is_seen(expr: str, legend: str, complaint: str) -> None:
    assert [one for one in complaints(expr, legend) if one.startswith(complaint)]


def test_every_metric_is_shown_somewhere() -> None:
    queries = " ".join(one.expr for one in asked())

    assert [metric.name for metric in METRICS if not re.search(rf"\b{metric.name}(_sum|_bucket)?\{{", queries)] == []


def test_promtool_accepts_every_query(needs_command: Callable[[str], Path], tmp_path: Path) -> None:
    rules = [{"record": f"ddwatch:panel_{number}", "expr": plain(one.expr)} for number, one in enumerate(asked())]
    file = tmp_path / "queries.yml"
    # A JSON text is a YAML text.
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")

    result = subprocess.run(
        [needs_command("promtool"), "check", "rules", file], capture_output=True, text=True, timeout=30, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(rules)} rules found" in result.stdout


def test_each_variable_that_a_query_names_exists_and_hangs_on_the_data_source() -> None:
    variables = dashboard()["templating"]["list"]
    names = {variable["name"] for variable in variables}
    used = set(re.findall(r"\$\{?(?!__)(\w+)", text()))

    assert used == names
    assert [one["name"] for one in variables if one["type"] == "datasource"] == ["datasource"]
    assert all(
        one["datasource"]["uid"] == "${datasource}" for one in [*variables, *panels()] if one["type"] != "datasource"
    )
    for variable in variables:
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable.get("definition", ""))
        if variable["type"] == "query":
            assert found is not None and variable["query"]["query"] == variable["definition"]
            name = found[1].split("{")[0]
            assert name in known() and found[2] in known()[name]


def test_panels_stand_beside_each_other_without_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < WIDTH, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_a_full_line_of_panels_goes_on_below() -> None:
    row = Row("r", tuple(Panel(title=f"p{n}", meaning="m", queries=(Query("up"),), width=10) for n in range(3)))

    places = [panel["gridPos"] for panel in placed([row])]

    assert [(one["x"], one["y"]) for one in places] == [(0, 0), (0, 1), (10, 1), (0, 9)]


def test_the_rows_stand_in_the_order_of_questions() -> None:
    titles = [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"]

    assert titles == [
        "Verdict and ratio",
        "Throughput",
        "Accept length",
        "Step time",
        "Factors: from the remembered speed to this one",
        "Batch, context, queue",
        "GPUs",
        "Alerts",
        "Sources",
        "ddwatch itself",
    ]


def test_every_panel_says_how_to_read_it() -> None:
    assert [panel["title"] for panel in panels() if not panel["description"].endswith((".", ")"))] == []


def test_the_shipped_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    printed = said(["dashboard"], capsys)

    assert (printed.code, printed.err) == (Exit.OK, "")
    golden.check(DEPLOYED, printed.out)


def test_the_document_obeys_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(["dashboard", "--json"], capsys)

    document = held_against("dashboard.json", printed.out)
    assert printed.code == Exit.OK and document["dashboard"] == dashboard()
