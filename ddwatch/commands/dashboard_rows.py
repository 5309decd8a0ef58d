"""What the Grafana dashboard shows, row by row, each panel with its PromQL and with how it is to be read."""

from typing import Any, get_args

from ddwatch.commands.alert_rules import RATIO
from ddwatch.commands.dashboard_gpus import GPUS
from ddwatch.commands.dashboard_shapes import (
    BAD,
    GOOD,
    HERE,
    ODD,
    QUIET,
    Panel,
    Query,
    Row,
    colours,
    fixed,
    meaning_of,
    named,
)
from ddwatch.commands.dashboard_upkeep import ALERTS, OURSELVES, SOURCES
from ddwatch.core.verdict import VerdictName

EACH = "job, instance"

COLOURS: dict[VerdictName, str] = {
    "down": BAD,
    "stalled": BAD,
    "slow-step": BAD,
    "starved": ODD,
    "low-accept": ODD,
    "high-accept": ODD,
    "blind": "purple",
    "warming": "blue",
    "learning": "blue",
    "idle": QUIET,
    "as-expected": GOOD,
}
"""As on ddwatch's own screen: what pages, what can wait, what cannot judge, what is fine."""
BAND: dict[str, Any] = {"lineWidth": 0, "fillOpacity": 15}


def mean(histogram: str, by: str, more: str = "") -> str:
    """The mean of what a histogram saw in the interval."""
    chosen = f"{HERE}{', ' if more else ''}{more}"
    return (
        f"sum by ({by}) (rate({histogram}_sum{{{chosen}}}[$__rate_interval]))"
        f" / (sum by ({by}) (rate({histogram}_count{{{chosen}}}[$__rate_interval])) > 0)"
    )


def buckets(histogram: str, more: str = "") -> Query:
    """What a heatmap draws."""
    chosen = f"{HERE}{', ' if more else ''}{more}"
    return Query(f"sum by (le) (increase({histogram}_bucket{{{chosen}}}[$__rate_interval]))", "{{le}}", form="heatmap")


