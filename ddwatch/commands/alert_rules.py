"""The Prometheus rules as data: what fires when, what it means, by which numbers, and what to run next."""

from msgspec import Struct

HERE = "job, instance"
"""Labels that tell one sidecar from another."""


class Recording(Struct, frozen=True):
    """A series that Prometheus computes from others, for alerts, graphs and evidence."""

    record: str
    expr: str


class Alert(Struct, frozen=True, kw_only=True):
    """One alert. Texts may hold Prometheus templates."""

    alert: str
    expr: str
    lasting: str
    """How long it must hold; ddwatch itself has waited already before a verdict is reached."""
    severity: str
    """`page`, `notice` or `info`."""
    summary: str
    meaning: str
    evidence: str
    next_command: str


def _shown(series: str, form: str, unit: str = "", labels: str = "") -> str:
    """A template for the newest value of a series of the instance that fires, `unknown` where there is none."""
    selector = f"{series}{{{labels}{',' if labels else ''}job='%s',instance='%s'}}"
    query = f'printf "{selector}" $labels.job $labels.instance | query'
    return f"{{{{ with {query} }}}}{{{{ . | first | value | {form} }}}}{unit}{{{{ else }}}}unknown{{{{ end }}}}"


RATIO = "instance:ddwatch_throughput_ratio:avg5m"
RATE = "instance:ddwatch_throughput_tokens_per_second:sum"
STEP = "instance:ddwatch_step_seconds:mean5m"
ACCEPT = "instance:ddwatch_accept_length:mean5m"
RUNNING = "instance:ddwatch_running_requests:sum"
UNJUDGED = "instance:ddwatch_unjudged:ratio1h"

RECORDINGS: tuple[Recording, ...] = (
    Recording(RATIO, "avg_over_time(ddwatch_throughput_ratio[5m])"),
    Recording(RATE, f"sum by ({HERE}) (ddwatch_throughput_tokens_per_second)"),
    Recording(RUNNING, f"sum by ({HERE}) (ddwatch_running_requests)"),
    Recording(
        STEP,
        f'sum by ({HERE}, provenance) (rate(ddwatch_verify_latency_seconds_sum{{span="step"}}[5m]))\n'
        f'  / sum by ({HERE}, provenance) (rate(ddwatch_verify_latency_seconds_count{{span="step"}}[5m]) > 0)',
    ),
    Recording(
        ACCEPT,
        f"sum by ({HERE}, provenance) (rate(ddwatch_accept_length_sum[5m]))\n"
        f"  / sum by ({HERE}, provenance) (rate(ddwatch_accept_length_count[5m]) > 0)",
    ),
    Recording(
        UNJUDGED,
        f'avg_over_time(max by ({HERE}) (ddwatch_verdict{{verdict=~"blind|learning|warming"}})[1h:1m])',
    ),
)

LOOK = "ddwatch --once --url http://{{ $labels.instance }}"


def _verdict(name: str) -> str:
    return f'ddwatch_verdict{{verdict="{name}"}} == 1'


def _incident(name: str) -> str:
    """What can be told while the verdict is another."""
    return f'ddwatch_alert_firing{{alert="{name}"}} == 1'


