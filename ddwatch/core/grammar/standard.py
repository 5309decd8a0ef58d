"""The short way for the lines that make up nearly all of a log: one match, no tokeniser, the same records.

A line that is not exactly of a shape listed here is left to the general way.
"""

import re
from collections.abc import Callable

from ddwatch.core.grammar.patterns import (
    BARE_DECODE,
    BARE_UNCLAIMED,
    CARRIED,
    DECODE,
    PREFILL,
    STAMP,
    UNCLAIMED,
    WIDE,
    WIDE_EXTRAS,
)
from ddwatch.core.grammar.placement import Placement
from ddwatch.core.grammar.pools import RANK_LIMIT, Pool, Pools
from ddwatch.core.grammar.prefix import RANKS, WORD, zoned_epoch
from ddwatch.core.records import NO_RANK, DecodeBatch, PrefillBatch, Rank, Record

SMALL = {str(value).encode(): value for value in range(1, 1024)}
"""Counts that come again and again."""

NOTHING: tuple[Record, ...] = ()

Build = Callable[[re.Match[bytes], float | None, float | None, str | None, int | None], Record]
"""Makes the record of a match: arrival, time of the envelope, engine and number of the line beside it."""


class Standard:
    """Reads standard lines; keeps what their prefixes meant."""

    __slots__ = ("_expected", "_placement", "_pools", "_ranks", "_stamp", "_words")

    def __init__(self, placement: Placement, pools: Pools) -> None:
        self._placement = placement
        self._pools = pools
        self._ranks: dict[bytes | tuple[str, bytes | None] | None, Pool] = {}
        self._expected: tuple[re.Pattern[bytes], Build] | None = None
        self._stamp: bytes = b""
        self._words: str | None = None

    def forget(self) -> None:
        """The pools are others now."""
        self._ranks.clear()

    def read(
        self, line: bytes, arrived: float | None, outer: float | None, engine: str | None, number: int | None
    ) -> tuple[Record, ...] | None:
        """The records of a standard line, or None for any other."""
        try:
            if self._expected is not None:
                # Lines of one kind come in runs: what came last is tried first.
                pattern, build = self._expected
                found = pattern.match(line)
                if found is not None:
                    return (build(found, arrived, outer, engine, number),)
                self._expected = None
            found = DECODE.match(line)
            if found is not None:
                return (self._decode(found, arrived, outer, engine, number),)
            start = line[:1]
            if start == b"[":
                bracket = line.find(b"]", 20, 96)
                first = line[bracket + 2 : bracket + 3]
                if first == b"D":
                    return self._rare(WIDE, self._wide, line, arrived, outer, engine, number)
                if first == b"P":
                    return self._rare(PREFILL, self._prefill, line, arrived, outer, engine, number)
                return NOTHING if UNCLAIMED.match(line) else None
            if start == b"D":
                return self._rare(BARE_DECODE, self._decode, line, arrived, outer, engine, number)
            if BARE_UNCLAIMED.match(line):
                return NOTHING
            return self._carried(line, arrived, number) if engine is None and outer is None else None
        except ValueError:
            # A stamp or a number that only looked like one.
            return None

    def _rare(
        self,
        pattern: re.Pattern[bytes],
        build: Build,
        line: bytes,
        arrived: float | None,
        outer: float | None,
        engine: str | None,
        number: int | None,
    ) -> tuple[Record, ...] | None:
        found = pattern.match(line)
        if found is None:
            return None
        self._expected = pattern, build
        return (build(found, arrived, outer, engine, number),)

    def _carried(self, line: bytes, arrived: float | None, number: int | None) -> tuple[Record, ...] | None:
        """A stamped line behind one prefix of a container or runner."""
        carried = CARRIED.match(line)
        if carried is None:
            return None
        ray, service, zoned = carried.groups()
        outer = None if zoned is None else zoned_epoch(zoned.decode())
        if zoned is not None and outer is None:
            return None
        name = ray or service
        engine = None if name is None else name.decode()
        return self.read(line[carried.end() :], arrived, outer, engine, number)

    def _decode(
        self,
        found: re.Match[bytes],
        arrived: float | None,
        outer: float | None,
        engine: str | None,
        number: int | None,
    ) -> DecodeBatch:
        stamp, ranks, iteration, running, tokens, usage, accept, rate, graph, throughput, queued = found.groups()
        requests = SMALL.get(running) or int(running)
        total = int(tokens)
        share = float(usage)
        length = None if accept is None else float(accept)
        accepted = None if rate is None else float(rate)
        speed = float(throughput)
        placement = self._placement
        if arrived is None and outer is None and placement.placed is self._words and stamp == self._stamp and stamp:
            at = placement.placed_at
        else:
            at = self._place(arrived, outer, stamp)
        pool = self._ranks.get(ranks) if engine is None else None
        if pool is None:
            pool = self._pool(ranks, engine)
        if arrived is None and not placement.stamped:
            at = placement.estimate(pool.rank, requests, total, length, speed)
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
            accept_rate=accepted,
            throughput_tokens_per_second=speed,
            queued=0 if queued == b"0" else int(queued),
            token_usage=share,
            graph=None if graph is None else graph == b"True",
            iteration=None if iteration is None else int(iteration),
        )

    def _pool(self, ranks: bytes | None, engine: str | None) -> Pool:
        """The pool of the rank that the prefix names."""
        key = ranks if engine is None else (engine, ranks)
        pool = self._ranks.get(key)
        if pool is not None:
            return pool
        names: dict[str, int] = {}
        for word in (ranks or b"").decode().split():
            known = WORD.match(word)
            if known is not None and known["rank"] in RANKS:
                names[RANKS[known["rank"]]] = int(known["number"])
        pool = self._pools.of(Rank(engine=engine, **names) if engine or names else NO_RANK)
        if len(self._ranks) >= RANK_LIMIT:
            self._ranks.clear()
        self._ranks[key] = pool
        return pool

    def _place(self, arrived: float | None, outer: float | None, stamp: bytes | None) -> float:
        """The same place that the general way finds; raises ValueError when the stamp is none."""
        placement = self._placement
        if stamp != self._stamp:
            if stamp and not STAMP.match(stamp):
                raise ValueError(stamp)
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
            stamp, ranks, iteration, running, tokens, usage, swa, swa_usage, mamba, mamba_usage, spec_tokens,
            spec_rounds, accept, rate, late_tokens, late_rounds, allocated, prealloc, transfer, retracted, graph,
            throughput, largest, queued, *measures,
        ) = found.groups()  # fmt: skip
        requests = int(running)
        total = int(tokens)
        share = float(usage)
        length = None if accept is None else float(accept)
        accepted = None if rate is None else float(rate)
        states = None if mamba_usage is None else float(mamba_usage)
        speed = float(throughput)
        at = self._place(arrived, outer, stamp)
        pool = self._pool(ranks, engine)
        if arrived is None and not self._placement.stamped:
            at = self._placement.estimate(pool.rank, requests, total, length, speed)
        # The first of a repeated field counts, as in the general way.
        spec_tokens = late_tokens if spec_tokens is None else spec_tokens
        spec_rounds = late_rounds if spec_rounds is None else spec_rounds
        others = (swa_usage, allocated, prealloc, transfer, largest, *measures)
        extra = tuple([(key, text.decode()) for key, text in zip(WIDE_EXTRAS, others, strict=True) if text is not None])
        return DecodeBatch(
            at=at,
            stamp=self._words,
            rank=pool.rank,
            line=number,
            running=requests,
            total_context_tokens=total,
            context_flaw=pool.flaw(requests, total, speed, at),
            accept_length=length,
            accept_rate=accepted,
            throughput_tokens_per_second=speed,
            queued=int(queued),
            token_usage=share,
            graph=None if graph is None else graph == b"True",
            iteration=None if iteration is None else int(iteration),
            swa_tokens=None if swa is None else int(swa),
            mamba_num=None if mamba is None else int(mamba),
            mamba_usage=states,
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
        share = float(usage)
        speed = None if rate is None else float(rate)
        placement = self._placement
        if stamp == self._stamp and placement.placed is self._words and arrived is None and outer is None:
            at = placement.placed_at
        else:
            at = self._place(arrived, outer, stamp)
        pool = self._ranks.get(ranks) if engine is None else None
        if pool is None:
            pool = self._pool(ranks, engine)
        if not placement.stamped:
            placement.prefill(pool.rank)
        return PrefillBatch(
            at=at,
            stamp=self._words,
            rank=pool.rank,
            line=number,
            new_requests=SMALL.get(requests) or int(requests),
            new_tokens=int(new),
            cached_tokens=0 if cached == b"0" else int(cached),
            running=SMALL.get(running) or int(running),
            queued=0 if queued == b"0" else int(queued),
            pending_tokens=None if pending is None else SMALL.get(pending) or int(pending),
            token_usage=share,
            throughput_tokens_per_second=speed,
            graph=None if graph is None else graph == b"True",
            iteration=None if iteration is None else int(iteration),
        )