VERDICT = Row(
    "Verdict and ratio",
    (
        Panel(
            title="Verdict",
            meaning="What ddwatch holds of the service now. Red pages, orange can wait, blue and purple cannot judge.",
            kind="stat",
            queries=(Query(f"ddwatch_verdict{{{HERE}}} == 1", "{{verdict}}", instant=True),),
            width=6,
            height=5,
            options={"textMode": "name"},
            overrides=tuple(named(name, color=fixed(COLOURS[name])) for name in get_args(VerdictName)),
        ),
        Panel(
            title="Measured over expected",
            meaning="1 is what the model holds for this batch, context and accept length. Absent while nothing can be "
            "judged. Faster is never wrong.",
            kind="stat",
            queries=(Query(f"ddwatch_throughput_ratio{{{HERE}}}", "{{instance}}", instant=True),),
            unit="percentunit",
            width=6,
            height=5,
            defaults={"thresholds": colours((None, BAD), (0.75, ODD), (0.9, GOOD)), "color": {"mode": "thresholds"}},
        ),
        Panel(
            title="Clean samples",
            meaning="Share of samples of the last five minutes that may be judged. Low: set --decode-log-interval 1.",
            kind="stat",
            queries=(Query(f"ddwatch_clean_ratio{{{HERE}}}", "{{instance}}", instant=True),),
            unit="percentunit",
            width=6,
            height=5,
            defaults={"thresholds": colours((None, ODD), (0.2, GOOD)), "color": {"mode": "thresholds"}},
        ),
        Panel(
            title="Restarts",
            meaning="Restarts of the watched server since the watch began; `ddwatch compare` says what each changed.",
            kind="stat",
            queries=(Query(f"ddwatch_restarts_total{{{HERE}}}", "{{instance}}", instant=True),),
            width=6,
            height=5,
            defaults={"color": fixed(QUIET), "decimals": 0},
        ),
        Panel(
            title="Verdicts over time",
            meaning="The verdict that holds; one at a time for each sidecar.",
            kind="state-timeline",
            queries=(Query(f"ddwatch_verdict{{{HERE}}} == 1", "{{verdict}} {{instance}}"),),
            width=12,
            defaults={"mappings": meaning_of({"1": ("holds", ODD)})},
            overrides=tuple(
                {
                    "matcher": {"id": "byRegexp", "options": f"^{name} .*"},
                    "properties": [{"id": "mappings", "value": meaning_of({"1": ("holds", COLOURS[name])})}],
                }
                for name in get_args(VerdictName)
            ),
        ),
        Panel(
            title="Measured over expected, over time",
            meaning="Now, and the mean of five minutes (a recording rule of `ddwatch rules`). At 1 all is as expected.",
            queries=(
                Query(f"ddwatch_throughput_ratio{{{HERE}}}", "{{instance}} now"),
                Query(f"{RATIO}{{{HERE}}}", "{{instance}} 5 min"),
            ),
            unit="percentunit",
            width=12,
            custom={"thresholdsStyle": {"mode": "line"}},
            defaults={"thresholds": colours((None, "transparent"), (1, GOOD))},
        ),
        Panel(
            title="Watched server",
            meaning="What the server said of itself: another model, tree or parallelism is another profile.",
            kind="table",
            queries=(Query(f"ddwatch_server_info{{{HERE}}}", instant=True, form="table"),),
            width=24,
            height=4,
            transformations=(
                {"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True, "__name__": True}}},
            ),
        ),
    ),
)

THROUGHPUT = Row(
    "Throughput",
    (
        Panel(
            title="Tokens per second, measured and expected",
            meaning="The band is what the model holds for the batch, context and accept length of the moment. Within "
            "it all is well, however low the figure.",
            queries=(
                Query(f"sum by ({EACH}) (ddwatch_throughput_tokens_per_second{{{HERE}}})", "measured"),
                Query(f"ddwatch_expected_throughput_tokens_per_second{{{HERE}}}", "expected"),
                Query(f"ddwatch_expected_throughput_tokens_per_second_low{{{HERE}}}", "lowest expected"),
                Query(f"ddwatch_expected_throughput_tokens_per_second_high{{{HERE}}}", "highest expected"),
            ),
            unit="suffix: tok/s",
            width=16,
            height=9,
            overrides=(
                named("measured", color=fixed("blue"), custom__lineWidth=2),
                named("expected", color=fixed(QUIET), custom__lineStyle={"fill": "dash", "dash": [6, 6]}),
                named("lowest expected", color=fixed(QUIET), custom__lineWidth=0),
                named(
                    "highest expected",
                    color=fixed(QUIET),
                    custom__fillBelowTo="lowest expected",
                    **{f"custom__{key}": value for key, value in BAND.items()},
                ),
            ),
        ),
        Panel(
            title="Tokens per second by rank",
            meaning="Newest sample of each DP rank, and what the counters say where tokens are counted.",
            queries=(
                Query(f"ddwatch_throughput_tokens_per_second{{{HERE}}}", "rank {{dp_rank}}"),
                Query(
                    f"sum by ({EACH}, dp_rank) (rate(ddwatch_tokens_total{{{HERE}}}[$__rate_interval]))",
                    "rank {{dp_rank}} counted",
                ),
            ),
            unit="suffix: tok/s",
            height=9,
        ),
    ),
)

ACCEPT = Row(
    "Accept length",
    (
        Panel(
            title="Accept length",
            meaning="Tokens committed per request and step, bonus token included. Other text, other length: no fault.",
            kind="heatmap",
            queries=(buckets("ddwatch_accept_length"),),
            width=16,
        ),
        Panel(
            title="Mean and median accept length",
            meaning="By provenance: where the figure was read. Below 1.3 the drafter hardly helps.",
            queries=(
                Query(mean("ddwatch_accept_length", f"{EACH}, provenance"), "mean {{provenance}}"),
                Query(
                    f"histogram_quantile(0.5, sum by ({EACH}, le) "
                    f"(rate(ddwatch_accept_length_bucket{{{HERE}}}[$__rate_interval])))",
                    "median",
                ),
            ),
        ),
    ),
)

STEP = 'span="step"'
STEPS = Row(
    "Step time",
    (
        Panel(
            title="Step time, measured and expected",
            meaning="Launch to launch: draft, verify and CPU. Above expected for long is a slow step, and pages.",
            queries=(
                Query(mean("ddwatch_verify_latency_seconds", f"{EACH}, provenance", STEP), "measured {{provenance}}"),
                Query(f"ddwatch_expected_verify_latency_seconds{{{HERE}}}", "expected"),
            ),
            unit="s",
            overrides=(named("expected", color=fixed(QUIET), custom__lineStyle={"fill": "dash", "dash": [6, 6]}),),
        ),
        Panel(
            title="Distribution of step times",
            meaning="Clean steps only. Two bands are two batches or contexts, or a straggler.",
            kind="heatmap",
            queries=(buckets("ddwatch_verify_latency_seconds", STEP),),
            options={"yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"}},
        ),
        Panel(
            title="By span, and steps per second",
            meaning="Spans cover different parts of a step and are never mixed: forward is the GPU's time alone.",
            queries=(
                Query(mean("ddwatch_verify_latency_seconds", f"{EACH}, span"), "{{span}}"),
                Query(
                    f"sum by ({EACH}, dp_rank) (rate(ddwatch_steps_total{{{HERE}}}[$__rate_interval]))",
                    "steps/s, rank {{dp_rank}}",
                ),
            ),
            unit="s",
            overrides=(
                {
                    "matcher": {"id": "byRegexp", "options": "^steps/s.*"},
                    "properties": [
                        {"id": "unit", "value": "ops"},
                        {"id": "custom.axisPlacement", "value": "right"},
                    ],
                },
            ),
        ),
    ),
)