ALERTS: tuple[Alert, ...] = (
    Alert(
        alert="DdwatchSlowStep",
        expr=_verdict("slow-step"),
        lasting="1m",
        severity="page",
        summary="SGLang behind {{ $labels.instance }} takes longer per step than it should",
        meaning=(
            "The step time is above the model at this batch and context: the machine or the software, not the text "
            "and not a longer context."
        ),
        evidence=(
            f"measured over expected {_shown(RATIO, 'humanizePercentage')}, "
            f"step {_shown(STEP, 'humanizeDuration')}, "
            f"expected {_shown('ddwatch_expected_verify_latency_seconds', 'humanizeDuration')}"
        ),
        next_command=f"{LOOK} names the causes; after a restart: ddwatch compare RECORDING",
    ),
    Alert(
        alert="DdwatchStalled",
        expr=_verdict("stalled"),
        lasting="30s",
        severity="page",
        summary="Requests run on SGLang behind {{ $labels.instance }} and nothing moves",
        meaning="Requests are running and no token comes out: the scheduler, a GPU or a collective hangs.",
        evidence=f"{_shown(RUNNING, 'humanize', ' running')}, {_shown(RATE, 'humanize', ' tokens/s')}",
        next_command=f"{LOOK}; then py-spy dump --pid of the scheduler, and nvidia-smi",
    ),
    Alert(
        alert="DdwatchDown",
        expr=_verdict("down"),
        lasting="1m",
        severity="page",
        summary="SGLang behind {{ $labels.instance }} is gone",
        meaning="Its process or its port is gone.",
        evidence="verdict down for a minute",
        next_command=f"{LOOK}; then the end of SGLang's log",
    ),
    Alert(
        alert="DdwatchStarved",
        expr=_verdict("starved"),
        lasting="2m",
        severity="notice",
        summary="Prefill keeps decode from running on SGLang behind {{ $labels.instance }}",
        meaning="Prefill flows and running requests get no token: their users wait.",
        evidence=f"{_shown(RUNNING, 'humanize', ' running')}, {_shown(RATE, 'humanize', ' tokens/s')}",
        next_command=f"{LOOK}; lower --chunked-prefill-size or the number of long prompts at once",
    ),
    Alert(
        alert="DdwatchLowAccept",
        expr=_incident("low-accept"),
        lasting="2m",
        severity="notice",
        summary="The drafter hardly contributes on SGLang behind {{ $labels.instance }}",
        meaning=(
            "Steps commit fewer tokens than any text that was learned. Each step is as fast as it should be; the "
            "drafter does not help."
        ),
        evidence=f"accept length {_shown(ACCEPT, 'humanize')} over five minutes",
        next_command=f"{LOOK}; then the drafter's start-up lines: backend fallback, block size mismatch",
    ),
    Alert(
        alert="DdwatchHighAccept",
        expr=_incident("high-accept"),
        lasting="5m",
        severity="notice",
        summary="Output of SGLang behind {{ $labels.instance }} is probably repeating itself",
        meaning="Nearly every drafted token is accepted for long: a repetition loop is likely.",
        evidence=f"accept length {_shown(ACCEPT, 'humanize')} over five minutes",
        next_command=f"{LOOK}; look at the longest running request, and at its sampling penalties",
    ),
    Alert(
        alert="DdwatchRetractions",
        expr=_incident("retractions"),
        lasting="0s",
        severity="notice",
        summary="The KV pool of SGLang behind {{ $labels.instance }} fills up again and again",
        meaning="Requests are sent back to the queue and computed anew: the pool is too small for what is let in.",
        evidence=f"{_shown(RUNNING, 'humanize', ' running')}, {_shown(RATE, 'humanize', ' tokens/s')}",
        next_command=f"{LOOK}; lower --max-running-requests, or raise --mem-fraction-static",
    ),
    Alert(
        alert="DdwatchBlind",
        expr=(
            f"{_verdict('blind')}\n"
            f"  and on ({HERE}) (ddwatch_clean_ratio or on ({HERE}) "
            f'sum by ({HERE}) (ddwatch_source_up{{source="loads"}}))'
        ),
        lasting="15m",
        severity="notice",
        summary="ddwatch on {{ $labels.instance }} cannot judge SGLang",
        meaning=(
            "Samples come in, or SGLang's port is asked, and yet nothing can be judged: a slow service would not be "
            "seen now."
        ),
        evidence=f"clean samples {_shown('ddwatch_clean_ratio', 'humanizePercentage')}, "
        f"not judged in the last hour {_shown(UNJUDGED, 'humanizePercentage')}",
        next_command=f"{LOOK} says why; --decode-log-interval 1 cures mixed windows",
    ),
    Alert(
        alert="DdwatchSilent",
        expr=(
            f"{_verdict('blind')}\n"
            f"  unless on ({HERE}) (ddwatch_clean_ratio or on ({HERE}) "
            f'sum by ({HERE}) (ddwatch_source_up{{source="loads"}}))'
        ),
        lasting="1h",
        severity="info",
        summary="The log of SGLang behind {{ $labels.instance }} has been silent for an hour",
        meaning="Idle or stuck: a log alone cannot tell. Harmless where nobody uses the service at this hour.",
        evidence="verdict blind, no sample in five minutes, SGLang's port is not asked",
        next_command="give the sidecar --sglang-url; now: ddwatch check",
    ),
    Alert(
        alert="DdwatchSourceLost",
        expr="ddwatch_source_up == 0",
        lasting="5m",
        severity="notice",
        summary="ddwatch on {{ $labels.instance }} has lost its source {{ $labels.source }}",
        meaning="A file, port or driver that ddwatch reads does not answer; what it told is missing.",
        evidence="{{ $labels.source }} has been down for five minutes",
        next_command=f"{LOOK} says what is wrong with it",
    ),
    Alert(
        alert="DdwatchLinesUnread",
        expr=f"sum by ({HERE}, source) (increase(ddwatch_lines_unread_total[15m])) > 5",
        lasting="5m",
        severity="notice",
        summary="ddwatch on {{ $labels.instance }} cannot read lines of {{ $labels.source }}",
        meaning="Lines with a known head have fields that cannot be read: SGLang is newer than this ddwatch.",
        evidence="{{ $value | humanize }} lines in 15 minutes",
        next_command="update ddwatch; ddwatch steps LOG tells the shape of the first such line, values masked",
    ),
    Alert(
        alert="DdwatchRestarts",
        expr="round(increase(ddwatch_restarts_total[1h])) >= 3",
        lasting="0s",
        severity="notice",
        summary="SGLang behind {{ $labels.instance }} restarts again and again",
        meaning="Three restarts or more within an hour: it crashes, or something restarts it.",
        evidence="{{ $value | humanize }} restarts in an hour",
        next_command=f"{LOOK}; ddwatch compare RECORDING tells what the last restart changed",
    ),
    Alert(
        alert="DdwatchAbsent",
        expr='up{job="ddwatch"} == 0 or absent(up{job="ddwatch"})',
        lasting="5m",
        severity="notice",
        summary="Nobody watches SGLang: ddwatch{{ with $labels.instance }} on {{ . }}{{ end }} is absent",
        meaning="Prometheus cannot scrape the sidecar, or has no target of the job ddwatch. No other rule can fire.",
        evidence="no scrape of the job ddwatch for five minutes",
        next_command="systemctl status ddwatch-sidecar; journalctl -u ddwatch-sidecar -n 50",
    ),
)


def groups() -> list[dict[str, object]]:
    """The groups of Prometheus' rule file as plain values."""
    return [
        {"name": "ddwatch-recordings", "rules": [{"record": one.record, "expr": one.expr} for one in RECORDINGS]},
        {
            "name": "ddwatch-alerts",
            "rules": [
                {
                    "alert": one.alert,
                    "expr": one.expr,
                    "for": one.lasting,
                    "labels": {"severity": one.severity},
                    "annotations": {
                        "summary": one.summary,
                        "meaning": one.meaning,
                        "evidence": one.evidence,
                        "next_command": one.next_command,
                    },
                }
                for one in ALERTS
            ],
        },
    ]
