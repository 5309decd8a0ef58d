"""The Grafana dashboard on a real Prometheus that scrapes a real sidecar: every query returns data."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ddwatch.commands import demo
from tests.commands.dashboard_queries import asked, plain
from tests.conftest import ROOT
from tests.e2e.test_prometheus_and_alertmanager import rewritten, rules, serving, value
from tests.e2e.waiting import until

PATIENCE = 90.0
NEVER_HERE = {
    "Errors in the chosen time B": "these cards have no NVLink",
    "Errors in the chosen time D": "no card of this story reports an Xid",
    "Gaps and rotations of the log B": "the log is not rotated",
    "NVLinks that are up A": "these cards have no NVLink",
}
"""Queries without an answer on a host without that trouble; each is checked by promtool and against the table."""


def asked_for(expr: str) -> str:
    """A query as Grafana sends it; one for errors above none asks whether they are counted."""
    sent = plain(expr, interval="20s", span="1m")
    return sent.removesuffix(" > 0") if sent.startswith(("increase(", "changes(")) else sent


@pytest.mark.timeout(300)
def test_every_query_returns_data(
    needs_command: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prometheus = needs_command("prometheus")
    needs_command("gcc")
    monkeypatch.setenv("DDWATCH_NVML", "yes")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    # A hot card makes the steps slow: there is an incident, a clock-event reason and an outlier to show.
    with demo.stage(parser.parse_args(["--scenario", "throttle", "--speed", "4"])) as child:
        # A subquery by the minute has its first value only at a full minute.
        recorded = rewritten(rules({"DdwatchSlowStep": "1s"}), unjudged=("[1h:1m]", "[1h:1s]"))
        (tmp_path / "ddwatch-rules.yml").write_text(recorded, encoding="utf-8")
        scrapes = rewritten(
            (ROOT / "sidecar/deploy/prometheus.yml").read_text(encoding="utf-8"),
            evaluation=("evaluation_interval: 15s", "evaluation_interval: 1s"),
            scrape=("scrape_interval: 15s", "scrape_interval: 1s"),
            target=("127.0.0.1:9477", child.url.removeprefix("http://")),
        )
        (tmp_path / "prometheus.yml").write_text(scrapes, encoding="utf-8")
        files = ("--config.file=prometheus.yml", "--storage.tsdb.path=prometheus")
        with serving(tmp_path, prometheus, *files) as server:
            left = {one.where: asked_for(one.expr) for one in asked()}

            def all_answered() -> bool:
                for where, expr in [*left.items()]:
                    if value(server, expr) is not None:
                        del left[where]
                return left.keys() <= NEVER_HERE.keys()

            until(all_answered, "an answer to every query", patience=PATIENCE, seen=lambda: f"{left}\n{server.words()}")
            assert left.keys() == NEVER_HERE.keys()
            # What has no answer asks for one metric, and the page of this very sidecar has no such series.
            for expr in left.values():
                (name,) = set(re.findall(r"ddwatch_\w+", expr))
                assert value(server, name) is None
