"""The short way for the lines that make up nearly all of a log: one match, no tokeniser, the same records.

A line that is not exactly of a shape listed here is left to the general way.
"""

import re

from ddwatch.core.grammar import FORMATS
from ddwatch.core.grammar.placement import Placement
from ddwatch.core.grammar.pools import RANK_LIMIT, Pool, Pools
from ddwatch.core.grammar.prefix import LEVELS, RANKS, WORD
from ddwatch.core.records import NO_RANK, DecodeBatch, PrefillBatch, Rank, Record

PREFIX = rb"(?:\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)([A-Z\d ]{0,60})\] )?"
COUNT = rb"(\d{1,15})"
FRACTION = rb"(\d{1,12}\.\d{1,6})"
GRAPH = rb"(?:, (?:cuda|cpu|npu|musa|hip|xpu) graph: (True|False))?"

STAMPED = rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)([A-Z\d ]{0,60})\] "
BARE = rb"()()"
DECODE_BODY = (
    rb"Decode batch(?: \[(\d{1,15})\])?[.,] #running-req: "
    + COUNT
    + rb", #token: "
    + COUNT
    + rb", token usage: "
    + FRACTION
    + rb"(?:, accept len: "
    + FRACTION
    + rb")?(?:, accept rate: "
    + FRACTION
    + rb")?"
    + GRAPH
    + rb", gen throughput \(token/s\): "
    + FRACTION
    + rb", #queue-req: "
    + COUNT
    + rb"(?:, ?)?\Z"
)
DECODE = re.compile(STAMPED + DECODE_BODY)
BARE_DECODE = re.compile(BARE + DECODE_BODY)
"""The lines of 0.2 to 0.5.23 for models with one pool."""

WIDE = re.compile(
    PREFIX
    + rb"Decode batch(?: \[(\d{1,15})\])?[.,] #running-req: "
    + COUNT
    + rb", #(?:full )?token: "
    + COUNT
    + rb", (?:full )?token usage: "
    + FRACTION
    + rb"(?:, #swa token: "
    + COUNT
    + rb", (swa token usage): "
    + FRACTION
    + rb")?(?:, mamba num: "
    + COUNT
    + rb", mamba usage: "
    + FRACTION
    + rb")?(?:, spec tokens: "
    + COUNT
    + rb", spec rounds: "
    + COUNT
    + rb")?(?:, accept len: "
    + FRACTION
    + rb")?(?:, accept rate: "
    + FRACTION
    + rb")?(?:, spec tokens: "
    + COUNT
    + rb", spec rounds: "
    + COUNT
    + rb")?(?:, (pre-allocated usage): "
    + FRACTION
    + rb")?(?:, (#prealloc-req): "
    + COUNT
    + rb")?(?:, (#transfer-req): "
    + COUNT
    + rb")?(?:, #retracted-req: "
    + COUNT
    + rb")?"
    + GRAPH
    + rb", gen throughput \(token/s\): "
    + FRACTION
    + rb"(?:, (largest-len): "
    + COUNT
    + rb")?, #queue-req: "
    + COUNT
    + rb"(?:, ?)?\Z"
)
"""The same with the fields of hybrid models, disaggregation and forks, in the order that they print them."""

PREFILL = re.compile(
    STAMPED
    + rb"Prefill batch(?: \[(\d{1,15})\])?[.,] #new-seq: "
    + COUNT
    + rb", #new-token: "
    + COUNT
    + rb", #cached-token: "
    + COUNT
    + rb", (?:full )?token usage: "
    + FRACTION
    + rb", #running-req: "
    + COUNT
    + rb", #queue-req: "
    + COUNT
    + rb"(?:, #pending-token: "
    + COUNT
    + rb")?"
    + GRAPH
    + rb"(?:, input throughput \(token/s\): "
    + FRACTION
    + rb")?(?:, ?)?\Z"
)

