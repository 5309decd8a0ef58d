"""Turns decode lines into samples and flags them by their position between other lines, never by their size.

A decode line reports tokens over the wall time since the previous decode line of the same rank. Whatever stands
between two such lines (idle time, a prefill, a lost line, a start) is inside that window, so the line is flagged
and never fitted, judged or averaged.
"""

from collections.abc import Mapping
from statistics import median

from ddwatch.core.records import (
    DecodeBatch,
    Gap,
    GraphSizes,
    JitCompile,
    LoadProgress,
    LogRecord,
    PrefillBatch,
    Rank,
    Record,
    ServerReady,
    ServerStart,
    ServerStop,
    Unread,
)
from ddwatch.core.snapshot import Flag, Sample

STEADY_SAMPLES = 6
"""Otherwise clean samples that are looked at to say that a warm-up is over."""
STEADY_SECONDS = 10.0
"""... and so many seconds of them: at one line per step, six samples are no time at all."""
STILL_SPEEDING_UP = 0.9
"""Warm-up goes on while the newer half of those samples is faster than this share of the older half."""
MANY_SAMPLES = 40
MANY_SPEEDING_UP = 0.97
"""So many samples need no seconds, but must be level to this share: their medians tell it."""
HICCUP = 2.0
"""Warm-up goes on while more than a tenth of the samples are slower than this multiple of their median."""
IDLE_SECONDS = 10.0
IDLE_MULTIPLE = 8.0
"""A log without prefill lines shows idle time only as silence: longer than both of these, it is inside the window."""

RankKey = tuple[str | None, int | None]
"""Engine and DP rank: who a decode line speaks for."""


def speaks_for_itself(rank: Rank) -> bool:
    """Whether this process is the one whose lines count.

    Under tensor or pipeline parallelism the other ranks of the same engine repeat what rank 0 says.
    """
    if rank.pp:
        return False
    return rank.dp is not None or not rank.tp


