"""The waist of the house: one immutable snapshot that every export and every widget is a function of.

Times are seconds since the epoch; `wire` turns them into ISO 8601 with offset. `None` is "not known",
never zero. Shapes here are the documents of docs/schemas.
"""

from typing import Literal

from msgspec import Struct

from ddwatch.core.alert_view import AlertView, KeepingView, MuteView
from ddwatch.core.engine_view import EngineView, ForwardView
from ddwatch.core.hardware_view import GpuView, HostView
from ddwatch.core.request_view import AcceptHistogram, FinishedRequest
from ddwatch.core.verdict import Note as Note
from ddwatch.core.verdict import NoteName as NoteName
from ddwatch.core.verdict import Severity as Severity
from ddwatch.core.verdict import Verdict as Verdict
from ddwatch.core.verdict import VerdictName as VerdictName

Flag = Literal["first", "idle", "prefill", "batch-changed", "request-ended", "gap", "warming"]
"""Why a sample is contaminated, by its position between other lines, never by its size."""

Span = Literal["step", "forward", "verify"]
Provenance = Literal["moments", "log", "fpm", "fork-log", "metrics"]


class Sample(Struct, frozen=True, kw_only=True):
    """One reading of one rank: a decode line (or, from other sources, a forward pass or a moments interval)."""

    at: float
    stamp: str | None = None
    engine: str | None = None
    dp_rank: int | None = None
    batch: int | None = None
    mean_batch: float | None = None
    """Mean over the interval, where the source knows it; the log knows only the batch at its end."""
    total_context_tokens: int | None = None
    context_tokens: float | None = None
    """Mean per running request."""
    accept_length: float | None = None
    throughput: float | None = None
    """Tokens per second, as that source defines it."""
    step_seconds: float | None = None
    """Time of the sample's span: for a line batch x accept length / throughput, for a forward pass its GPU time."""
    span: Span = "step"
    provenance: Provenance = "log"
    flags: tuple[Flag, ...] = ()
    steps: int | None = None
    """Steps that the sample is the mean of, where they are counted."""
    source_line: int | None = None

    @property
    def clean(self) -> bool:
        """Whether the sample may be fitted, judged and averaged."""
        return not self.flags


class Expected(Struct, frozen=True, kw_only=True):
    """The model's value at the observed batch, context and accept length."""

    profile: str
    tokens_per_second: float
    low: float
    high: float
    step_seconds: float
    extrapolated: bool = False


class ReferenceView(Struct, frozen=True, kw_only=True):
    """The conditions that a human remembers."""

    label: str
    tokens_per_second: float
    context_tokens: float
    batch: int
    accept_length: float
    inferred: bool = False


class FactorView(Struct, frozen=True, kw_only=True):
    """Measured over reference, split; None where a factor is not known and therefore part of `unexplained`."""

    accept_length: float | None = None
    context: float | None = None
    batch: float | None = None
    idle: float | None = None
    unexplained: float | None = None
    unexplained_offset: float | None = None
    unexplained_slope: float | None = None


class CurvePoint(Struct, frozen=True, kw_only=True):
    """The model's step time at one total context, at the present batch."""

    total_context_tokens: float
    step_seconds: float
    low: float
    high: float
    covered: bool
    """Whether the evidence reaches this context; beyond it the model guesses."""


class ModelView(Struct, frozen=True, kw_only=True):
    """The model in force."""

    profile: str
    calibrated: bool
    learned: bool
    """Whether ddwatch learned it here, rather than being given it."""
    samples: int
    """Clean samples that it rests on."""
    settled: int = 0
    """Cells of batch and context that learning has frozen; 0 for a given profile."""
    fit_error: float | None = None
    batch: int | None = None
    """The batch that the curve is drawn for."""
    curve: tuple[CurvePoint, ...] = ()
    accept_low: float | None = None
    """10 % quantile of the accept length at the present context, over all text."""
    accept_median: float | None = None
    accept_high: float | None = None
    """90 % quantile."""
    differences: tuple[str, ...] = ()
    """In what the judged setup differs from the profile's, in words."""


ServerState = Literal["unknown", "starting", "ready", "stopped", "crashed"]


class ServerView(Struct, frozen=True, kw_only=True):
    """What the watched server has said of itself."""

    state: ServerState = "unknown"
    model: str | None = None
    algorithm: str | None = None
    tree_budget: int | None = None
    block_size: int | None = None
    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    ep: int | None = None
    version: str | None = None
    gpu_name: str | None = None
    gpu_count: int | None = None
    address: str | None = None
    """host:port that it was told to serve on."""
    context_limit: int | None = None
    max_total_tokens: int | None = None
    graph_sizes: tuple[int, ...] = ()
    decode_log_interval: int | None = None
    started_at: float | None = None
    ready_at: float | None = None
    restarts: int = 0
    """Restarts seen since ddwatch began to watch."""
    arguments: dict[str, str | int | float | bool | None] = {}
    """Allow-listed arguments only."""


class RankView(Struct, frozen=True, kw_only=True):
    """The newest sample of one live rank."""

    sample: Sample
    queued: int | None = None
    token_usage: float | None = None
    graph: bool | None = None
    live: bool = True
    """False once the rank has been silent for longer than its cadence allows; it no longer counts in totals."""


