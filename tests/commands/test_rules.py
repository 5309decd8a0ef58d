"""`ddwatch rules`: Prometheus accepts the rules, each alert fires with its evidence, and stays silent where it must."""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from datetime import timezone
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from ddwatch_sidecar.exports.metric import View
from ddwatch_sidecar.exports.metrics import METRICS
from ddwatch_sidecar.exports.prometheus import PrometheusPage
from ddwatch_sidecar.metering import OwnFigures
from prometheus_client.parser import text_string_to_metric_families

from ddwatch.commands.alert_rules import ALERTS, RECORDINGS
from ddwatch.core.alert_orders import ALARMS
from ddwatch.core.exits import Exit
from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.snapshot import VerdictName
from ddwatch.demo.scenarios import generate
from ddwatch.profiles.in_force import model_side
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.conftest import Golden

DEPLOYED = Path(__file__).parent.parent.parent / "sidecar" / "deploy" / "ddwatch-rules.yml"
WHERE = 'job="ddwatch",instance="gpu01:9477"'
START = 1_777_636_800.0
SCRAPE_SECONDS = 15
FIGURES = OwnFigures(
    cpu_seconds=1.5, resident_bytes=50_000_000, virtual_bytes=90_000_000, started_at=1.0, open_files=9, max_files=1024
)


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{WHERE}{more}}}", "values": values}


def verdict(name: str, values: str = "1x40") -> dict[str, str]:
    return series("ddwatch_verdict", values, verdict=name)


def incident(name: str, values: str = "1x40") -> dict[str, str]:
    return series("ddwatch_alert_firing", values, alert=name)


class Story(NamedTuple):
    """Series by the minute, and what an alert does with them at a time."""

    alert: str
    at: str
    series: Sequence[dict[str, str]]
    evidence: str | None
    """None where it must be silent."""
    source: str | None = None


def means(name: str, mean: float, **labels: str) -> list[dict[str, str]]:
    """The sum and count of a histogram whose observations have this mean, a hundred a minute."""
    return [
        series(f"{name}_sum", f"0+{100 * mean:g}x40", provenance="log", **labels),
        series(f"{name}_count", "0+100x40", provenance="log", **labels),
    ]


RUNS = [
    series("ddwatch_running_requests", "3x40", dp_rank="0"),
    series("ddwatch_running_requests", "2x40", dp_rank="1"),
    series("ddwatch_throughput_tokens_per_second", "0x40", dp_rank="0"),
    series("ddwatch_throughput_tokens_per_second", "0x40", dp_rank="1"),
]
ACCEPT = means("ddwatch_accept_length", 1.15)
STORIES = (
    Story(
        "DdwatchSlowStep",
        "12m",
        [
            verdict("slow-step", "0x5 1x40"),
            series("ddwatch_throughput_ratio", "0.8x40"),
            *means("ddwatch_verify_latency_seconds", 0.125, span="step"),
            series("ddwatch_expected_verify_latency_seconds", "0.1x40"),
        ],
        "measured over expected 80%, step 125ms, expected 100ms",
    ),
    Story(
        "DdwatchSlowStep",
        "12m",
        [verdict("slow-step"), verdict("as-expected", "0x40")],
        "measured over expected unknown, step unknown, expected unknown",
    ),
    Story("DdwatchSlowStep", "12m", [verdict("slow-step", "0x40"), verdict("as-expected")], None),
    Story("DdwatchSlowStep", "12m", [verdict("slow-step", "0x12 1 0x30")], None),
    Story("DdwatchStalled", "3m", [verdict("stalled"), *RUNS], "5 running, 0 tokens/s"),
    Story("DdwatchStalled", "3m", [verdict("stalled", "0x40"), *RUNS], None),
    Story("DdwatchDown", "3m", [verdict("down")], "verdict down for a minute"),
    Story("DdwatchDown", "3m", [verdict("blind")], None),
    Story("DdwatchStarved", "4m", [verdict("starved"), *RUNS], "5 running, 0 tokens/s"),
    Story("DdwatchStarved", "4m", [verdict("starved", "0x3 1x1 0x40")], None),
    # Also where the verdict is another: no model of the step is needed.
    Story(
        "DdwatchLowAccept",
        "8m",
        [incident("low-accept"), verdict("learning"), *ACCEPT],
        "accept length 1.15 over five minutes",
    ),
    Story("DdwatchLowAccept", "8m", [incident("low-accept", "0x40"), verdict("as-expected"), *ACCEPT], None),
    Story("DdwatchHighAccept", "8m", [incident("high-accept"), *ACCEPT], "accept length 1.15 over five minutes"),
    Story("DdwatchHighAccept", "4m", [incident("high-accept"), *ACCEPT], None),
    Story("DdwatchRetractions", "4m", [incident("retractions", "0x3 1x40"), *RUNS], "5 running, 0 tokens/s"),
    Story("DdwatchRetractions", "4m", [incident("retractions", "0x40"), *RUNS], None),
    Story(
        "DdwatchBlind",
        "20m",
        [verdict("blind"), series("ddwatch_clean_ratio", "0.02x40")],
        "clean samples 2%, not judged in the last hour 100%",
    ),
    Story(
        "DdwatchBlind",
        "20m",
        [verdict("blind"), series("ddwatch_source_up", "0x40", source="loads")],
        "clean samples unknown, not judged in the last hour 100%",
    ),
    # A service that nobody uses at night writes nothing, and a log alone cannot tell: nobody is woken or noted.
    Story("DdwatchBlind", "40m", [verdict("blind"), series("ddwatch_source_up", "1x40", source="log")], None),
    Story(
        "DdwatchSilent",
        "70m",
        [verdict("blind", "1x80"), series("ddwatch_source_up", "1x80", source="log")],
        "verdict blind, no sample in five minutes, SGLang's port is not asked",
    ),
    Story("DdwatchSilent", "70m", [verdict("blind", "1x80"), series("ddwatch_clean_ratio", "0.02x80")], None),
    Story(
        "DdwatchSourceLost",
        "12m",
        [series("ddwatch_source_up", "1x5 0x40", source="log")],
        "log has been down for five minutes",
        "log",
    ),
    Story("DdwatchSourceLost", "12m", [series("ddwatch_source_up", "1x5 0x3 1x40", source="log")], None),
    Story(
        "DdwatchLinesUnread",
        "25m",
        [series("ddwatch_lines_unread_total", "0+2x40", source="log")],
        "30 lines in 15 minutes",
        "log",
    ),
    Story("DdwatchLinesUnread", "25m", [series("ddwatch_lines_unread_total", "0x10 2x40", source="log")], None),
    Story("DdwatchRestarts", "40m", [series("ddwatch_restarts_total", "0x9 1x9 2x9 3x20")], "3 restarts in an hour"),
    Story("DdwatchRestarts", "40m", [series("ddwatch_restarts_total", "0x9 1x30 2x20")], None),
    Story("DdwatchAbsent", "10m", [series("up", "0x40")], "no scrape of the job ddwatch for five minutes"),
    Story("DdwatchAbsent", "10m", [series("up", "1x4 0x3 1x40")], None),
)


