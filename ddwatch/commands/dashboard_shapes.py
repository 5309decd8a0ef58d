"""What a Grafana dashboard is made of: queries, panels and rows as plain JSON values, and where each stands."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from msgspec import Struct, field

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HERE = 'job=~"$job", instance=~"$instance"'
"""The sidecars that the variables choose."""
WIDTH = 24
"""Columns of Grafana's grid."""
GOOD, ODD, BAD, QUIET = "green", "orange", "red", "#8e8e8e"


class Query(Struct, frozen=True):
    """One PromQL expression of a panel."""

    expr: str
    legend: str = ""
    """May name labels as {{label}}."""
    instant: bool = False
    """Only the newest value counts."""
    form: str = "time_series"


class Panel(Struct, frozen=True, kw_only=True):
    """One picture, with the sentence that says how to read it."""

    title: str
    meaning: str
    kind: str = "timeseries"
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 8
    height: int = 8
    custom: dict[str, Any] = field(default_factory=dict)
    """Of fieldConfig.defaults.custom."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Of fieldConfig.defaults."""
    overrides: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    transformations: tuple[dict[str, Any], ...] = ()


class Row(Struct, frozen=True):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def colours(*steps: tuple[float | None, str]) -> dict[str, Any]:
    """Colours from values on; the first has none."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def named(name: str, **properties: Any) -> dict[str, Any]:
    """Properties of the series of one name; a double underscore in a property's name stands for a dot."""
    found = [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": found}


def fixed(color: str) -> dict[str, Any]:
    """One colour."""
    return {"mode": "fixed", "fixedColor": color}


def meaning_of(values: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """Texts and colours in place of values."""
    options = {value: {"text": text, "color": color} for value, (text, color) in values.items()}
    return [{"type": "value", "options": options}]


TIME_SERIES = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
LINES = {
    "drawStyle": "line",
    "lineWidth": 1,
    "fillOpacity": 0,
    "showPoints": "never",
    "spanNulls": False,
    "axisSoftMin": 0,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": TIME_SERIES,
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background",
        "graphMode": "none",
        "textMode": "auto",
        "justifyMode": "center",
    },
    "bargauge": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "displayMode": "gradient",
        "orientation": "horizontal",
    },
    "state-timeline": {
        "mergeValues": True,
        "showValue": "never",
        "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "tooltip": {"mode": "single"},
    },
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64, "exponent": 0.5, "reverse": False},
        "cellGap": 1,
        "filterValues": {"le": 1e-9},
        "yAxis": {"axisPlacement": "left", "reverse": False},
        "rowsFrame": {"layout": "auto"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": True},
    },
    "table": {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}},
}
"""Kinds of panels in use, with what holds for each of the kind."""


def target(query: Query, ref: str) -> dict[str, Any]:
    """A query as a panel carries it."""
    return {
        "refId": ref,
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": query.form,
        "instant": query.instant,
        "range": not query.instant,
    }


def panel_json(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """A panel at its place."""
    custom = {**(LINES if panel.kind == "timeseries" else {}), **panel.custom}
    defaults = {"unit": panel.unit, **panel.defaults, **({"custom": custom} if custom else {})}
    found: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": defaults, "overrides": list(panel.overrides)},
        "options": {**OPTIONS[panel.kind], **panel.options},
        "targets": [target(query, chr(ord("A") + index)) for index, query in enumerate(panel.queries)],
    }
    if panel.transformations:
        found["transformations"] = list(panel.transformations)
    return found


def placed(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """All panels in reading order: from left to right, and below where a line is full."""
    numbers = count(1)
    found: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        found.append({"id": next(numbers), **heading, "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})
        y += 1
        for line in lines(row.panels):
            x = 0
            for panel in line:
                found.append(panel_json(panel, next(numbers), x, y))
                x += panel.width
            y += max(panel.height for panel in line)
    return found


def lines(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Panels that stand beside each other."""
    found: list[list[Panel]] = []
    for panel in panels:
        if not found or sum(one.width for one in found[-1]) + panel.width > WIDTH:
            found.append([])
        found[-1].append(panel)
    return found