class Now(Struct, frozen=True, kw_only=True):
    """The service's present reading over all live ranks; each None where no source reports it."""

    at: float | None = None
    """Time of the newest sample that it is made of."""
    provenance: Provenance | None = None
    span: Span = "step"
    throughput: float | None = None
    """Sum over live ranks, tokens per second."""
    accept_length: float | None = None
    """Mean over live ranks, weighted by batch."""
    step_seconds: float | None = None
    """Median over live ranks."""
    batch: int | None = None
    """Running requests, summed over live ranks."""
    queued: int | None = None
    context_tokens: float | None = None
    total_context_tokens: int | None = None
    token_usage: float | None = None
    """Highest over live ranks."""
    flags: tuple[Flag, ...] = ()
    """Union of the flags of the samples; non-empty means: shown, not judged."""


class Window(Struct, frozen=True, kw_only=True):
    """The last minutes in figures; means and quantiles are over clean samples only."""

    seconds: float = 300.0
    samples: int = 0
    clean: int = 0
    clean_ratio: float | None = None
    flag_counts: dict[str, int] = {}
    throughput_median: float | None = None
    throughput_min: float | None = None
    accept_length_median: float | None = None
    step_seconds_median: float | None = None


class SourceView(Struct, frozen=True, kw_only=True):
    """One source: is it up, how old is its last word, what was lost."""

    name: str
    state: Literal["waiting", "up", "lost"]
    last_at: float | None = None
    """When it last delivered anything."""
    detail: str = ""
    gone: bool = False
    """Whether it shows that the server is no more: its port refuses, its container stopped, its unit ended."""
    lines: int = 0
    unread: int = 0
    rotations: int = 0
    gaps: int = 0
    witness: bool = True
    """Whether the service is judged by it; what completes it, the machine and the recording stand beside it."""


class SelfView(Struct, frozen=True, kw_only=True):
    """What ddwatch itself costs."""

    cpu_ratio: float | None = None
    resident_bytes: int | None = None


class UnreadExample(Struct, frozen=True, kw_only=True):
    """One line shape that the grammar could not read, values masked."""

    at: float
    head: str
    example: str


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything known at one instant."""

    seq: int
    """Sequence number of the newest history item included."""
    at: float
    started_at: float | None = None
    """When this watch began."""
    ddwatch_version: str = ""
    simulated: bool = False
    stamped: bool = True
    """False when the log has no times, so that those here are estimates."""
    server: ServerView = ServerView()
    now: Now = Now()
    window: Window = Window()
    ranks: tuple[RankView, ...] = ()
    verdict: Verdict
    notes: tuple[Note, ...] = ()
    """Other verdicts that hold as well, in order of precedence, then what is no verdict."""
    expected: Expected | None = None
    ratio: float | None = None
    """Measured over expected tokens per second."""
    model: ModelView | None = None
    reference: ReferenceView | None = None
    factors: FactorView | None = None
    """Measured over reference, where the model has a reference."""
    sources: tuple[SourceView, ...] = ()
    unread_examples: tuple[UnreadExample, ...] = ()
    watch: SelfView = SelfView()
    gpus: tuple[GpuView, ...] = ()
    """The cards of the host in the order of their numbers; bounded."""
    host: HostView | None = None
    engine: EngineView | None = None
    """What SGLang's /metrics says, where it is read."""
    forward: ForwardView | None = None
    """What forward passes (FPM) say, where they are heard."""
    accepted: AcceptHistogram | None = None
    """Where finished requests tell how many drafts each step accepted."""
    alerts: tuple[AlertView, ...] = ()
    """Open incidents, suspicions and the latest resolved incidents, each the newest first; bounded."""
    mutes: tuple[MuteView, ...] = ()
    """Verdicts that tell nobody now, whether they hold or not."""
    keeping: KeepingView | None = None


PointState = Literal["data", "idle", "gap"]


class Point(Struct, frozen=True, kw_only=True):
    """One second of the timeline, summed up over ranks. A second without any sample has no point.

    With at least one clean sample the values are those of clean samples only and `contaminated` is False;
    otherwise they are those of the contaminated ones, to be drawn dimmed and never averaged.
    """

    seq: int
    at: float
    state: PointState = "data"
    """`idle` and `gap` mark where such a stretch begins; the line must not be joined across them."""
    contaminated: bool = False
    throughput: float | None = None
    accept_length: float | None = None
    step_seconds: float | None = None
    batch: int | None = None
    queued: int | None = None
    context_tokens: float | None = None
    total_context_tokens: int | None = None
    expected_throughput: float | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    expected_step_seconds: float | None = None


EventKind = Literal[
    "start",
    "ready",
    "restart",
    "stop",
    "arguments",
    "retract",
    "crash",
    "jit",
    "xid",
    "gpu",
    "host",
    "gap",
    "rotation",
    "unread",
    "source",
    "verdict",
    "speculation",
    "text",
    "comparison",
]


class Event(Struct, frozen=True, kw_only=True):
    """Something happened at one instant; drawn in the event list and on the timeline."""

    seq: int
    at: float
    kind: EventKind
    severity: Severity
    text: str
    count: int = 1
    """How many incidents this one stands for (16 ranks that retract at once are one incident)."""
    replaces: int | None = None
    """`seq` of the incident's first event when this one is a newer wording; readers drop all earlier wordings."""


class History(Struct, frozen=True, kw_only=True):
    """Points, events and finished requests in order of `seq`; all bounded."""

    complete: bool = True
    """False when older items than the first one asked for have been dropped."""
    points: tuple[Point, ...] = ()
    events: tuple[Event, ...] = ()
    requests: tuple[FinishedRequest, ...] = ()


class Frame(Struct, frozen=True, kw_only=True):
    """What a feed hands to the screen: the snapshot and the history that it keeps for it."""

    snapshot: Snapshot
    history: History = History()
