"""A discrete-event simulation of SGLang's scheduler: prefill first, then one draft + verify step after another.

Time only moves by what the service does. The figures in its log are computed as SGLang computes them: `gen
throughput` is tokens over wall time since this rank's previous decode line, so it is honestly low after idle
and after prefill; `#running-req` and `#token` are sampled at the end of the window.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from random import Random
from typing import Protocol

from msgspec import Struct

from ddwatch.demo.log_writer import LogWriter
from ddwatch.demo.physics import BLOCK_SIZE, Noise, prefill_seconds, step_seconds
from ddwatch.demo.rank import Rank, RankLoad
from ddwatch.demo.requests import (
    Act,
    Boot,
    Conversation,
    Crash,
    Request,
    Shutdown,
    Silence,
    Users,
    asked,
    greeting,
    turned,
)

SCRAPE_SECONDS = 15.0
"""Somebody reads /metrics this often; the access lines are the usual noise of a log."""


class Step(Struct, frozen=True, kw_only=True):
    """The truth of one step of one rank, for tests."""

    at: float
    """When the step ended."""
    rank: int
    batch: int
    total_context_tokens: int
    """Before the step."""
    committed: int
    """Tokens committed over the batch, bonus tokens included."""
    seconds: float
    texts: tuple[str, ...]
    accepted: tuple[int, ...]


class Outside(Protocol):
    """The world around a service that is being watched: its time, and those who ask over its port."""

    def reach(self, simulation: "Simulation") -> None:
        """Returns once the simulation's present has come for the world as well."""

    def idle(self, simulation: "Simulation", until: float) -> float:
        """Lets time pass while nothing runs; returns the moment reached, `until` at most."""

    def asked(self) -> list[Request]:
        """Requests that came in since the last call."""


