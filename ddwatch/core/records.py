"""What was seen: the frozen facts that sources and grammar hand to the monitor.

`None` always means "not reported", never zero. Field names carry their units. `at` is the record's place
on the timeline in seconds since the epoch (arrival time when live, the log's stamp when replayed);
`stamp` keeps the log's own words, None when the line had none.
"""

from typing import Literal

from msgspec import Struct

from ddwatch.core.alert_orders import Order
from ddwatch.core.alert_view import KeepingView
from ddwatch.core.engine import EngineMetrics, ForwardPass
from ddwatch.core.hardware import GpuReading, HostReading


class Rank(Struct, frozen=True):
    """Which engine process spoke, as far as the line's prefix says."""

    engine: str | None = None
    """Name of the stream the line came from (compose service, pod, Ray actor); None when there is only one."""
    dp: int | None = None
    """Data-parallel rank."""
    tp: int | None = None
    """Tensor-parallel rank."""
    pp: int | None = None
    """Pipeline-parallel rank."""
    ep: int | None = None
    """Expert-parallel rank."""


NO_RANK = Rank()
"""The rank of a line whose prefix names none."""


class LogRecord(Struct, frozen=True, kw_only=True):
    """What every record read from a log line carries."""

    at: float
    """Place on the timeline, seconds since the epoch."""
    stamp: str | None = None
    """The line's own time: `YYYY-MM-DD HH:MM:SS[.mmm]` or `HH:MM:SS`, in the host's zone."""
    rank: Rank = NO_RANK
    line: int | None = None
    """1-based number of the physical line in its source."""


ContextFlaw = Literal["request-end", "constant"]
"""Why `#token` is not the context: freed with the request, or constant under HiSparse."""


class DecodeBatch(LogRecord, frozen=True, kw_only=True):
    """One `Decode batch` line: the mean of a window of decode steps of one rank."""

    running: int | None = None
    """Running requests when the line was printed (end of the window)."""
    total_context_tokens: int | None = None
    """`#token` (or `#full token`, `#cpu-token`): pool use of the running requests, shared prefixes counted once."""
    context_flaw: ContextFlaw | None = None
    accept_length: float | None = None
    """Tokens committed per request and step, bonus token included."""
    accept_rate: float | None = None
    """As printed; its definition changed between releases, so it is a footnote."""
    throughput_tokens_per_second: float | None = None
    """Tokens over wall time since this rank's previous decode line, idle and prefill included."""
    queued: int | None = None
    token_usage: float | None = None
    """Share of the KV pool in use, 0 to 1."""
    graph: bool | None = None
    """Whether a captured graph ran (`cuda graph`, `npu graph`, ...)."""
    iteration: int | None = None
    """Forward-pass counter (SGLANG_LOG_FORWARD_ITERS)."""
    gpu_tokens: int | None = None
    swa_tokens: int | None = None
    mamba_num: int | None = None
    mamba_usage: float | None = None
    retracted: int | None = None
    spec_tokens: int | None = None
    """Fork field: tokens committed in the window."""
    spec_rounds: int | None = None
    """Fork field: verify rounds in the window."""
    extra: tuple[tuple[str, str], ...] = ()
    """Fields this version does not know, as printed."""


class PrefillBatch(LogRecord, frozen=True, kw_only=True):
    """One `Prefill batch` line: a prefill (or chunk of one) was scheduled."""

    new_requests: int | None = None
    new_tokens: int | None = None
    cached_tokens: int | None = None
    running: int | None = None
    """Requests decoding beside this prefill; 0 means that the rank was idle before it."""
    queued: int | None = None
    pending_tokens: int | None = None
    token_usage: float | None = None
    throughput_tokens_per_second: float | None = None
    """This batch's tokens over the time since the PREVIOUS prefill line: not the speed of this prefill."""
    graph: bool | None = None
    iteration: int | None = None
    extra: tuple[tuple[str, str], ...] = ()


class ServerStart(LogRecord, frozen=True, kw_only=True):
    """A server process announced its arguments."""

    arguments: dict[str, str | int | float | bool | None] = {}
    """Only names on the allow-list (DESIGN.md section 9), with their values."""
    withheld: dict[str, str] = {}
    """Names off the allow-list that are set, each with an opaque digest that only tells whether it changed."""


