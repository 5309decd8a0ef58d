"""Whether requests get on: starved (prefill flows, decode does not), stalled (nothing moves), silent, or gone.

A log alone cannot tell stuck from idle: with a line every forty steps, a request that ends between two lines leaves no
trace. Stalled therefore needs a witness besides it: the server's own loads, or a process that is known to live and
whose log has a line for every step. Silence is reported for what it is.
"""

from ddwatch.core.detection.processes import EngineProcesses
from ddwatch.core.detection.suspicion import Phase, Suspicion
from ddwatch.core.hardware import HostReading
from ddwatch.core.records import DecodeBatch, Loads, PrefillBatch, Rank, Record, ServerStart, ServerStop

STARVED_SECONDS = 15.0
"""Longest time without decode progress while prefill flows, whatever the cadence."""
STALLED_SECONDS = 30.0
SILENT_SECONDS = 30.0
CADENCE_MULTIPLE = 6.0
"""Every limit is also at least this many usual distances between decode lines."""
PENDING_SHARE = 0.5
"""Half the limit is pending."""
FRESH_SECONDS = 15.0
"""A witness speaks for this long."""
GONE_SECONDS = 2.0
"""Last lines of a process that has ended come for this long, or for two usual distances between them ..."""
LATE_SECONDS = 5.0
"""... and certainly not later than this: then it was another one that ended."""
PREFILL_FLOWS_SECONDS = 30.0
"""Prefill flows while its newest line is no older than this."""
MOST_RANKS = 1024

RankName = tuple[str | None, int | None]