def expected(story: Story) -> list[dict[str, Any]]:
    """What promtool shall find: labels and every annotation, to the letter."""
    if story.evidence is None:
        return []
    (alert,) = (one for one in ALERTS if one.alert == story.alert)
    labels = {"job": "ddwatch", "instance": "gpu01:9477", **({} if story.source is None else {"source": story.source})}
    found = next((one for one in story.series if one["series"].startswith("ddwatch_verdict")), None)
    if found is not None and alert.expr.startswith("ddwatch_verdict"):
        labels["verdict"] = found["series"].split('verdict="')[1].split('"')[0]
    if alert.expr.startswith("ddwatch_alert_firing"):
        labels["alert"] = alert.expr.split('alert="')[1].split('"')[0]

    def told(text: str) -> str:
        text = text.replace("{{ with $labels.instance }} on {{ . }}{{ end }}", " on gpu01:9477")
        return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)

    annotations = {
        "summary": told(alert.summary),
        "meaning": alert.meaning,
        "evidence": story.evidence,
        "next_command": told(alert.next_command),
    }
    return [{"exp_labels": {**labels, "severity": alert.severity}, "exp_annotations": annotations}]


def run_promtool(promtool: Path, folder: Path, tests: list[dict[str, Any]]) -> None:
    """Runs unit tests of the printed rules; a JSON text is a YAML text."""
    (folder / "rules.yml").write_text(DEPLOYED.read_text(encoding="utf-8"), encoding="utf-8")
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(folder / "tests.yml")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class TestPrinted:
    def test_the_shipped_file_is_what_the_command_prints(
        self, golden: Golden, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ended = said(["rules"], capsys)

        assert (ended.code, ended.err) == (Exit.OK, "")
        golden.check(DEPLOYED, ended.out)

    def test_the_document_holds_the_same(self, capsys: pytest.CaptureFixture[str]) -> None:
        document = held_against("rules.json", said(["rules", "--json"], capsys).out)

        assert [one["record"] for one in document["groups"][0]["rules"]] == [one.record for one in RECORDINGS]
        assert [one["alert"] for one in document["groups"][1]["rules"]] == [one.alert for one in ALERTS]

    def test_promtool_accepts_them(self, needs_command: Callable[[str], Path]) -> None:
        done = subprocess.run(
            [needs_command("promtool"), "check", "rules", "--lint-fatal", str(DEPLOYED)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{len(ALERTS) + len(RECORDINGS)} rules found" in done.stdout

    def test_every_metric_that_they_name_is_exported(self) -> None:
        exported = {metric.name for metric in METRICS}
        exported |= {
            f"{metric.name}_{part}" for metric in METRICS if metric.kind == "histogram" for part in ("sum", "count")
        }
        text = DEPLOYED.read_text(encoding="utf-8")
        named = set(re.findall(r"(?<![\w:-])ddwatch_[a-z0-9_]+(?!:)\b", text))
        recorded = set(re.findall(r"instance:[a-z0-9_:]+", text))

        assert named and named <= exported, named - exported
        assert recorded == {one.record for one in RECORDINGS}

    def test_a_metric_that_does_not_exist_would_be_seen(self) -> None:
        assert re.findall(r"(?<![\w:-])ddwatch_[a-z0-9_]+(?!:)\b", "rate(ddwatch_nothing_total[5m])")

    def test_every_verdict_that_they_name_exists(self) -> None:
        text = DEPLOYED.read_text(encoding="utf-8")
        named = set(re.findall(r'verdict="([a-z-]+)"', text))
        incidents = set(re.findall(r'alert="([a-z-]+)"', text))

        assert named == {"slow-step", "stalled", "down", "starved", "blind"}
        assert incidents == {"low-accept", "high-accept", "retractions"}
        assert named <= set(get_args(VerdictName)) and incidents <= set(ALARMS)

    def test_every_alert_says_what_an_operator_needs(self) -> None:
        for alert in ALERTS:
            assert alert.severity in ("page", "notice", "info"), alert.alert
            assert all((alert.summary, alert.meaning, alert.evidence, alert.next_command)), alert.alert
        assert {one.alert for one in ALERTS if one.severity == "page"} == {
            "DdwatchSlowStep",
            "DdwatchStalled",
            "DdwatchDown",
        }


class TestFiring:
    def test_every_alert_fires_with_its_evidence_and_is_silent_where_it_must(
        self, needs_command: Callable[[str], Path], tmp_path: Path
    ) -> None:
        tests = [
            {
                "interval": "1m",
                "input_series": list(story.series),
                "alert_rule_test": [{"eval_time": story.at, "alertname": story.alert, "exp_alerts": expected(story)}],
            }
            for story in STORIES
        ]
        run_promtool(needs_command("promtool"), tmp_path, tests)
        for fires in (True, False):
            told = {story.alert for story in STORIES if (story.evidence is not None) is fires}
            assert told == {alert.alert for alert in ALERTS}

    def test_a_job_without_any_target_is_absent_too(self, needs_command: Callable[[str], Path], tmp_path: Path) -> None:
        (alert,) = (one for one in ALERTS if one.alert == "DdwatchAbsent")
        annotations = {
            "summary": "Nobody watches SGLang: ddwatch is absent",
            "meaning": alert.meaning,
            "evidence": alert.evidence,
            "next_command": alert.next_command,
        }
        firing = {"exp_labels": {"job": "ddwatch", "severity": "notice"}, "exp_annotations": annotations}
        test = {
            "interval": "1m",
            "input_series": [{"series": 'up{job="other"}', "values": "1x40"}],
            "alert_rule_test": [{"eval_time": "10m", "alertname": "DdwatchAbsent", "exp_alerts": [firing]}],
        }
        run_promtool(needs_command("promtool"), tmp_path, [test])


def recorded(name: str, seconds: int) -> tuple[list[dict[str, str]], Monitor]:
    """The series that Prometheus would have scraped while a story of the simulated service was watched."""
    monitor = Monitor(started_at=START, expecting=model_side(None)())
    reader = LogReader(timezone.utc, START)
    lines = generate(name, 1, START, seconds)
    ahead = next(lines)
    found: dict[str, dict[int, float]] = {}
    for scrape in range(seconds // SCRAPE_SECONDS):
        now = START + scrape * SCRAPE_SECONDS
        while ahead is not None and ahead[0] <= now:
            for record in reader.read(ahead[1].encode(), ahead[0], None):
                monitor.accept(record)
            ahead = next(lines, (float("inf"), ""))
        view = View(monitor.at(now), monitor.tallies(), FIGURES)
        page = PrometheusPage(lambda view=view: view).page("").body.decode()  # type: ignore[misc]
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name.endswith(("_bucket", "_created")) or sample.name.startswith("process_"):
                    continue
                labels = "".join(f',{key}="{value}"' for key, value in sample.labels.items())
                found.setdefault(f"{sample.name}{{{WHERE}{labels}}}", {})[scrape] = sample.value
    found[f"up{{{WHERE}}}"] = dict.fromkeys(range(seconds // SCRAPE_SECONDS), 1.0)
    written = [
        {"series": key, "values": " ".join(f"{values[n]!r}" if n in values else "_" for n in range(max(values) + 1))}
        for key, values in found.items()
    ]
    return written, monitor


def test_nothing_fires_on_what_was_recorded_of_the_founding_story(
    needs_command: Callable[[str], Path], tmp_path: Path
) -> None:
    written, monitor = recorded("founding", 1200)
    silent = [
        {"eval_time": f"{minute}m", "alertname": alert.alert, "exp_alerts": []}
        for minute in range(1, 20)
        for alert in ALERTS
    ]
    test = {
        "interval": f"{SCRAPE_SECONDS}s",
        "input_series": written,
        "alert_rule_test": silent,
        "promql_expr_test": [
            {
                "expr": "count(instance:ddwatch_step_seconds:mean5m > 0.02 < 0.2)",
                "eval_time": "19m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
        ],
    }

    assert monitor.tallies().restarts == 1
    run_promtool(needs_command("promtool"), tmp_path, [test])
