"""What a recording holds: its documented SQLite schema as text, and its rows to and from the snapshot types.

Other tools read the views (docs/recording.md); the tables behind them, `stored_…`, hold scaled integers because
SQLite keeps small integers in few bytes: a sample takes about 50 bytes. `None` is NULL, from end to end.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from msgspec import Struct

from ddwatch.core.request_view import FinishedRequest, RequestVerdict
from ddwatch.core.snapshot import Flag, Point, PointState, Provenance, Sample, Snapshot, Span, Verdict

SCHEMA_VERSION = 1
SCHEMA_NAME = "ddwatch.recording"
APPLICATION_ID = 0x64647774
"""`ddwt` in the file's header: what tells a recording from any other SQLite file."""
MEAN_SECONDS = 10
"""The stretch that one row of `steps`, and one point older than a day, is the mean of."""
MICRO = 1_000_000
LARGEST = 2**62
"""A number beyond this cannot be kept and counts as not reported."""

FLAGS: tuple[Flag, ...] = ("first", "idle", "prefill", "batch-changed", "request-ended", "gap", "warming")
"""The bits of `stored_samples.flags`, lowest first; new ones are only ever appended."""
STATES: tuple[PointState, ...] = ("data", "idle", "gap")
"""The numbers of `stored_points.state`; new ones are only ever appended."""

REQUEST_VERDICTS: tuple[RequestVerdict, ...] = get_args(RequestVerdict)

