"""`ddwatch dashboard`: prints a Grafana dashboard over the metrics of the sidecar."""

import argparse
import json
import sys
from typing import Any

from ddwatch.commands.dashboard_rows import ROWS
from ddwatch.commands.dashboard_shapes import SOURCE, placed
from ddwatch.core.exits import Exit

SCHEMA = "ddwatch.dashboard/1"
GRAFANA_SCHEMA = 41
"""Of Grafana 12; older ones from 10 on read it, newer ones migrate it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.description = (
        "Prints a Grafana dashboard as JSON: import it by Dashboards > New > Import, or lay it where Grafana is "
        "provisioned from. The data source is a variable. Two panels need the recording rules of `ddwatch rules`."
    )
    parser.add_argument(
        "--json", action="store_true", help="one document of ddwatch with the dashboard in it, not the bare dashboard"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the dashboard."""
    if arguments.json:
        sys.stdout.write(json.dumps({"schema": SCHEMA, "dashboard": dashboard()}, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(text())
    return Exit.OK


def text() -> str:
    """The dashboard as a file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def _chosen(name: str, label: str, query: str) -> dict[str, Any]:
    """A variable that offers the values of a label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 3,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
        "hide": 0,
    }


def dashboard() -> dict[str, Any]:
    """The dashboard as plain values."""
    return {
        "uid": "ddwatch-sglang",
        "title": "ddwatch: SGLang with speculative decoding",
        "description": "What a service does, what it should do at this batch and context, and which factor makes the "
        "difference. Printed by `ddwatch dashboard`.",
        "tags": ["ddwatch", "sglang"],
        "schemaVersion": GRAFANA_SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "15s",
        "links": [],
        "annotations": {
            "list": [
                {
                    "name": "Restarts",
                    "datasource": SOURCE,
                    "enable": True,
                    "hide": False,
                    "iconColor": "orange",
                    "expr": 'changes(ddwatch_restarts_total{job=~"$job", instance=~"$instance"}[1m]) > 0',
                    "titleFormat": "restart of SGLang",
                    "step": "1m",
                }
            ]
        },
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                    "current": {},
                    "options": [],
                    "hide": 0,
                },
                _chosen("job", "Job", "label_values(ddwatch_verdict, job)"),
                _chosen("instance", "Sidecar", 'label_values(ddwatch_verdict{job=~"$job"}, instance)'),
                _chosen("gpu", "GPU", 'label_values(ddwatch_gpu_lost{job=~"$job", instance=~"$instance"}, gpu)'),
            ]
        },
        "panels": placed(ROWS),
    }