LoadPhase = Literal["weights-begin", "weights-end", "graph-begin", "graph-end"]


class LoadProgress(LogRecord, frozen=True, kw_only=True):
    """A start-up phase began or ended."""

    phase: LoadPhase
    seconds: float | None = None
    model_type: str | None = None


class GraphSizes(LogRecord, frozen=True, kw_only=True):
    """The batch sizes that graphs are captured for: steps in step time come from here."""

    sizes: tuple[int, ...]


class PoolSized(LogRecord, frozen=True, kw_only=True):
    """The scheduler printed its limits (`max_total_num_tokens=...`)."""

    max_total_tokens: int | None = None
    max_running_requests: int | None = None
    context_limit: int | None = None
    chunked_prefill_tokens: int | None = None


class ServerReady(LogRecord, frozen=True, kw_only=True):
    """`The server is fired up and ready to roll!`"""


class ServerStop(LogRecord, frozen=True, kw_only=True):
    """The server said that it is leaving on request (SIGTERM, graceful exit)."""


class SpeculationSetup(LogRecord, frozen=True, kw_only=True):
    """A drafter announced its shape (`Initialized DDTree worker. block_size=16, tree_budget=32, ...`)."""

    algorithm: str | None = None
    block_size: int | None = None
    tree_budget: int | None = None
    max_tree_nodes: int | None = None
    warning: str | None = None
    """A sentence of the drafter that explains a lower rate (backend fallback, block size mismatch)."""


class VerifyDrafts(LogRecord, frozen=True, kw_only=True):
    """A fork printed the result of a verify: drafts accepted per request, and tokens committed (drafts + 1)."""

    drafts: tuple[int, ...]
    tokens: tuple[int, ...]


class VerifyTiming(LogRecord, frozen=True, kw_only=True):
    """A fork printed the synchronised wall time of one step: the only direct verify time."""

    batch: int | None = None
    step_seconds: float | None = None
    draft_seconds: float | None = None
    verify_seconds: float | None = None


class TreeProfile(LogRecord, frozen=True, kw_only=True):
    """One object of the DDTree profile side file: means over `rounds` verify rounds."""

    rounds: int | None = None
    mean_accept_length: float | None = None
    """As that file defines it."""
    tree_budget: float | None = None
    verify_seconds: float | None = None
    """GPU mean of the stage target_verify."""


class Retraction(LogRecord, frozen=True, kw_only=True):
    """The KV pool was full and requests were sent back to the queue (also the old `Decode out of memory happened`)."""

    requests: int | None = None
    new_token_ratio_before: float | None = None
    new_token_ratio_after: float | None = None


CrashKind = Literal["exception", "sigquit", "watchdog", "nccl", "out-of-memory", "killed"]


class Crash(LogRecord, frozen=True, kw_only=True):
    """One sign of a dying engine; several within seconds are one incident."""

    kind: CrashKind
    reason: str | None = None
    """Type of the last exception with a bounded message, e.g. `RuntimeError: CUDA error: an illegal memory access`."""


class JitCompile(LogRecord, frozen=True, kw_only=True):
    """Kernels are being compiled while serving or starting: the service is warming."""

    what: str
    seconds: float | None = None


class Xid(LogRecord, frozen=True, kw_only=True):
    """The NVIDIA driver reported a fault in the kernel log; `code` None is a card that fell off the bus."""

    code: int | None
    pci_bus: str | None = None
    previous_code: int | None = None
    """A `caused by previous Xid` on the same line: this one is the consequence."""


class RequestDone(LogRecord, frozen=True, kw_only=True):
    """The numbers of one finished request; never its text."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    latency_seconds: float | None = None
    first_token_seconds: float | None = None
    """From its arrival to its first token: queue and prefill."""
    queue_seconds: float | None = None
    throughput_tokens_per_second: float | None = None
    """The engine's own: completion tokens behind the first over the time since the first."""
    accept_length: float | None = None
    verify_steps: int | None = None
    accepted_drafts: tuple[int, ...] | None = None
    """How many steps accepted 0, 1, 2 … drafts; the exact distribution of this request."""
    retractions: int | None = None
    finish_reason: str | None = None


