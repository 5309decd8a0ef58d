"""Every query of the Grafana dashboard, the variables replaced as Grafana replaces them."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ddwatch.commands.dashboard import dashboard


class Asked(NamedTuple):
    """One query and where it stands."""

    where: str
    expr: str
    legend: str


def panels() -> list[dict[str, Any]]:
    """All panels but the headings."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def asked() -> list[Asked]:
    """Every query as it is written."""
    return [*_asked()]


def _asked() -> Iterator[Asked]:
    for panel in panels():
        for target in panel["targets"]:
            yield Asked(f"{panel['title']} {target['refId']}", target["expr"], target["legendFormat"])
    for note in dashboard()["annotations"]["list"]:
        yield Asked(note["name"], note["expr"], "")


def plain(expr: str, interval: str = "5m", span: str = "1h") -> str:
    """A query as Grafana sends it where all of each variable is chosen."""
    found = re.sub(r"\$(job|instance|gpu)\b", ".*", expr)
    return found.replace("$__rate_interval", interval).replace("$__range", span)
