"""The rows of the Grafana dashboard about the watch itself: what it raised, what it reads, and what it costs."""

from ddwatch.commands.alert_rules import UNJUDGED
from ddwatch.commands.dashboard_shapes import BAD, GOOD, HERE, ODD, Panel, Query, Row, fixed, meaning_of

OFF_ON = meaning_of({"0": ("no", "transparent"), "1": ("yes", ODD)})
DOWN_UP = meaning_of({"0": ("down", BAD), "1": ("up", GOOD)})

ALERTS = Row(
    "Alerts",
    (
        Panel(
            title="Incidents",
            meaning="What lasts, be it the verdict or not. `ddwatch alerts` has the sentences and next commands.",
            kind="state-timeline",
            queries=(Query(f"ddwatch_alert_firing{{{HERE}}}", "{{alert}}"),),
            width=12,
            defaults={"mappings": OFF_ON},
        ),
        Panel(
            title="Fired since the watch began",
            meaning="Absent for what never fired.",
            kind="bargauge",
            queries=(Query(f"ddwatch_alerts_total{{{HERE}}}", "{{alert}}", instant=True),),
            width=6,
            defaults={"decimals": 0, "color": fixed(ODD)},
        ),
        Panel(
            title="Alerts of Prometheus",
            meaning="Pending and firing alerts of `ddwatch rules`, once they are loaded.",
            kind="table",
            queries=(Query('ALERTS{alertname=~"Ddwatch.+", job=~"$job|"}', instant=True, form="table"),),
            width=6,
            transformations=(
                {"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True, "__name__": True}}},
            ),
        ),
    ),
)

SOURCES = Row(
    "Sources",
    (
        Panel(
            title="Sources",
            meaning="What ddwatch reads: log, load, metrics, GPUs, host. What a lost one told is missing, not 0.",
            kind="state-timeline",
            queries=(Query(f"ddwatch_source_up{{{HERE}}}", "{{source}}"),),
            defaults={"mappings": DOWN_UP},
        ),
        Panel(
            title="Age of the newest delivery",
            meaning="A log is silent while nobody is served.",
            queries=(Query(f"ddwatch_source_age_seconds{{{HERE}}}", "{{source}}"),),
            unit="s",
        ),
        Panel(
            title="Lines read and unread",
            meaning="Unread lines have a known head and fields that cannot be read: SGLang is newer than ddwatch.",
            queries=(
                Query(f"rate(ddwatch_lines_read_total{{{HERE}}}[$__rate_interval])", "{{source}} read/s"),
                Query(f"rate(ddwatch_lines_unread_total{{{HERE}}}[$__rate_interval])", "{{source}} unread/s"),
            ),
        ),
        Panel(
            title="Gaps and rotations of the log",
            meaning="A gap is a place where lines may have been lost; a rotation was followed without loss.",
            queries=(
                Query(f"ddwatch_log_gaps_total{{{HERE}}}", "{{source}} gaps"),
                Query(f"ddwatch_log_rotations_total{{{HERE}}}", "{{source}} rotations"),
            ),
            width=12,
            height=6,
        ),
        Panel(
            title="Not judged in the last hour",
            meaning="Share of it with the verdict blind, learning or warming (a recording rule of `ddwatch rules`).",
            queries=(Query(f"{UNJUDGED}{{{HERE}}}", "{{instance}}"),),
            unit="percentunit",
            width=12,
            height=6,
            defaults={"max": 1},
        ),
    ),
)

OURSELVES = Row(
    "ddwatch itself",
    (
        Panel(
            title="Scraped",
            meaning="Whether Prometheus reaches the sidecar. Nothing else here is true while it does not.",
            kind="state-timeline",
            queries=(Query(f"up{{{HERE}}}", "{{instance}}"),),
            width=6,
            defaults={"mappings": DOWN_UP},
        ),
        Panel(
            title="CPU of the sidecar",
            meaning="Of one core. The budget is 1 to 2 %.",
            queries=(Query(f"rate(process_cpu_seconds_total{{{HERE}}}[$__rate_interval])", "{{instance}}"),),
            unit="percentunit",
            width=6,
        ),
        Panel(
            title="Memory of the sidecar",
            meaning="The budget is 80 MB resident.",
            queries=(
                Query(f"process_resident_memory_bytes{{{HERE}}}", "resident {{instance}}"),
                Query(f"process_virtual_memory_bytes{{{HERE}}}", "virtual {{instance}}"),
            ),
            unit="bytes",
            width=6,
        ),
        Panel(
            title="Files and time since its start",
            meaning="Open descriptors as a share of the limit, and how long this sidecar has been watching.",
            queries=(
                Query(f"process_open_fds{{{HERE}}} / process_max_fds{{{HERE}}}", "files {{instance}}"),
                Query(f"time() - process_start_time_seconds{{{HERE}}}", "running {{instance}}"),
            ),
            unit="percentunit",
            width=6,
            overrides=(
                {
                    "matcher": {"id": "byRegexp", "options": "^running .*"},
                    "properties": [
                        {"id": "unit", "value": "s"},
                        {"id": "custom.axisPlacement", "value": "right"},
                    ],
                },
            ),
        ),
    ),
)
