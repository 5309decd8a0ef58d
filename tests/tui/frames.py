"""Realistic frames for looking at the screen: each tells one story with honest noise, all of them seeded."""

import math
import random
from collections.abc import Sequence

from msgspec.structs import replace

from ddwatch.core.snapshot import (
    Event,
    Frame,
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

NOON = 1_777_636_800.0
"""2026-05-01 12:00:00 UTC: the moment that every frame is taken at."""

KIMI = ServerView(
    state="ready",
    model="moonshotai/Kimi-K2.6",
    algorithm="DDTREE",
    tree_budget=32,
    block_size=16,
    tp=8,
    version="0.5.18",
    address="gpu01:30000",
    started_at=NOON - 4200.0,
    ready_at=NOON - 3600.0,
)
LEARNING = Verdict(
    name="learning",
    severity="unknown",
    since=NOON - 600,
    sentence="no model of this service yet: 92 % of the samples of the last 5 min are clean",
)
LOG = SourceView(name="sglang.log", state="up", last_at=NOON - 0.4, lines=12_345, detail="/var/log/sglang.log")


def founding_points(seconds: int = 300, *, seed: int = 1) -> list[Point]:
    """Context grows from 0.3k to 5.9k on reasoning text; the rate falls from 138 to 32 as it should."""
    rng = random.Random(seed)
    points = []
    for second in range(seconds):
        share = second / seconds
        context = 300 + 5600 * share
        step = 0.029 + 0.0672 * (context / 5900) ** 1.4
        accept = 7.4 - 4.5 * min(1.0, share * 1.8) ** 0.7 + rng.gauss(0, 0.12)
        noisy = step * math.exp(rng.gauss(0, 0.03))
        rate = accept / noisy
        rate = min(rate, 138 + rng.gauss(0, 2))
        tainted = second % 61 == 0
        points.append(
            Point(
                seq=second + 1,
                at=NOON - seconds + second,
                contaminated=tainted,
                throughput=rate * (0.55 if tainted else 1.0),
                accept_length=accept,
                step_seconds=noisy * (1.8 if tainted else 1.0),
                batch=1,
                queued=0,
                context_tokens=context,
                total_context_tokens=int(context),
            )
        )
    return points


def events(*texts: tuple[float, str, str, str]) -> tuple[Event, ...]:
    """Events as (seconds before noon, kind, severity, text)."""
    return tuple(
        Event(seq=10_000 + place, at=NOON - before, kind=kind, severity=severity, text=text)  # type: ignore[arg-type]
        for place, (before, kind, severity, text) in enumerate(texts)
    )


STORY = events(
    (4210.0, "restart", "notice", "SIGTERM; the server left on request"),
    (4200.0, "start", "ok", "0.5.18 with +tool_call_parser +reasoning_parser"),
    (3600.0, "ready", "ok", "after 10 min"),
    (214.0, "retract", "notice", "KV pool full: 2 requests sent back to the queue"),
    (120.0, "rotation", "ok", "sglang.log was rotated and followed without loss"),
)


def frame_of(points: Sequence[Point], **changes: object) -> Frame:
    """A frame whose present is the newest point; snapshot fields can be replaced by name."""
    newest = next((point for point in reversed(points) if point.state == "data"), None)
    now = Now()
    if newest is not None:
        now = Now(
            at=NOON - 0.4,
            provenance="log",
            throughput=newest.throughput,
            accept_length=newest.accept_length,
            step_seconds=newest.step_seconds,
            batch=newest.batch,
            queued=newest.queued,
            context_tokens=newest.context_tokens,
            total_context_tokens=newest.total_context_tokens,
            token_usage=0.03,
        )
    snapshot = Snapshot(
        seq=20_000,
        at=NOON,
        started_at=NOON - 900,
        ddwatch_version="0.1.0",
        server=KIMI,
        now=now,
        window=Window(samples=300, clean=276, clean_ratio=0.92),
        verdict=LEARNING,
        sources=(LOG,),
        watch=SelfView(cpu_ratio=0.004, resident_bytes=52_000_000),
    )
    story = changes.pop("events", STORY)
    return Frame(
        snapshot=replace(snapshot, **changes),
        history=History(points=tuple(points), events=story),  # type: ignore[arg-type]
    )


def founding() -> Frame:
    """Today's product: no model yet."""
    return frame_of(founding_points())


def dp8() -> Frame:
    """Eight data-parallel ranks with eleven requests."""
    rng = random.Random(3)
    points = [
        replace(
            point,
            throughput=620 + rng.gauss(0, 14) + 40 * math.sin(point.at / 40),
            accept_length=5.2 + rng.gauss(0, 0.1),
            step_seconds=0.058 + rng.gauss(0, 0.001),
            batch=11 + (int(point.at) // 50) % 3,
            queued=2,
            context_tokens=8200 + 900 * math.sin(point.at / 70),
            total_context_tokens=98_000,
        )
        for point in founding_points()
    ]
    ranks = tuple(
        RankView(
            sample=Sample(
                at=NOON - 0.3 - rank / 10,
                dp_rank=rank,
                batch=1 + rank % 3,
                context_tokens=6200.0 + 700 * rank,
                total_context_tokens=(6200 + 700 * rank) * (1 + rank % 3),
                accept_length=4.8 + rank / 10,
                throughput=70.0 + rank * 3,
                step_seconds=0.055 + rank / 1000,
                flags=("prefill",) if rank == 5 else (),
            ),
            queued=rank % 2,
            token_usage=0.02 + rank / 50,
            live=rank != 6,
        )
        for rank in range(8)
    )
    server = replace(KIMI, dp=8, model="deepseek-ai/DeepSeek-V3.2")
    return frame_of(points, ranks=ranks, server=server, simulated=True)


def idle() -> Frame:
    """Nothing to do for the last three minutes, after work and a gap."""
    points = [point for point in founding_points() if point.at < NOON - 190 and not NOON - 250 < point.at < NOON - 235]
    seq = points[-1].seq
    points.append(Point(seq=seq + 1, at=NOON - 190, state="idle"))
    points.append(Point(seq=seq + 2, at=NOON - 250, state="gap"))
    points.sort(key=lambda point: point.at)
    verdict = Verdict(name="idle", severity="ok", since=NOON - 190, sentence="nothing runs and nothing waits for 3 min")
    return frame_of(
        points,
        verdict=verdict,
        now=Now(at=NOON - 190, provenance="log", batch=0, queued=0, token_usage=0.0),
        events=(*STORY, *events((250.0, "gap", "notice", "sglang.log was truncated: lines may be lost"))),
    )


def warming() -> Frame:
    """A server that is loading its weights."""
    return frame_of(
        [],
        verdict=Verdict(
            name="warming",
            severity="unknown",
            since=NOON - 95,
            sentence="the server started 95 s ago and loads its weights",
        ),
        server=replace(KIMI, state="starting", ready_at=None, started_at=NOON - 95),
        events=events((95.0, "start", "ok", "0.5.18, DDTREE budget 32")),
    )


def source_lost() -> Frame:
    """The log has been deleted."""
    points = [point for point in founding_points() if point.at < NOON - 40]
    return frame_of(
        points,
        now=replace(frame_of(points).snapshot.now, at=NOON - 40),
        verdict=Verdict(
            name="blind",
            severity="unknown",
            since=NOON - 40,
            sentence="the log is gone: /var/log/sglang.log was deleted",
        ),
        sources=(replace(LOG, state="lost", last_at=NOON - 40, detail="deleted; waiting for it to come back"),),
        events=(*STORY, *events((40.0, "source", "notice", "sglang.log was deleted"))),
    )


def crash() -> Frame:
    """The scheduler died half a minute ago."""
    points = [point for point in founding_points() if point.at < NOON - 30]
    return frame_of(
        points,
        verdict=Verdict(
            name="down",
            severity="page",
            since=NOON - 30,
            sentence="the engine died: RuntimeError: CUDA error: an illegal memory access was encountered",
            next_steps=("look at the log above 11:59:30", "dmesg | grep Xid"),
        ),
        server=replace(KIMI, state="crashed"),
        events=(*STORY, *events((30.0, "crash", "page", "RuntimeError: CUDA error: an illegal memory access"))),
    )