class Unread(LogRecord, frozen=True, kw_only=True):
    """A line with a known head whose fields could not be read: evidence that the grammar is too old."""

    head: str
    example: str
    """Known keys with masked values; no other text of the line."""


class RankLoad(Struct, frozen=True, kw_only=True):
    """One rank of `/v1/loads?include=all`."""

    dp_rank: int | None
    running: int | None = None
    queued: int | None = None
    used_tokens: int | None = None
    """Tokens of the KV pool in use."""
    max_total_tokens: int | None = None
    moments: tuple[float, float, float, float, float, float] | None = None
    """Cumulative [steps, sum of batch, of step microseconds, of batch squared, of batch x microseconds, of tokens]
    over contiguous decode steps only: prefill boundaries, idle time and steps of 2 s and more are left out."""


class Loads(Struct, frozen=True, kw_only=True):
    """One reading of `/v1/loads?include=all`; a decrease of the moments is a restart."""

    at: float
    source: str
    ranks: tuple[RankLoad, ...]
    version: str | None = None


class ServerInfo(Struct, frozen=True, kw_only=True):
    """One reading of `/server_info`: the arguments in force, through the allow-list, and the version."""

    at: float
    source: str
    arguments: dict[str, str | int | float | bool | None] = {}
    withheld: dict[str, str] = {}
    version: str | None = None


class GpuNames(Struct, frozen=True, kw_only=True):
    """The GPUs of this host by name, for the identity of a profile."""

    at: float
    names: tuple[str, ...]


GapReason = Literal["truncated", "rotated", "replaced", "too-long", "skipped", "lost", "suppressed"]


class Gap(Struct, frozen=True, kw_only=True):
    """Lines may have been lost here: what happened meanwhile is unknown, not idle."""

    at: float
    source: str
    reason: GapReason
    detail: str
    """One sentence for the event list."""


class Rotation(Struct, frozen=True, kw_only=True):
    """A log file was rotated and followed without loss."""

    at: float
    source: str
    detail: str


class SourceFault(Struct, frozen=True, kw_only=True):
    """A source cannot deliver; what the world does, as a value."""

    at: float
    source: str
    reason: str
    """One clear sentence: what is wrong and what would help."""
    waiting: bool = False
    """True when the source has simply not appeared yet."""
    gone: bool = False
    """True when this shows that the server is no more: its port refuses, its container stopped, its unit ended."""


class SourceUp(Struct, frozen=True, kw_only=True):
    """A source delivers (again)."""

    at: float
    source: str
    detail: str = ""


class LinesSeen(Struct, frozen=True, kw_only=True):
    """How many physical lines a source has delivered since the last such record."""

    at: float
    source: str
    lines: int


class SelfReading(Struct, frozen=True, kw_only=True):
    """What ddwatch itself costs: CPU as share of one core since the last reading, and resident memory."""

    at: float
    cpu_ratio: float
    resident_bytes: int


class OrdersSeen(Struct, frozen=True, kw_only=True):
    """What the operator asked of alerts, all of it, and what lies beside the sidecar on its host."""

    at: float
    keeping: KeepingView
    orders: tuple[Order, ...] = ()


Record = (
    DecodeBatch
    | PrefillBatch
    | ServerStart
    | LoadProgress
    | GraphSizes
    | PoolSized
    | ServerReady
    | ServerStop
    | SpeculationSetup
    | VerifyDrafts
    | VerifyTiming
    | TreeProfile
    | Retraction
    | Crash
    | JitCompile
    | Xid
    | RequestDone
    | Loads
    | ServerInfo
    | GpuNames
    | Unread
    | Gap
    | Rotation
    | SourceFault
    | SourceUp
    | LinesSeen
    | SelfReading
    | OrdersSeen
    | GpuReading
    | HostReading
    | EngineMetrics
    | ForwardPass
)
"""Everything that the monitor accepts."""
