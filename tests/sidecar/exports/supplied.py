"""A supply of snapshots, history and counts that a test publishes by hand, and a real server over it on port 0."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from ddwatch_sidecar.exports.contract import Supply
from ddwatch_sidecar.exports.guard import Guard
from ddwatch_sidecar.exports.http import HttpServer
from ddwatch_sidecar.exports.listen import Address, open_listener, resolve, url_of
from ddwatch_sidecar.metering import OwnFigures

from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import GpuView
from ddwatch.core.history import Ring
from ddwatch.core.snapshot import (
    Expected,
    FactorView,
    History,
    Now,
    Point,
    RankView,
    Sample,
    SelfView,
    ServerView,
    Snapshot,
    SourceView,
    Verdict,
    Window,
)
from ddwatch.core.tallies import (
    ACCEPT_BOUNDS,
    LATENCY_BOUNDS,
    Count,
    HistogramCount,
    SeriesKey,
    Tallies,
)
from tests.fakes.clock import START


def snapshot(seq: int = 0, at: float = START, **changes: Any) -> Snapshot:
    """A snapshot of a sidecar that has seen nothing yet."""
    verdict = Verdict(name="blind", severity="unknown", since=START, sentence="nothing has been read yet")
    return Snapshot(**{"seq": seq, "at": at, "started_at": START, "verdict": verdict, **changes})


def rank(dp_rank: int | None, batch: int = 2, *, live: bool = True, queued: int | None = 1) -> RankView:
    """One rank in full decode at 1,000 tokens of context per request."""
    sample = Sample(
        at=START,
        dp_rank=dp_rank,
        batch=batch,
        total_context_tokens=1000 * batch,
        context_tokens=1000.0,
        accept_length=2.9,
        throughput=60.0,
        step_seconds=0.0966,
    )
    return RankView(sample=sample, queued=queued, live=live)


def full_snapshot(seq: int = 3) -> Snapshot:
    """A snapshot in which every field that an export reads is known."""
    return snapshot(
        seq,
        at=START + 10,
        ddwatch_version="0.1.0",
        server=ServerView(
            state="ready",
            model="a/model",
            algorithm="DDTREE",
            version="0.5.23",
            tp=8,
            dp=2,
            tree_budget=32,
            block_size=16,
        ),
        now=Now(at=START + 10, provenance="log", throughput=120.0, accept_length=2.9, batch=4),
        window=Window(samples=4, clean=3, clean_ratio=0.75, flag_counts={"first": 1}),
        ranks=(rank(0), rank(1, 3), rank(2, live=False)),
        verdict=Verdict(name="as-expected", severity="ok", since=START, sentence="inside the band"),
        expected=Expected(profile="p", tokens_per_second=130.0, low=100.0, high=150.0, step_seconds=0.09),
        ratio=0.92,
        factors=FactorView(accept_length=0.39, context=0.55, batch=1.0, unexplained=0.97),
        sources=(
            SourceView(name="log", state="up", last_at=START + 8, lines=40, unread=1),
            SourceView(name="stdin", state="waiting"),
        ),
        watch=SelfView(cpu_ratio=0.004, resident_bytes=50_000_000),
        gpus=(gpu(0), gpu(3, outlier=True), GpuView(card=GpuCard(index=5, lost="GPU is lost"), at=START, state="lost")),
    )


def gpu(index: int, *, outlier: bool = False) -> GpuView:
    """One card that reports everything."""
    card = GpuCard(
        index=index,
        uuid=f"GPU-{index}",
        pci_bus=f"0000:{index}1:00.0",
        name="NVIDIA Card",
        utilization_ratio=0.97,
        memory_utilization_ratio=0.6,
        sm_clock_hertz=1.2e9 if outlier else 2.37e9,
        memory_clock_hertz=12.481e9,
        power_watts=410.5,
        temperature_celsius=61.0,
        memory_used_bytes=94_489_280_512,
        performance_state=0,
        reasons=0x44 if outlier else 0,
        pcie_generation=5,
        pcie_width=16,
        memory_total_bytes=103_079_215_104,
        power_limit_watts=600.0,
        pcie_generation_max=5,
        pcie_width_max=16,
        pcie_replays=2,
        reason_seconds={"sw_power_cap": 5.0, "hw_thermal_slowdown": 1.5},
        ecc_errors={"corrected": 3, "uncorrected": 0},
        remap_pending=False,
        nvlinks=18,
        nvlinks_active=18,
        nvlink_errors={"replay": 1},
    )
    return GpuView(card=card, at=START, state="ok", loaded=True, outlier=outlier, xids={"79": 1} if outlier else {})


def full_tallies() -> Tallies:
    """Counts of every kind."""
    accept, steps = HistogramCount(ACCEPT_BOUNDS), HistogramCount(LATENCY_BOUNDS)
    for value in (1.0, 2.9, 2.9, 40.0):
        accept.observe(value)
    for value in (0.02, 0.1, 5.0):
        steps.observe(value)
    keys = [SeriesKey(dp_rank=r, span="step", provenance="log", resolution="window") for r in (0, 1)]
    return Tallies(
        accept_length={key: accept.frozen() for key in keys},
        step_seconds={keys[0]: steps.frozen()},
        steps={0: 400, 1: 440},
        tokens={0: 1160.0},
        lines_read={"log": 40},
        lines_unread={"log": 1},
        rotations={"log": 2},
        restarts=1,
        alerts={"slow-step": 1},
    )


@dataclass
class HandSupply:
    """Publishes what a test tells it to."""

    shown: Snapshot = field(default_factory=snapshot)
    counts: Tallies = field(default_factory=lambda: Count().frozen(0))
    ring: Ring = field(default_factory=Ring)
    version: int = 0
    histories: int = 0
    """How often the past was asked for."""

    def __post_init__(self) -> None:
        self._newer = asyncio.Event()

    def latest(self) -> Snapshot:
        return self.shown

    def history(self, since: int) -> History:
        self.histories += 1
        return self.ring.since(since)

    async def after(self, version: int) -> int:
        while self.version <= version:
            await self._newer.wait()
        return self.version

    def point(self, at: float = START) -> None:
        """Adds a point that is not published yet."""
        self.ring.add_point(Point(seq=self.ring.next_seq(), at=at, throughput=100.0, batch=2))

    def publish(self, shown: Snapshot | None = None) -> None:
        """Makes a snapshot of all there is the newest one."""
        self.shown = snapshot(self.ring.seq) if shown is None else shown
        self.version += 1
        newer, self._newer = self._newer, asyncio.Event()
        newer.set()

    def supply(self) -> Supply:
        """What a server is handed."""
        figures = OwnFigures(cpu_seconds=1.5, resident_bytes=50_000_000, started_at=START, open_files=12)
        return Supply(self.latest, self.history, lambda: self.counts, lambda: figures, self)


@asynccontextmanager
async def served(hand: HandSupply, guard: Guard | None = None) -> AsyncIterator[str]:
    """The URL of a real server over the supply."""
    address = Address("127.0.0.1", 0)
    listener = open_listener(address, resolve(address))
    server = HttpServer(hand.supply(), Guard() if guard is None else guard)
    await server.start(listener)
    try:
        yield url_of(listener)
    finally:
        await server.stop("the test is over")


def client(url: str, **options: Any) -> httpx.AsyncClient:
    """A client with the base URL of a server; it loads no certificates, for that takes longer than a whole test."""
    return httpx.AsyncClient(base_url=url, timeout=10, trust_env=False, verify=False, **options)


class Events:
    """Reads server-sent events from an open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> dict[str, Any]:
        """The next event: its fields, with `data` decoded; a comment is {"comment": text}."""
        event: dict[str, Any] = {}
        async for line in self._lines:
            if line == "":
                if event:
                    return event
                continue
            name, _, value = line.partition(": ") if not line.startswith(":") else ("comment", "", line[1:].strip())
            event[name] = json.loads(value) if name == "data" else value
        return event