class Progress:
    """Told of every sign of progress; asked what is wrong. Asking changes nothing, and one suspicion at most holds."""

    def __init__(self) -> None:
        self.cadence: float | None = None
        """Usual seconds between decode lines, told by whoever knows."""
        self.every_step = False
        """Whether the log has a line for every step (decode_log_interval 1): then its last word on what runs holds."""
        self._processes = EngineProcesses()
        self.restart()

    def restart(self) -> None:
        """A new process, or one that stopped: nothing is expected of it yet."""
        self._moved_at: float | None = None
        self._worked_at: float | None = None
        self._decoded_at: float | None = None
        self._prefilled_at: float | None = None
        self._starving_since: float | None = None
        self._prefills = 0
        self._running: dict[RankName, int] = {}
        self._loaded: dict[int | None, tuple[tuple[float, ...] | None, int | None]] = {}
        self._loads_at: float | None = None
        self._loads_running: int | None = None
        self._processes.restart()

    def see(self, record: Record) -> None:
        """Takes the next record; most kinds say nothing of progress."""
        if isinstance(record, DecodeBatch):
            self._decoded(record)
        elif isinstance(record, PrefillBatch):
            self._prefilled(record)
        elif isinstance(record, Loads):
            self._loads(record)
        elif isinstance(record, HostReading):
            self._processes.read(record, self._worked_at)
        elif isinstance(record, (ServerStart, ServerStop)):
            self.restart()

    def _works(self, at: float) -> None:
        """The engine itself says that it works."""
        self._worked_at = at
        gone = self._processes.gone_at
        if gone is not None and at - gone > LATE_SECONDS:
            # It works on: what has ended was something else.
            self._processes.restart()

    def _decoded(self, record: DecodeBatch) -> None:
        self._moved_at = self._decoded_at = record.at
        self._works(record.at)
        self._starving_since = None
        over = record.context_flaw == "request-end"
        self._say(record.rank, 0 if over else record.running)

    def _prefilled(self, record: PrefillBatch) -> None:
        self._moved_at = self._prefilled_at = record.at
        self._works(record.at)
        if record.running:
            # Requests that already decode wait while this one is prefilled.
            if self._starving_since is None:
                self._starving_since = record.at
                self._prefills = 0
            self._prefills += 1
        if record.running is not None:
            # What is prefilled now runs next; a health probe of one token does not.
            joins = (record.new_requests or 0) if (record.new_tokens or 0) > 1 or record.cached_tokens else 0
            self._say(record.rank, record.running + joins)

    def _say(self, rank: Rank, running: int | None) -> None:
        key = (rank.engine, rank.dp)
        if running is None or (key not in self._running and len(self._running) >= MOST_RANKS):
            return
        self._running[key] = running
        if not any(self._running.values()):
            self._starving_since = None

    def _loads(self, record: Loads) -> None:
        known = [load.running for load in record.ranks if load.running is not None]
        running = sum(known) if known else None
        stepped = moved = False
        for load in record.ranks:
            before = self._loaded.get(load.dp_rank)
            if before is not None:
                stepped = stepped or (load.moments is not None and load.moments != before[0])
                moved = moved or load.used_tokens != before[1]
            self._loaded[load.dp_rank] = (load.moments, load.used_tokens)
        if stepped:
            self._moved_at = self._decoded_at = record.at
            self._starving_since = None
        if moved or running == 0 or (running and not self._loads_running):
            self._moved_at = record.at
        if running == 0:
            self._starving_since = None
            self._running.clear()
        self._loads_at, self._loads_running = record.at, running

    def running(self, now: float) -> int | None:
        """Running requests: by the server's own word while it is fresh, else by the newest batch lines."""
        if self._fresh(self._loads_at, now) and self._loads_running is not None:
            return self._loads_running
        return sum(self._running.values()) if self._running else None

    @staticmethod
    def _fresh(at: float | None, now: float) -> bool:
        return at is not None and abs(now - at) <= FRESH_SECONDS

    def _limit(self, seconds: float) -> float:
        return max(seconds, CADENCE_MULTIPLE * (self.cadence or 0.0))

    def state(self, now: float) -> Suspicion | None:
        """What holds at this instant: gone, stalled or silent, else starved."""
        return self._gone(now) or self._motionless(now) or self._starved(now)

    def _gone(self, now: float) -> Suspicion | None:
        gone = self._processes.gone_at
        if gone is None:
            return None
        silent = now - max(gone, self._moved_at or gone)
        limit = max(GONE_SECONDS, 2.0 * (self.cadence or 0.0))
        if silent < limit:
            return None
        return Suspicion(
            name="gone",
            phase="firing",
            since=gone,
            reached=now - silent + limit,
            strength=silent / limit,
            what="its processes have ended",
            evidence={"silent_seconds": silent, "pid": self._processes.pid},
        )

    def _motionless(self, now: float) -> Suspicion | None:
        running, since = self.running(now), self._moved_at
        if not running or since is None:
            return None
        witnesses = []
        if self._fresh(self._loads_at, now) and self._loads_running is not None:
            witnesses.append("loads")
        if self._fresh(self._processes.alive_at, now):
            witnesses.append("process")
        stuck = "loads" in witnesses or ("process" in witnesses and self.every_step)
        noun = "request" if running == 1 else "requests"
        if stuck:
            words, limit = f"{running} {noun} running, nothing moves", self._limit(STALLED_SECONDS)
        else:
            words, limit = f"no batch line with {running} {noun} running", self._limit(SILENT_SECONDS)
        return _lasting(
            "stalled" if stuck else "silent",
            now,
            since,
            limit,
            words,
            running=running,
            witness=", ".join(witnesses) or None,
            pid=self._processes.pid,
        )

    def _starved(self, now: float) -> Suspicion | None:
        began, prefilled = self._starving_since, self._prefilled_at
        if began is None or prefilled is None or now - prefilled > self._limit(PREFILL_FLOWS_SECONDS):
            return None
        decoded = self._decoded_at
        since = decoded if decoded is not None and 0.0 <= began - decoded <= FRESH_SECONDS else began
        return _lasting(
            "starved",
            now,
            since,
            self._limit(STARVED_SECONDS),
            "prefill runs, no token is decoded",
            running=self.running(now),
            prefill_lines=self._prefills,
        )


def _lasting(
    name: str, now: float, since: float, limit: float, what: str, **evidence: float | int | str | None
) -> Suspicion | None:
    lasted = now - since
    if lasted < PENDING_SHARE * limit:
        return None
    phase: Phase = "firing" if lasted >= limit else "pending"
    return Suspicion(
        name=name,
        phase=phase,
        since=since,
        reached=since + (limit if phase == "firing" else PENDING_SHARE * limit),
        strength=lasted / limit,
        what=what,
        evidence={"seconds": lasted, "limit_seconds": limit, **evidence},
    )
