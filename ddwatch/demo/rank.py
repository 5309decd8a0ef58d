"""One data-parallel rank of the simulated service: its queue, its batch, and the counters that it reports from."""

from collections import deque
from typing import NamedTuple

from ddwatch.demo.physics import GRAPH_SIZES
from ddwatch.demo.requests import Request

CHUNK_TOKENS = 8192
"""Tokens that one prefill pass of a rank computes at most (`chunked_prefill_size`)."""
MAX_RUNNING = 32
REFRESH_STEPS = 15
"""Decode iterations after which the published moments are refreshed."""
LONGEST_STEP = 2.0
"""A step of this many seconds or more is left out of the moments."""

Sums = tuple[float, float, float, float, float, float]
"""Steps, batch, step microseconds, batch squared, batch times microseconds, tokens; each summed over steps."""


class Chunk(NamedTuple):
    """The part of one request that a prefill pass computes."""

    request: Request
    before: int
    new: int
    cached: int
    left: int


class RankLoad(NamedTuple):
    """What a rank tells of itself at one instant."""

    number: int
    running: int
    queued: int
    used_tokens: int
    pool_tokens: int
    throughput: float
    accept_length: float | None
    """Over the life of the process."""
    moments: Sums
    """As published: up to fifteen decode iterations old."""
    computed_tokens: int
    """Prompt tokens prefilled since the start."""
    cached_tokens: int
    prefill_seconds: float
    decoded_tokens: int = 0
    """Tokens generated since the start."""
    graph_passes: int = 0
    plain_passes: int = 0
    """Decode passes with and without a captured graph."""
    decode_context: int = 0
    """Context summed over the requests of the newest decode step; it stands still at rest, as SGLang's does."""
    retracted: int = 0


class Rank:
    """One data-parallel rank: its queue, its batch and the counters behind its log lines."""

    def __init__(self, number: int, pool_tokens: int, at: float) -> None:
        self.number = number
        self.pool_tokens = pool_tokens
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.generated = 0
        self.accepted = 0
        self.request_steps = 0
        self.steps = 0
        self.last_decode_line = at
        self.last_prefill_line = at
        self.token_ratio = 0.4
        self.verified = False
        self.throughput = 0.0
        self.computed_tokens = 0
        self.cached_tokens = 0
        self.prefill_seconds = 0.0
        self.retracted = 0
        """Requests sent back to the queue since the start."""
        self._lifetime = [0, 0]
        self._passes = [0, 0]
        self._context = 0
        self._sums: Sums = (0.0,) * 6
        self._published: Sums = (0.0,) * 6
        self._stepped_until: float | None = None

    @property
    def used_tokens(self) -> int:
        """KV pool in use by requests that run or are being prefilled."""
        return sum(request.prefilled for request in self.waiting) + sum(request.context for request in self.running)

    @property
    def usage(self) -> float:
        """Share of the pool in use."""
        return self.used_tokens / self.pool_tokens

    def _fits(self, request: Request, beside: int) -> bool:
        """Whether a queued request may be prefilled now, with so many more already chosen."""
        if request.prefilled:
            return True
        reserve = sum((r.completion_tokens - r.output) * self.token_ratio for r in self.running)
        need = request.goal + self.token_ratio * (request.completion_tokens - request.output)
        room = self.used_tokens + reserve + need <= self.pool_tokens
        alone = not self.running and not beside
        return len(self.running) + beside < MAX_RUNNING and (room or alone)

    def admissible(self) -> bool:
        """Whether the head of the queue may be prefilled now."""
        return bool(self.waiting) and self._fits(self.waiting[0], 0)

    def chunks(self) -> list[Chunk]:
        """What the next prefill pass computes: whole requests from the head of the queue, the last one in part."""
        chosen: list[Chunk] = []
        budget = CHUNK_TOKENS
        for request in self.waiting:
            if budget == 0 or not self._fits(request, len(chosen)):
                break
            cached = request.cached_tokens if request.prefilled == 0 and request.output == 0 else 0
            before = request.prefilled + cached
            new = min(budget, request.goal - before)
            request.prefilled = before + new
            budget -= new
            chosen.append(Chunk(request, before, new, cached, request.goal - request.prefilled))
        return chosen

    def withdraw(self) -> None:
        """Drops the requests whose clients have gone."""
        if any(request.withdrawn for request in self.waiting):
            self.waiting = deque(request for request in self.waiting if not request.withdrawn)
        if any(request.withdrawn for request in self.running):
            self.running = [request for request in self.running if not request.withdrawn]

    def count(self, start: float, end: float, accepted: list[int]) -> None:
        """Adds one step to the counters; to the moments only if it follows another step without a break."""
        batch, tokens = len(accepted), sum(accepted)
        self.steps += 1
        self._lifetime[0] += tokens
        self._lifetime[1] += batch
        self._passes[batch > GRAPH_SIZES[-1]] += 1
        self._context = sum(request.context for request in self.running)
        if self._stepped_until == start and end - start < LONGEST_STEP:
            micros = (end - start) * 1e6
            each = (1.0, batch, micros, batch * batch, batch * micros, tokens)
            a, b, c, d, e, f = (total + value for total, value in zip(self._sums, each, strict=True))
            self._sums = (a, b, c, d, e, f)
        self._stepped_until = end
        if self.steps % REFRESH_STEPS == 0:
            self._published = self._sums

    def load(self) -> RankLoad:
        """What it tells of itself now."""
        tokens, steps = self._lifetime
        return RankLoad(
            number=self.number,
            running=len(self.running),
            queued=len(self.waiting),
            used_tokens=self.used_tokens,
            pool_tokens=self.pool_tokens,
            throughput=self.throughput if self.running else 0.0,
            accept_length=tokens / steps if steps else None,
            moments=self._published,
            computed_tokens=self.computed_tokens,
            cached_tokens=self.cached_tokens,
            prefill_seconds=self.prefill_seconds,
            decoded_tokens=tokens,
            graph_passes=self._passes[0],
            plain_passes=self._passes[1],
            decode_context=self._context,
            retracted=self.retracted,
        )