SKIPPED = re.compile(
    rb"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]{2}\d{1,6}){0,4}\] )?INFO:     \d{1,3}\.\d"
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]{2}\d{1,6}){0,4}\] (?![\s:\[\d]|(?:Finish|Receive): |(?:"
    + LEVELS.encode()
    + rb")|"
    + "|".join(form.head for form in FORMATS).encode()
    + rb")"
)
"""Access lines, and stamped lines that no format claims."""

NOTHING: tuple[Record, ...] = ()


class Standard:
    """Reads standard lines; keeps what their prefixes meant."""

    __slots__ = ("_placement", "_pools", "_prefilling", "_ranks", "_stamp", "_words")

    def __init__(self, placement: Placement, pools: Pools) -> None:
        self._placement = placement
        self._pools = pools
        self._ranks: dict[bytes | None, Pool] = {}
        self._prefilling = False
        self._stamp: bytes = b""
        self._words: str | None = None

    def forget(self) -> None:
        """The pools are others now."""
        self._ranks.clear()

    def read(
        self, line: bytes, arrived: float | None, outer: float | None, engine: str | None, number: int | None
    ) -> tuple[Record, ...] | None:
        """The records of a standard line, or None for any other."""
        if self._prefilling:
            # Lines of one kind come in runs: what came last is tried first.
            found = PREFILL.match(line)
            if found is not None:
                return (self._prefill(found, arrived, outer, engine, number),)
            self._prefilling = False
        found = DECODE.match(line)
        if found is not None:
            return (self._decode(found, arrived, outer, engine, number),)
        bracket = line.find(b"]", 20, 96)
        first = line[bracket + 2 : bracket + 3] if bracket > 0 else line[:1]
        if first == b"D":
            found = BARE_DECODE.match(line)
            if found is not None:
                return (self._decode(found, arrived, outer, engine, number),)
            found = WIDE.match(line)
            return None if found is None else (self._wide(found, arrived, outer, engine, number),)
        if first == b"P":
            found = PREFILL.match(line)
            if found is not None:
                self._prefilling = True
                return (self._prefill(found, arrived, outer, engine, number),)
        return NOTHING if SKIPPED.match(line) and b"\x1b" not in line else None

    def _decode(
        self,
        found: re.Match[bytes],
        arrived: float | None,
        outer: float | None,
        engine: str | None,
        number: int | None,
    ) -> DecodeBatch:
        stamp, ranks, iteration, running, tokens, usage, accept, rate, graph, throughput, queued = found.groups()
        at = self._place(arrived, outer, stamp)
        pool = self._ranks.get(ranks) if engine is None else None
        if pool is None:
            pool = self._pool(ranks, engine)
        requests = int(running)
        total = int(tokens)
        length = None if accept is None else float(accept)
        speed = float(throughput)
        if arrived is None and not self._placement.stamped:
            at = self._placement.estimate(pool.rank, requests, total, length, speed)
        unmoved = total == pool.tokens or not total
        return DecodeBatch(
            at=at,
            stamp=self._words,
            rank=pool.rank,
            line=number,
            running=requests,
            total_context_tokens=total,
            context_flaw=pool.flaw(requests, total, speed, at) if unmoved else pool.moved(total, at),
            accept_length=length,
            accept_rate=None if rate is None else float(rate),
            throughput_tokens_per_second=speed,
            queued=int(queued),
            token_usage=float(usage),
            graph=None if graph is None else graph == b"True",
            iteration=None if iteration is None else int(iteration),
        )

    def _pool(self, ranks: bytes | None, engine: str | None) -> Pool:
        """The pool of the rank that the prefix names."""
        if engine is None:
            pool = self._ranks.get(ranks)
            if pool is not None:
                return pool
        names: dict[str, int] = {}
        for word in (ranks or b"").decode().split():
            known = WORD.match(word)
            if known is not None and known["rank"] in RANKS:
                names[RANKS[known["rank"]]] = int(known["number"])
        pool = self._pools.of(Rank(engine=engine, **names) if engine or names else NO_RANK)
        if engine is None:
            if len(self._ranks) >= RANK_LIMIT:
                self._ranks.clear()
            self._ranks[ranks] = pool
        return pool

    def _place(self, arrived: float | None, outer: float | None, stamp: bytes | None) -> float:
        """The same place that the general way finds."""
        placement = self._placement
        if stamp != self._stamp:
            self._stamp = stamp or b""
            self._words = stamp.decode() if stamp else None
        if arrived is not None:
            if not placement.stamped:
                placement.stamped = bool(stamp) or outer is not None
            return arrived
        if outer is not None:
            return placement.zoned(outer)
        return placement.last if self._words is None else placement.stamp(self._words)

    def _wide(
        self,
        found: re.Match[bytes],
        arrived: float | None,
        outer: float | None,
        engine: str | None,
        number: int | None,
    ) -> DecodeBatch:
        (
            stamp, ranks, iteration, running, tokens, usage, swa, swa_key, swa_usage, mamba, mamba_usage, spec_tokens,
            spec_rounds, accept, rate, late_tokens, late_rounds, allocated_key, allocated, prealloc_key, prealloc,
            transfer_key, transfer, retracted, graph, throughput, largest_key, largest, queued,
        ) = found.groups()  # fmt: skip
        at = self._place(arrived, outer, stamp)
        pool = self._pool(ranks, engine)
        requests = int(running)
        total = int(tokens)
        length = None if accept is None else float(accept)
        speed = float(throughput)
        if arrived is None and not self._placement.stamped:
            at = self._placement.estimate(pool.rank, requests, total, length, speed)
        # The first of a repeated field counts, as in the general way.
        spec_tokens = late_tokens if spec_tokens is None else spec_tokens
        spec_rounds = late_rounds if spec_rounds is None else spec_rounds
        extra = tuple(
            (key.decode(), value.decode())
            for key, value in (
                (swa_key, swa_usage),
                (allocated_key, allocated),
                (prealloc_key, prealloc),
                (transfer_key, transfer),
                (largest_key, largest),
            )
            if key is not None
        )
        return DecodeBatch(
            at=at,
            stamp=self._words,
            rank=pool.rank,
            line=number,
            running=requests,
            total_context_tokens=total,
            context_flaw=pool.flaw(requests, total, speed, at),
            accept_length=length,
            accept_rate=None if rate is None else float(rate),
            throughput_tokens_per_second=speed,
            queued=int(queued),
            token_usage=float(usage),
            graph=None if graph is None else graph == b"True",
            iteration=None if iteration is None else int(iteration),
            swa_tokens=None if swa is None else int(swa),
            mamba_num=None if mamba is None else int(mamba),
            mamba_usage=None if mamba_usage is None else float(mamba_usage),
            retracted=None if retracted is None else int(retracted),
            spec_tokens=None if spec_tokens is None else int(spec_tokens),
            spec_rounds=None if spec_rounds is None else int(spec_rounds),
            extra=extra,
        )

    def _prefill(
        self,
        found: re.Match[bytes],
        arrived: float | None,
        outer: float | None,
        engine: str | None,
        number: int | None,
    ) -> PrefillBatch:
        stamp, ranks, iteration, requests, new, cached, usage, running, queued, pending, graph, rate = found.groups()
        at = self._place(arrived, outer, stamp)
        pool = self._ranks.get(ranks) if engine is None else None
        if pool is None:
            pool = self._pool(ranks, engine)
        if not self._placement.stamped:
            self._placement.prefill(pool.rank)
        return PrefillBatch(
            at=at,
            stamp=self._words,
            rank=pool.rank,
            line=number,
            new_requests=int(requests),
            new_tokens=int(new),
            cached_tokens=int(cached),
            running=int(running),
            queued=int(queued),
            pending_tokens=None if pending is None else int(pending),
            token_usage=float(usage),
            throughput_tokens_per_second=None if rate is None else float(rate),
            graph=None if graph is None else graph == b"True",
            iteration=None if iteration is None else int(iteration),
        )