FACTORS = Row(
    "Factors: from the remembered speed to this one",
    (
        Panel(
            title="Factors now",
            meaning="Their product leads from the reference, the speed that is remembered, to the measured one.",
            kind="bargauge",
            queries=(Query(f"ddwatch_factor_ratio{{{HERE}}}", "{{factor}}", instant=True),),
            unit="percentunit",
            defaults={
                "min": 0,
                "max": 2,
                "thresholds": colours((None, ODD), (0.9, QUIET)),
                "color": {"mode": "thresholds"},
            },
        ),
        Panel(
            title="Factors over time",
            meaning="1 takes nothing away. Only `unexplained` is a fault of machine or software.",
            queries=(Query(f"ddwatch_factor_ratio{{{HERE}}}", "{{factor}}"),),
            unit="percentunit",
            width=16,
        ),
    ),
)

LOAD = Row(
    "Batch, context, queue",
    (
        Panel(
            title="Running and waiting requests",
            meaning="The batch is what runs. A queue that grows while the batch stands is a full pool or a limit.",
            queries=(
                Query(f"ddwatch_running_requests{{{HERE}}}", "running, rank {{dp_rank}}"),
                Query(f"ddwatch_queued_requests{{{HERE}}}", "waiting, rank {{dp_rank}}"),
            ),
        ),
        Panel(
            title="Context of one request",
            meaning="Mean over running requests, prompt included. Steps take longer as it grows.",
            queries=(Query(f"ddwatch_context_tokens{{{HERE}}}", "rank {{dp_rank}}"),),
        ),
        Panel(
            title="Total context",
            meaning="Summed over running requests; where a log is the source a shared prefix counts once.",
            queries=(Query(f"ddwatch_total_context_tokens{{{HERE}}}", "rank {{dp_rank}}"),),
        ),
    ),
)

ROWS = (VERDICT, THROUGHPUT, ACCEPT, STEPS, FACTORS, LOAD, GPUS, ALERTS, SOURCES, OURSELVES)