Row = tuple[Any, ...]

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE witnesses (
    id INTEGER PRIMARY KEY, engine TEXT, dp_rank INTEGER, span TEXT NOT NULL, provenance TEXT NOT NULL
);
CREATE TABLE stored_samples (
    at_us INTEGER PRIMARY KEY, witness INTEGER NOT NULL, flags INTEGER NOT NULL, batch INTEGER, mean_batch_e3 INTEGER,
    total_context_tokens INTEGER, context_e1 INTEGER, accept_e4 INTEGER, throughput_e3 INTEGER, step_us INTEGER,
    steps INTEGER, source_line INTEGER
);
CREATE TABLE stored_steps (
    at_s INTEGER NOT NULL, witness INTEGER NOT NULL, samples INTEGER NOT NULL, clean INTEGER NOT NULL,
    batch_e3 INTEGER, total_context_tokens INTEGER, context_e1 INTEGER, accept_e4 INTEGER, throughput_e3 INTEGER,
    step_us INTEGER, PRIMARY KEY (at_s, witness)
) WITHOUT ROWID;
CREATE TABLE stored_points (
    at_us INTEGER PRIMARY KEY, seconds INTEGER NOT NULL, state INTEGER NOT NULL, contaminated INTEGER NOT NULL,
    throughput_e3 INTEGER, accept_e4 INTEGER, step_us INTEGER, batch INTEGER, queued INTEGER, context_e1 INTEGER,
    total_context_tokens INTEGER, expected_e3 INTEGER, expected_low_e3 INTEGER, expected_high_e3 INTEGER,
    expected_step_us INTEGER
);
CREATE TABLE stored_events (
    run INTEGER NOT NULL, seq INTEGER NOT NULL, at_us INTEGER NOT NULL, kind TEXT NOT NULL, severity TEXT NOT NULL,
    text TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE INDEX events_by_time ON stored_events (at_us);
CREATE TABLE stored_verdicts (
    at_us INTEGER PRIMARY KEY, run INTEGER NOT NULL, verdict TEXT NOT NULL, severity TEXT NOT NULL,
    since_us INTEGER NOT NULL, sentence TEXT NOT NULL, cause TEXT, evidence TEXT NOT NULL, next_steps TEXT NOT NULL,
    ratio REAL, measured REAL, expected REAL, accept_length REAL, step_seconds REAL, context_tokens REAL, batch INTEGER
);
CREATE TABLE stored_server (
    at_us INTEGER PRIMARY KEY, kind TEXT NOT NULL, engine TEXT, version TEXT, arguments TEXT NOT NULL,
    withheld TEXT NOT NULL
);
CREATE TABLE stored_requests (
    at_us INTEGER PRIMARY KEY, engine TEXT, dp_rank INTEGER, prompt_tokens INTEGER, completion_tokens INTEGER,
    cached_tokens INTEGER, latency_us INTEGER, first_token_us INTEGER, queue_us INTEGER, throughput_e3 INTEGER,
    whole INTEGER NOT NULL, accept_e4 INTEGER, retractions INTEGER, finish_reason TEXT, expected_e3 INTEGER,
    expected_low_e3 INTEGER, expected_high_e3 INTEGER, ratio_e4 INTEGER, verdict TEXT NOT NULL, reason TEXT
);
CREATE TABLE stored_gpu (
    at_us INTEGER PRIMARY KEY, gpu INTEGER NOT NULL, uuid TEXT, lost TEXT, utilization_ratio REAL,
    sm_clock_hertz INTEGER, memory_clock_hertz INTEGER, power_watts REAL, power_limit_watts REAL,
    temperature_celsius REAL, memory_used_bytes INTEGER, memory_total_bytes INTEGER, reasons INTEGER,
    pcie_generation INTEGER, pcie_width INTEGER, pcie_replays INTEGER
);
CREATE TABLE stored_sources (
    at_us INTEGER PRIMARY KEY, source TEXT NOT NULL, state TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE TABLE stored_snapshots (at_us INTEGER PRIMARY KEY, document BLOB NOT NULL);
CREATE TABLE stored_runs (
    run INTEGER PRIMARY KEY, began_us INTEGER NOT NULL, ended_us INTEGER NOT NULL, closed INTEGER NOT NULL,
    version TEXT NOT NULL
);
"""


def _iso(expression: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%f', {expression}, 'unixepoch') || '+00:00'"


def _view(name: str, columns: str, *, at: str = "t.at_us / 1e6", join: str = "") -> str:
    return f"CREATE VIEW {name} AS SELECT {at} AS at, {_iso(at)} AS at_iso, {columns} FROM stored_{name} AS t{join};\n"


_FLAG_WORDS = " || ".join(
    f"CASE WHEN t.flags & {1 << bit} THEN '{flag} ' ELSE '' END" for bit, flag in enumerate(FLAGS)
)
_STATE_WORDS = "CASE t.state " + " ".join(f"WHEN {number} THEN '{word}'" for number, word in enumerate(STATES)) + " END"
_WITNESS = "w.engine, w.dp_rank, w.span, w.provenance"
_JOIN = " JOIN witnesses AS w ON w.id = t.witness"
_MEASURED = (
    "t.total_context_tokens, t.context_e1 / 1e1 AS context_tokens, t.accept_e4 / 1e4 AS accept_length, "
    "t.throughput_e3 / 1e3 AS throughput, t.step_us / 1e6 AS step_seconds"
)

VIEWS = "".join(
    (
        _view(
            "samples",
            f"{_WITNESS}, t.batch, t.mean_batch_e3 / 1e3 AS mean_batch, {_MEASURED}, trim({_FLAG_WORDS}) AS flags, "
            "t.flags = 0 AS clean, t.steps, t.source_line",
            join=_JOIN,
        ),
        _view(
            "steps",
            f"{MEAN_SECONDS} AS seconds, {_WITNESS}, t.samples, t.clean, t.batch_e3 / 1e3 AS batch, {_MEASURED}",
            at="t.at_s",
            join=_JOIN,
        ),
        _view(
            "points",
            f"t.seconds, {_STATE_WORDS} AS state, t.contaminated, t.batch, t.queued, {_MEASURED}, "
            "t.expected_e3 / 1e3 AS expected_throughput, t.expected_low_e3 / 1e3 AS expected_low, "
            "t.expected_high_e3 / 1e3 AS expected_high, t.expected_step_us / 1e6 AS expected_step_seconds",
        ),
        _view("events", "t.run, t.kind, t.severity, t.text, t.count"),
        _view(
            "verdicts",
            "t.run, t.verdict, t.severity, t.since_us / 1e6 AS since, t.sentence, t.cause, t.evidence, t.next_steps, "
            "t.ratio, t.measured, t.expected, t.accept_length, t.step_seconds, t.context_tokens, t.batch",
        ),
        "CREATE VIEW alerts AS SELECT * FROM (SELECT at, at_iso, verdict AS alert, severity, sentence, cause, "
        "evidence, lead(at) OVER (PARTITION BY run ORDER BY at) AS until FROM verdicts) "
        "WHERE severity IN ('page', 'notice');\n",
        _view("server", "t.kind, t.engine, t.version, t.arguments, t.withheld"),
        _view(
            "requests",
            "t.engine, t.dp_rank, t.prompt_tokens, t.completion_tokens, t.cached_tokens, "
            "t.latency_us / 1e6 AS latency_seconds, t.first_token_us / 1e6 AS first_token_seconds, "
            "t.queue_us / 1e6 AS queue_seconds, t.throughput_e3 / 1e3 AS throughput, t.whole, "
            "t.accept_e4 / 1e4 AS accept_length, t.retractions, t.finish_reason, t.expected_e3 / 1e3 AS expected, "
            "t.expected_low_e3 / 1e3 AS expected_low, t.expected_high_e3 / 1e3 AS expected_high, "
            "t.ratio_e4 / 1e4 AS ratio, t.verdict, t.reason",
        ),
        _view(
            "gpu",
            "t.gpu, t.uuid, t.lost, t.utilization_ratio, t.sm_clock_hertz, t.memory_clock_hertz, t.power_watts, "
            "t.power_limit_watts, t.temperature_celsius, t.memory_used_bytes, t.memory_total_bytes, t.reasons, "
            "t.pcie_generation, t.pcie_width, t.pcie_replays",
        ),
        _view("sources", "t.source, t.state, t.detail"),
        _view("snapshots", "t.document"),
        _view(
            "runs",
            f"t.run, t.ended_us / 1e6 AS ended, {_iso('t.ended_us / 1e6')} AS ended_iso, t.closed, t.version",
            at="t.began_us / 1e6",
        ),
    )
)

SCHEMA = TABLES + VIEWS
"""All of it, for an empty database."""


def micros(at: float) -> int:
    """Seconds since the epoch as whole microseconds."""
    return round(at * MICRO)


def scaled(value: float | None, scale: int) -> int | None:
    """A value as a whole number of 1/scale; None for what is not a number that can be kept."""
    if value is None or not math.isfinite(value):
        return None
    return whole(round(value * scale)) if abs(value) < LARGEST else None


def whole(value: int | None) -> int | None:
    """An integer that SQLite can keep."""
    return value if value is not None and -LARGEST < value < LARGEST else None


def plain(value: int | None, scale: int) -> float | None:
    """The inverse of `scaled`."""
    return None if value is None else value / scale


class Witness(NamedTuple):
    """Who a sample speaks for, and how it was read."""

    engine: str | None
    dp_rank: int | None
    span: Span
    provenance: Provenance


def witness_of(sample: Sample) -> Witness:
    """The witness of a sample."""
    return Witness(sample.engine, sample.dp_rank, sample.span, sample.provenance)


def flag_bits(flags: Sequence[Flag]) -> int:
    """Flags as the bits of FLAGS."""
    return sum(1 << FLAGS.index(flag) for flag in set(flags))


def flags_of(bits: int) -> tuple[Flag, ...]:
    """The inverse of `flag_bits`, in the order of FLAGS."""
    return tuple(flag for bit, flag in enumerate(FLAGS) if bits & (1 << bit))


def sample_row(sample: Sample, key: int, witness: int) -> Row:
    """A row of `stored_samples`. The log's own stamp is not kept: `at` is the time that counts."""
    return (
        key,
        witness,
        flag_bits(sample.flags),
        whole(sample.batch),
        scaled(sample.mean_batch, 1000),
        whole(sample.total_context_tokens),
        scaled(sample.context_tokens, 10),
        scaled(sample.accept_length, 10_000),
        scaled(sample.throughput, 1000),
        scaled(sample.step_seconds, MICRO),
        whole(sample.steps),
        whole(sample.source_line),
    )


def sample_of(row: Row, witness: Witness) -> Sample:
    """The inverse of `sample_row`, exact to the stored resolution."""
    at, _, flags, batch, mean_batch, total, context, accept, throughput, step, steps, line = row
    return Sample(
        at=at / MICRO,
        engine=witness.engine,
        dp_rank=witness.dp_rank,
        span=witness.span,
        provenance=witness.provenance,
        batch=batch,
        mean_batch=plain(mean_batch, 1000),
        total_context_tokens=total,
        context_tokens=plain(context, 10),
        accept_length=plain(accept, 10_000),
        throughput=plain(throughput, 1000),
        step_seconds=plain(step, MICRO),
        flags=flags_of(flags),
        steps=steps,
        source_line=line,
    )


def point_row(point: Point, key: int, seconds: int = 1) -> Row:
    """A row of `stored_points`."""
    return (
        key,
        seconds,
        STATES.index(point.state),
        int(point.contaminated),
        scaled(point.throughput, 1000),
        scaled(point.accept_length, 10_000),
        scaled(point.step_seconds, MICRO),
        whole(point.batch),
        whole(point.queued),
        scaled(point.context_tokens, 10),
        whole(point.total_context_tokens),
        scaled(point.expected_throughput, 1000),
        scaled(point.expected_low, 1000),
        scaled(point.expected_high, 1000),
        scaled(point.expected_step_seconds, MICRO),
    )


def point_of(row: Row, seq: int) -> Point:
    """The inverse of `point_row`; sequence numbers belong to a watch and are given anew."""
    (at, _, state, contaminated, throughput, accept, step, batch, queued, context, total, *expected) = row
    return Point(
        seq=seq,
        at=at / MICRO,
        state=STATES[state],
        contaminated=bool(contaminated),
        throughput=plain(throughput, 1000),
        accept_length=plain(accept, 10_000),
        step_seconds=plain(step, MICRO),
        batch=batch,
        queued=queued,
        context_tokens=plain(context, 10),
        total_context_tokens=total,
        expected_throughput=plain(expected[0], 1000),
        expected_low=plain(expected[1], 1000),
        expected_high=plain(expected[2], 1000),
        expected_step_seconds=plain(expected[3], MICRO),
    )


def request_row(done: FinishedRequest, key: int) -> Row:
    """A row of `stored_requests`."""
    return (
        key,
        done.engine,
        whole(done.dp_rank),
        whole(done.prompt_tokens),
        whole(done.completion_tokens),
        whole(done.cached_tokens),
        scaled(done.latency_seconds, MICRO),
        scaled(done.first_token_seconds, MICRO),
        scaled(done.queue_seconds, MICRO),
        scaled(done.throughput, 1000),
        int(done.whole),
        scaled(done.accept_length, 10_000),
        whole(done.retractions),
        done.finish_reason,
        scaled(done.expected, 1000),
        scaled(done.expected_low, 1000),
        scaled(done.expected_high, 1000),
        scaled(done.ratio, 10_000),
        done.verdict,
        done.reason,
    )


def request_of(row: Row, seq: int) -> FinishedRequest:
    """The inverse of `request_row`; a verdict of another version counts as none."""
    (at, engine, dp_rank, prompt, completion, cached, latency, first, queue, throughput, is_whole, *rest) = row
    accept, retractions, finish_reason, expected, low, high, ratio, verdict, reason = rest
    return FinishedRequest(
        seq=seq,
        at=at / MICRO,
        engine=engine,
        dp_rank=dp_rank,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        latency_seconds=plain(latency, MICRO),
        first_token_seconds=plain(first, MICRO),
        queue_seconds=plain(queue, MICRO),
        throughput=plain(throughput, 1000),
        whole=bool(is_whole),
        accept_length=plain(accept, 10_000),
        retractions=retractions,
        finish_reason=finish_reason,
        expected=plain(expected, 1000),
        expected_low=plain(low, 1000),
        expected_high=plain(high, 1000),
        ratio=plain(ratio, 10_000),
        verdict=verdict if verdict in REQUEST_VERDICTS else "unjudged",
        reason=reason,
    )


class VerdictChange(Struct, frozen=True, kw_only=True):
    """The moment at which another verdict came to hold, with the figures that a replay's row shows."""

    at: float
    verdict: Verdict
    ratio: float | None = None
    measured: float | None = None
    """Tokens per second."""
    expected: float | None = None
    accept_length: float | None = None
    step_seconds: float | None = None
    context_tokens: float | None = None
    batch: int | None = None


def verdict_change(snapshot: Snapshot) -> VerdictChange:
    """The change that this snapshot is the first to show."""
    now = snapshot.now
    return VerdictChange(
        at=snapshot.at,
        verdict=snapshot.verdict,
        ratio=snapshot.ratio,
        measured=now.throughput,
        expected=snapshot.expected.tokens_per_second if snapshot.expected else None,
        accept_length=now.accept_length,
        step_seconds=now.step_seconds,
        context_tokens=now.context_tokens,
        batch=now.batch,
    )
