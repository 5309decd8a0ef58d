"""A real SGLang's own page and its forward passes, read beside its log and moments while it works and rests."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ddwatch.core import wire
from ddwatch.core.snapshot import History, Snapshot
from tests.e2e.real_sglang.server import Background, serving
from tests.e2e.real_sglang.test_restart import SIDECAR, within
from tests.sidecar.running import Sidecar, running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]

PASSES = ("--enable-forward-pass-metrics", "--forward-pass-metrics-ipc-name")
STEPS = 600
"""Verify steps that are watched."""


class Watched(NamedTuple):
    """What a sidecar said of one load, and what the observer inside SGLang saw of it."""

    busy: Snapshot
    idle: Snapshot
    history: History
    page: str
    steps: int
    """Verify steps while it was watched."""
    step_seconds: float
    """Mean time of contiguous steps, by SGLang's own moments."""


def seen(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


def summed(page: str, part: str, **labels: str) -> float:
    """A figure of ddwatch's histogram of step times, over all series with these labels."""
    found = 0.0
    for row in re.findall(rf"^ddwatch_verify_latency_seconds_{part}{{(.*)}} (\S+)$", page, re.MULTILINE):
        if all(f'{name}="{value}"' in row[0] for name, value in labels.items()):
            found += float(row[1])
    return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("told")
    name = f"ipc://{folder}/fpm"
    with serving(folder, *PASSES, name) as server:
        server.load(1, users=2, requests=1, tokens=48)
        words = ("--log", str(server.log), "--sglang-url", server.url, "--fpm", name, *SIDECAR)
        with running(*words) as sidecar:
            within(60, lambda: seen(sidecar).forward is not None, "what the engine publishes at rest")
            before, (moments,) = len(server.verified()), server.moments()

            def told() -> Snapshot | None:
                snapshot = seen(sidecar)
                rate = snapshot.engine.decode_tokens_per_second if snapshot.engine is not None else None
                wait = snapshot.forward.wait_seconds if snapshot.forward is not None else None
                return snapshot if rate is not None and wait is not None else None

            with Background(server, 7):
                busy = within(120, told, "a rate of the page, and passes beside the step")
                within(180, lambda: len(server.verified()) - before > STEPS, "enough steps")
            idle = within(
                60,
                lambda: one if (one := seen(sidecar)).forward and one.forward.resting else None,
                "the engine at rest",
            )
            steps, (after,) = len(server.verified()) - before, server.moments()
            history = wire.decode_history(sidecar.get("/v1/history").content)[0]
            page = sidecar.get("/metrics").text
    assert isinstance(busy, Snapshot) and isinstance(idle, Snapshot)
    yield Watched(busy, idle, history, page, steps, (after[2] - moments[2]) / (after[0] - moments[0]) / 1e6)


def test_every_verify_step_is_one_forward_pass(watched: Watched) -> None:
    passes = summed(watched.page, "count", span="forward", provenance="fpm", resolution="step")

    # A pass that came while the rate had not settled is counted as a step and in no histogram.
    assert 0.5 * watched.steps < passes <= watched.steps + 60
    assert watched.idle.forward is not None
    assert watched.idle.forward.lost == 0


def test_the_forward_pass_is_the_larger_part_of_the_step_and_no_more(watched: Watched) -> None:
    """Drafts and verification run one after another on this machine, and the scheduler takes the rest."""
    count = summed(watched.page, "count", span="forward")
    forward = summed(watched.page, "sum", span="forward") / count

    assert 0.3 * watched.step_seconds < forward < 1.3 * watched.step_seconds


def test_the_page_tells_what_runs_and_how_fast(watched: Watched) -> None:
    engine = watched.busy.engine
    assert engine is not None
    # A user may just be between two questions.
    assert engine.ranks == 1 and engine.running in (1, 2) and engine.graph_ratio in (0.0, None)
    assert engine.total_context_tokens is not None and 20 < engine.total_context_tokens < 2000
    rates = [point.throughput for point in watched.history.points if point.throughput is not None]
    assert engine.decode_tokens_per_second is not None and engine.error is not None
    # Time between steps counts in it, and not in the rate of the moments.
    assert 0.3 * min(rates) < engine.decode_tokens_per_second < 1.5 * max(rates)


def test_they_explain_and_are_never_judged(watched: Watched) -> None:
    assert watched.busy.now.span == "step"
    assert watched.busy.now.provenance in ("log", "moments")
    assert {source.name: source.state for source in watched.busy.sources} == {
        "log": "up",
        "loads": "up",
        "metrics": "up",
        "fpm": "up",
    }
    assert summed(watched.page, "count", span="step", provenance="fpm") == 0
    assert watched.idle.verdict.name == "idle"
    told = [event.text for event in watched.history.events if event.kind in ("source", "gap")]
    assert [text for text in told if "/metrics" in text or "forward pass" in text] == []