class Simulation:
    """Plays acts one after another and yields `(seconds since the epoch, line)` in order of time."""

    def __init__(
        self,
        writer: LogWriter,
        *,
        seed: str,
        start: float,
        ranks: int = 1,
        interval: int = 1,
        pool_tokens: int = 262144,
        bonus_twice: bool = False,
        stretch: Callable[[float], float] = lambda at: 1.0,
        truth: Callable[[int, float], float] = step_seconds,
        observe: Callable[[Step], None] | None = None,
        outside: Outside | None = None,
    ) -> None:
        self._writer = writer
        self._interval = interval
        self._pool_tokens = pool_tokens
        self._bonus_twice = bonus_twice
        self._stretch = stretch
        self._truth = truth
        self._observe = observe
        self._outside = outside
        self._accepts = Random(f"{seed}:accepts")
        self._traffic = Random(f"{seed}:traffic")
        self._noise = Noise(Random(f"{seed}:noise"))
        self._at = start
        self._ranks = [Rank(number, pool_tokens // ranks, start) for number in range(ranks)]
        self._arrivals: list[tuple[float, int, Request]] = []
        self._order = 0
        self._next_scrape = start + SCRAPE_SECONDS
        self._out: list[tuple[float, str]] = []
        self._done: Callable[[Request], None] = lambda request: None
        self._turn = 0
        self.serving = False
        """Whether its port answers: between the end of loading and the shutdown."""
        self.loading = False
        """Whether the model is on its way into memory."""
        self.arguments: Mapping[str, object] = {}
        """Server arguments of the present process."""

    @property
    def at(self) -> float:
        """Its present, seconds since the epoch."""
        return self._at

    def loads(self) -> tuple[RankLoad, ...]:
        """What each rank tells of itself now."""
        return tuple(rank.load() for rank in self._ranks)

    def play(self, acts: Iterable[Act], until: float = float("inf")) -> Iterator[tuple[float, str]]:
        """The log of these acts; endless when `acts` is, but for the act in which a time is passed."""
        for act in acts:
            if self._at > until:
                return
            match act:
                case Boot():
                    yield from self._boot(act)
                case Users():
                    yield from self._users(act)
                case Conversation():
                    yield from self._conversation(act)
                case Silence():
                    yield from self._until(self._at + act.seconds)
                case Shutdown():
                    self._leave()
                    self._out += self._writer.shutdown(self._at)
                    self._at += 2.0
                    yield from self._flush()
                case Crash():
                    self._at += act.seconds
                    self._leave()
                    self._out += self._writer.crash(self._at, act.rank, act.reason)
                    yield from self._flush()

    def _flush(self) -> Iterator[tuple[float, str]]:
        lines, self._out = self._out, []
        lines.sort(key=itemgetter(0))
        yield from lines

    def _leave(self) -> None:
        """The process goes, and every request with it."""
        self.serving = False
        self._arrivals.clear()
        self._done = lambda request: None
        for rank in self._ranks:
            rank.waiting.clear()
            rank.running.clear()
        if self._outside is not None:
            self._outside.reach(self)

    def _boot(self, act: Boot) -> Iterator[tuple[float, str]]:
        changes = {"decode_log_interval": self._interval, **act.arguments}
        self.arguments = self._writer.arguments(changes)
        self.loading = True
        if self._outside is not None:
            self._outside.reach(self)
        self._out += self._writer.boot(self._at, act.seconds, self._pool_tokens, changes)
        # These come while it loads, not when it is ready.
        yield from self._flush()
        # A new process counts from zero, and its first window begins when its scheduler does.
        born = self._at + 0.97 * act.seconds
        self._ranks = [Rank(rank.number, rank.pool_tokens, born) for rank in self._ranks]
        self._at += act.seconds
        self._next_scrape = self._at + SCRAPE_SECONDS
        self.serving, self.loading = True, False
        self._out.append((self._at, self._writer.access(self._at, "127.0.0.1:44408", "GET /model_info")))
        for number in range(len(self._ranks)):
            self._arrive(self._at, greeting(self._traffic), number)
        yield from self._drain()
        self._out.append((self._at, self._writer.ready(self._at)))
        yield from self._flush()

    def _users(self, act: Users) -> Iterator[tuple[float, str]]:
        end = self._at + act.seconds

        def again(request: Request) -> None:
            moment = self._at + self._traffic.uniform(*act.think)
            if moment < end:
                self._arrive(moment, asked(self._traffic, act, request.user), request.user)

        self._done = again
        for user in range(act.count):
            moment = self._at + self._traffic.uniform(0, act.think[1])
            self._arrive(moment, asked(self._traffic, act, user), user)
        yield from self._until(end)
        if not act.cut:
            yield from self._drain()

    def _conversation(self, act: Conversation) -> Iterator[tuple[float, str]]:
        self._done = lambda request: None
        for turn in act.turns:
            yield from self._until(self._at + turn.pause)
            self._arrive(self._at, turned(self._traffic, act, turn), 0)
            yield from self._drain()

    def _arrive(self, at: float, request: Request, user: int) -> None:
        request.user = user
        self._order += 1
        heapq.heappush(self._arrivals, (at, self._order, request))

    def _until(self, end: float) -> Iterator[tuple[float, str]]:
        while self._at < end:
            self._advance(end)
            yield from self._flush()

    def _drain(self) -> Iterator[tuple[float, str]]:
        while self._arrivals or any(rank.waiting or rank.running for rank in self._ranks):
            self._advance(self._arrivals[0][0] if self._arrivals else self._at)
            yield from self._flush()

    def _advance(self, end: float) -> None:
        """One prefill pass, one step, or a jump to the next thing that happens (at most to `end`)."""
        if self._outside is not None:
            self._outside.reach(self)
            for request in self._outside.asked():
                self._turn += 1
                self._arrive(self._at, request, self._turn)
            for rank in self._ranks:
                rank.withdraw()
        while self._arrivals and self._arrivals[0][0] <= self._at:
            request = heapq.heappop(self._arrivals)[2]
            request.asked_at = self._at
            self._ranks[request.user % len(self._ranks)].waiting.append(request)
        prefilling = [rank for rank in self._ranks if rank.admissible()]
        if prefilling:
            self._prefill(prefilling)
        elif any(rank.running for rank in self._ranks):
            self._step([rank for rank in self._ranks if rank.running])
        else:
            upcoming = min(self._arrivals[0][0], end) if self._arrivals else end
            if self._outside is not None and upcoming > self._at:
                upcoming = self._outside.idle(self, upcoming)
            self._scrapes(upcoming)
            self._at = max(self._at, upcoming)
            return
        self._scrapes(self._at)

    def _scrapes(self, until: float) -> None:
        while self._next_scrape <= until:
            moment = self._next_scrape
            if self.serving:
                self._out.append((moment, self._writer.access(moment, "10.0.0.9:51234", "GET /metrics")))
            self._next_scrape += SCRAPE_SECONDS

    def _prefill(self, ranks: list[Rank]) -> None:
        """One pass over the heads of these ranks' queues; ranks that step together wait for the slowest."""
        passes = [(rank, len(rank.running), rank.chunks()) for rank in ranks]
        slowest = max(
            prefill_seconds(sum(chunk.new for chunk in chunks), max(chunk.before for chunk in chunks))
            for _, _, chunks in passes
        )
        begun = self._at
        self._at += slowest * self._stretch(begun) * self._noise.factor()
        for rank, running, chunks in passes:
            new = sum(chunk.new for chunk in chunks)
            rank.computed_tokens += new
            rank.cached_tokens += sum(chunk.cached for chunk in chunks)
            rank.prefill_seconds += self._at - begun
            line = self._writer.prefill(
                self._at,
                rank.number,
                requests=len(chunks),
                new_tokens=new,
                cached=sum(chunk.cached for chunk in chunks),
                usage=rank.usage,
                running=running,
                queued=len(rank.waiting) - len(chunks),
                pending=chunks[-1].left,
                throughput=new / (self._at - rank.last_prefill_line),
            )
            self._out.append((self._at, line))
            rank.last_prefill_line = self._at
            for chunk in chunks:
                if chunk.left == 0:
                    rank.waiting.popleft()
                    self._begin(rank, chunk.request)

    def _begin(self, rank: Rank, request: Request) -> None:
        """The prefill is complete: the first token is there and decoding starts."""
        if request.output == 0:
            request.output, request.first_token_at = 1, self._at
            if request.told is not None:
                request.told(self._at, None, 1)
                if request.finished:
                    return
            else:
                client = "127.0.0.1" if request.own else f"10.0.0.{20 + request.user % 200}"
                path = "POST /generate" if request.own else "POST /v1/chat/completions"
                self._out.append((self._at, self._writer.access(self._at, f"{client}:{request.port}", path)))
        # After a retraction the pass has gone over the output as well, which is counted as such from here on.
        request.prefilled = request.prompt_tokens
        rank.running.append(request)

    def _retract(self, rank: Rank) -> None:
        """Sends requests with the shortest output back until one more step of the others fits the pool."""
        gone: list[Request] = []
        before = rank.used_tokens
        while len(rank.running) > 1 and rank.used_tokens + BLOCK_SIZE * len(rank.running) > rank.pool_tokens:
            request = min(rank.running, key=lambda r: r.output)
            rank.running.remove(request)
            request.prefilled = 0
            gone.append(request)
        if not gone:
            rank.token_ratio = max(rank.token_ratio - 0.002, 0.1)
            return
        rank.retracted += len(gone)
        rank.waiting.extendleft(reversed(gone))
        wanted = sum(r.completion_tokens for r in rank.running)
        made = sum(r.output for r in rank.running) + 20 * len(rank.running)
        ratio = min(max(made / wanted, rank.token_ratio), 1.0)
        line = self._writer.retraction(
            self._at,
            rank.number,
            requests=len(gone),
            gained=before - rank.used_tokens,
            before=rank.token_ratio,
            after=ratio,
        )
        rank.token_ratio = ratio
        self._out.append((self._at, line))

    def _step(self, ranks: list[Rank]) -> None:
        """One step of all ranks with running requests; it lasts as long as the widest and longest rank needs."""
        for rank in ranks:
            self._retract(rank)
        batch = max(len(rank.running) for rank in ranks)
        contexts = [rank.used_tokens for rank in ranks]
        begun = self._at
        seconds = self._truth(batch, max(contexts)) * self._stretch(begun) * self._noise.factor()
        self._at += seconds
        for rank, context in zip(ranks, contexts, strict=True):
            accepted = [request.text.draw(self._accepts) for request in rank.running]
            if self._observe is not None:
                self._observe(
                    Step(
                        at=self._at,
                        rank=rank.number,
                        batch=len(rank.running),
                        total_context_tokens=context,
                        committed=sum(accepted),
                        seconds=seconds,
                        texts=tuple(request.text.name for request in rank.running),
                        accepted=tuple(accepted),
                    )
                )
            rank.count(begun, self._at, accepted)
            self._commit(rank, accepted)

    def _commit(self, rank: Rank, accepted: list[int]) -> None:
        """Adds the tokens of one step and prints the decode line when the window is full."""
        batch = rank.running
        for request, tokens in zip(batch, accepted, strict=True):
            request.step(tokens)
            if request.told is not None:
                request.told(self._at, tokens, request.output)
        rank.running = [request for request in batch if not request.finished]
        rank.generated += sum(accepted)
        rank.accepted += sum(accepted)
        rank.request_steps += len(batch)
        if not rank.verified:
            rank.verified = True
            drafts = [tokens - 1 for tokens in accepted]
            self._out.append((self._at, self._writer.first_verify(self._at, rank.number, drafts)))
        if rank.steps % self._interval == 0:
            self._report(rank, len(batch))
        for request in batch:
            if request.finished:
                self._out.append((self._at, self._writer.finished(self._at, request)))
                if request.told is None:
                    self._done(request)

    def _report(self, rank: Rank, running: int) -> None:
        if self._bonus_twice:
            # The old fault of overlap scheduling: the bonus token counts twice, here and in the rate below.
            rank.accepted += rank.request_steps
            rank.generated += rank.request_steps
        rank.throughput = rank.generated / (self._at - rank.last_decode_line)
        line = self._writer.decode(
            self._at,
            rank.number,
            running=running,
            tokens=rank.used_tokens,
            usage=rank.usage,
            accept_length=rank.accepted / rank.request_steps,
            throughput=rank.throughput,
            queued=len(rank.waiting),
        )
        self._out.append((self._at, line))
        rank.last_decode_line = self._at
        rank.generated = rank.accepted = rank.request_steps = 0