def _level(steps: list[float], share: float) -> bool:
    """Whether the newer half takes no less than this share of the older half, and hardly a step stands out."""
    half = len(steps) // 2
    if median(steps[half:]) < share * median(steps[:half]):
        return False
    return sorted(steps)[-1 - len(steps) // 10] <= HICCUP * median(steps)


class _RankWindow:
    """What stands between the previous decode line of one rank and the next."""

    __slots__ = ("at", "cadence", "gapped", "idled", "iteration", "prefills", "running", "seen", "steady", "tokens")

    def __init__(self) -> None:
        self.seen = False
        self.prefills = 0
        self.idled = False
        self.gapped = False
        self.at = 0.0
        self.cadence: float | None = None
        self.running: int | None = None
        self.tokens: int | None = None
        self.iteration: int | None = None
        self.steady: list[tuple[float, float]] = []


class _Engine:
    """What all ranks of one engine share."""

    __slots__ = ("couples_ranks", "interval", "log_interval", "ranks", "shows_prefill", "speculative", "warming")

    def __init__(self) -> None:
        self.ranks: dict[int | None, _RankWindow] = {}
        self.warming = False
        self.couples_ranks: bool | None = None
        """Whether DP ranks step together; None until the arguments are seen, then taken as yes."""
        self.speculative: bool | None = None
        self.shows_prefill = False
        self.log_interval: int | None = None
        """Decode iterations per line, from the arguments."""
        self.interval: int | None = None
        """The same as seen from forward-pass counters."""


class Positions:
    """Sees every record in order and gives each decode line its sample."""

    def __init__(self) -> None:
        self._engines: dict[str | None, _Engine] = {}
        self.lines_missing = False
        """Whether forward-pass counters say that lines are missing before the newest decode line."""

    def see(self, record: Record | LogRecord) -> Sample | None:
        """Takes the next record; returns a sample for a decode line that speaks for itself, else None."""
        if isinstance(record, DecodeBatch):
            return self._sample(record)
        if isinstance(record, PrefillBatch):
            self._prefill(record)
        elif isinstance(record, Gap):
            self._gap(None)
        elif isinstance(record, Unread):
            self._gap(record.rank.engine)
        elif isinstance(record, ServerStart):
            self._start(record)
        elif isinstance(record, (LoadProgress, GraphSizes, ServerReady, JitCompile)):
            self._warm(record)
        elif isinstance(record, ServerStop):
            self._reset(record.rank.engine)
        return None

    def warming(self) -> bool:
        """Whether any engine has not reached a steady rate since its start or its last compilation."""
        return any(engine.warming for engine in self._engines.values())

    def log_interval(self, engine: str | None) -> int | None:
        """Decode iterations per line of that engine, where its arguments said so."""
        known = self._engines.get(engine)
        return known.log_interval if known else None

    def _engine(self, name: str | None) -> _Engine:
        engine = self._engines.get(name)
        if engine is None:
            engine = self._engines[name] = _Engine()
        return engine

    def _window(self, engine: _Engine, dp: int | None) -> _RankWindow:
        window = engine.ranks.get(dp)
        if window is None:
            window = engine.ranks[dp] = _RankWindow()
        return window

    def _reset(self, name: str | None) -> None:
        self._engine(name).ranks.clear()

    def _start(self, record: ServerStart) -> None:
        engine = self._engine(record.rank.engine)
        engine.ranks.clear()
        engine.warming = True
        engine.interval = None
        self.arguments(record.rank.engine, record.arguments)

    def arguments(self, name: str | None, arguments: Mapping[str, object]) -> None:
        """Takes the arguments in force, wherever they were read."""
        engine = self._engine(name)
        coupled = arguments.get("enable_dp_attention")
        engine.couples_ranks = coupled if isinstance(coupled, bool) else None
        if "speculative_algorithm" in arguments:
            engine.speculative = arguments["speculative_algorithm"] not in (None, "", "NONE", "None")
        interval = arguments.get("decode_log_interval")
        engine.log_interval = interval if isinstance(interval, int) and interval > 0 else None

    def _warm(self, record: LogRecord) -> None:
        engine = self._engine(record.rank.engine)
        if not isinstance(record, JitCompile) and not engine.warming:
            engine.ranks.clear()
        engine.warming = True
        for window in engine.ranks.values():
            window.steady.clear()

    def _gap(self, name: str | None) -> None:
        engines = list(self._engines.values()) if name is None else [self._engine(name)]
        for engine in engines:
            for window in engine.ranks.values():
                window.gapped = True

    def _prefill(self, record: PrefillBatch) -> None:
        engine = self._engine(record.rank.engine)
        engine.shows_prefill = True
        own = self._window(engine, record.rank.dp)
        own.prefills += 1
        if record.running == 0:
            own.idled = True
        if record.rank.dp is not None and engine.couples_ranks is not False:
            for dp, window in engine.ranks.items():
                if dp != record.rank.dp:
                    window.prefills += 1

    def _flags(self, record: DecodeBatch, engine: _Engine, window: _RankWindow) -> list[Flag]:
        flags: list[Flag] = []
        if not window.seen:
            flags.append("first")
        self.lines_missing = window.seen and self._lines_missing(record, engine, window)
        missing = window.gapped or self.lines_missing
        if window.idled or (window.seen and not missing and self._silent(record, engine, window)):
            flags.append("idle")
        if window.prefills:
            flags.append("prefill")
        if window.seen and record.running != window.running:
            flags.append("batch-changed")
        if self._request_ended(record, window):
            flags.append("request-ended")
        if missing:
            flags.append("gap")
        if engine.warming:
            flags.append("warming")
        return flags

    @staticmethod
    def _silent(record: DecodeBatch, engine: _Engine, window: _RankWindow) -> bool:
        if engine.shows_prefill or window.cadence is None:
            return False
        return record.at - window.at > max(IDLE_SECONDS, IDLE_MULTIPLE * window.cadence)

    @staticmethod
    def _request_ended(record: DecodeBatch, window: _RankWindow) -> bool:
        if record.context_flaw == "request-end":
            return True
        if not window.seen:
            return False
        fewer = record.running is not None and window.running is not None and record.running < window.running
        tokens, before = record.total_context_tokens, window.tokens
        return fewer or (tokens is not None and before is not None and tokens < before)

    @staticmethod
    def _lines_missing(record: DecodeBatch, engine: _Engine, window: _RankWindow) -> bool:
        if record.iteration is None or window.iteration is None:
            return False
        passes = record.iteration - window.iteration - window.prefills
        interval = engine.log_interval or engine.interval
        return interval is not None and passes >= 2 * interval

    def _sample(self, record: DecodeBatch) -> Sample | None:
        rank = record.rank
        if not speaks_for_itself(rank):
            return None
        engine = self._engine(rank.engine)
        window = self._window(engine, rank.dp)
        flags = self._flags(record, engine, window)
        step = self._step_seconds(record, engine)
        if engine.warming and flags == ["warming"] and step is not None:
            window.steady.append((record.at, step))
            if self._settled(window.steady):
                engine.warming = False
        self._remember(record, engine, window)
        tokens = None if record.context_flaw else record.total_context_tokens
        running = record.running
        return Sample(
            at=record.at,
            stamp=record.stamp,
            engine=rank.engine,
            dp_rank=rank.dp,
            batch=running,
            total_context_tokens=tokens,
            context_tokens=tokens / running if tokens is not None and running else None,
            accept_length=self._accept_length(record),
            throughput=record.throughput_tokens_per_second,
            step_seconds=step,
            flags=tuple(flags),
            source_line=record.line,
        )

    @staticmethod
    def _settled(steady: list[tuple[float, float]]) -> bool:
        """Whether the newest stretch no longer gets faster: some samples over seconds, or many of them."""
        del steady[:-MANY_SAMPLES]
        if len(steady) == MANY_SAMPLES and _level([step for _, step in steady], MANY_SPEEDING_UP):
            return True
        newest = steady[-1][0]
        start = next((i for i, (at, _) in reversed(list(enumerate(steady))) if at <= newest - STEADY_SECONDS), None)
        if start is None:
            return False
        start = min(start, len(steady) - STEADY_SAMPLES)
        return start >= 0 and _level([step for _, step in steady[start:]], STILL_SPEEDING_UP)

    @staticmethod
    def _remember(record: DecodeBatch, engine: _Engine, window: _RankWindow) -> None:
        if window.seen:
            window.cadence = record.at - window.at
            if record.iteration is not None and window.iteration is not None and not window.prefills:
                passes = record.iteration - window.iteration
                if passes > 0 and (engine.interval is None or passes < engine.interval):
                    engine.interval = passes
        window.seen = True
        window.at = record.at
        window.prefills = 0
        window.gapped = False
        window.idled = record.context_flaw == "request-end" or record.running == 0
        window.running = record.running
        window.tokens = record.total_context_tokens
        window.iteration = record.iteration

    @staticmethod
    def _accept_length(record: DecodeBatch) -> float | None:
        if record.accept_length is not None:
            return record.accept_length
        if record.spec_tokens is not None and record.spec_rounds:
            return record.spec_tokens / record.spec_rounds
        return None

    def _step_seconds(self, record: DecodeBatch, engine: _Engine) -> float | None:
        """Running x accept length / throughput of this one line, seconds.

        Without speculation SGLang prints no accept length and commits one token per step and request; where
        speculation is known to run, a missing accept length leaves the step time unknown.
        """
        throughput, running = record.throughput_tokens_per_second, record.running
        if not throughput or throughput <= 0 or not running or running <= 0:
            return None
        accept = self._accept_length(record)
        if accept is None:
            if engine.speculative:
                return None
            accept = 1.0
        return running * accept / throughput if accept > 0 else None
