"""Forward passes over real ZMQ sockets: found, heard, lost, refused, and heard again, without ever waiting."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from ddwatch_sidecar.sources.fpm import CUT_SECONDS, REFUSED_SECONDS, SILENT_SECONDS, FpmEndpoint, Heard

from ddwatch.core.engine import ForwardPass
from ddwatch.core.records import SourceFault, SourceUp
from tests.fakes.fpm_engine import Engine, Message, frames

DEADLINE = 20.0


class Listening:
    """An endpoint whose clock a test moves; sockets take the time they take."""

    def __init__(self, endpoint: FpmEndpoint) -> None:
        self.endpoint = endpoint
        self.now = 1000.0
        self.heard: list[Heard] = []

    async def once(self, seconds: float = 0.25) -> list[Heard]:
        self.now += seconds
        found = await self.endpoint.poll(self.now)
        self.heard += found
        return found

    async def until(self, met: Callable[[], bool], seconds: float = 0.01) -> None:
        """Polls until something holds; the endpoint's clock goes on by so much each time."""
        deadline = time.monotonic() + DEADLINE
        while not met():
            assert time.monotonic() < deadline, f"never: {self.heard[-3:]}"
            await self.once(seconds)
            await asyncio.sleep(0.01)

    @property
    def passes(self) -> list[ForwardPass]:
        return [one for one in self.heard if isinstance(one, ForwardPass)]

    @property
    def said(self) -> list[SourceFault | SourceUp]:
        return [one for one in self.heard if not isinstance(one, ForwardPass)]

    async def subscribed(self, engine: Engine) -> None:
        """Waits until an engine has a subscriber."""
        await self.until(engine.heard)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A name for sockets; their paths must be short."""
    path = Path(os.path.relpath(tmp_path / "fpm"))
    yield path if len(str(path)) < len(str(tmp_path / "fpm")) else tmp_path / "fpm"


def during(where: Path | str, story: Callable[[Listening], Awaitable[Any]], **options: int) -> Any:
    async def run() -> Any:
        endpoint = FpmEndpoint(str(where), **options)
        try:
            return await story(Listening(endpoint))
        finally:
            await endpoint.close()

    return asyncio.run(run())


def test_passes_and_heartbeats_of_an_engine_are_heard(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base) as engine:
            await listening.subscribed(engine)
            engine.step(0.021, requests=2, context=2048, queued=3)
            engine.step(0.3, requests=1, context=900, prefill=(1, 700))
            engine.heartbeat()
            await listening.until(lambda: len(listening.passes) == 3)
        first, second, third = listening.passes
        assert (first.dp_rank, first.counter, first.seconds, first.queued) == (0, 0, 0.021, 3)
        assert (first.decode_requests, first.decode_context_tokens) == (2, 2048)
        assert (second.prefill_requests, second.prefill_tokens) == (1, 700)
        assert third.heartbeat
        assert first.at <= second.at <= third.at
        assert [type(one) for one in listening.said] == [SourceUp]

    during(base, story)


def test_every_rank_has_its_socket_and_a_late_one_joins(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base, 0) as first:
            await listening.subscribed(first)
            with Engine(base, 1) as second:
                await listening.subscribed(second)
                for _ in range(5):
                    first.step()
                    second.step()
                await listening.until(lambda: len(listening.passes) == 10)
        assert sorted({one.dp_rank for one in listening.passes}) == [0, 1]

    during(base, story)


def test_without_a_socket_it_waits_and_says_how_to_get_one(base: Path) -> None:
    async def story(listening: Listening) -> None:
        (fault,) = await listening.once()
        assert isinstance(fault, SourceFault)
        assert fault.waiting
        assert "--forward-pass-metrics-ipc-name" in fault.reason
        assert await listening.once() == []
        with Engine(base) as engine:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.passes))
        assert isinstance(listening.said[-1], SourceUp)

    during(base, story)


def test_an_engine_that_begins_anew_is_heard_again(base: Path) -> None:
    async def story(listening: Listening) -> None:
        for life in (1, 2):
            with Engine(base) as engine:
                await listening.subscribed(engine)
                engine.step()
                await listening.until(lambda life=life: len(listening.passes) == life)  # type: ignore[misc]
        assert [one.counter for one in listening.passes] == [0, 0]

    during(base, story)


def test_an_unknown_version_is_refused_by_its_number_and_tried_again_later(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base, version=7) as engine:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.said))
            (fault,) = listening.said
            assert isinstance(fault, SourceFault)
            assert fault.reason == "FPM version 7 is not known to this ddwatch (knows 1)"
            assert not fault.waiting
            for _ in range(20):
                engine.step()
                assert await listening.once() == []
        with Engine(base) as engine:
            listening.now += REFUSED_SECONDS
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.passes))
        assert isinstance(listening.said[-1], SourceUp)

    during(base, story)


def test_one_refused_rank_does_not_blank_the_other(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base, 0) as good, Engine(base, 1, version=2) as bad:
            await listening.subscribed(good)
            await listening.subscribed(bad)
            bad.step()
            good.step()
            await listening.until(lambda: any("version 2" in getattr(one, "detail", "") for one in listening.said))
            before = len(listening.passes)
            good.step()
            await listening.until(lambda: len(listening.passes) == before + 1)
        assert {one.dp_rank for one in listening.passes} == {0}
        assert not any(isinstance(one, SourceFault) for one in listening.said)

    during(base, story)


def test_an_engine_that_dies_is_told_within_seconds_and_its_successor_is_heard(base: Path) -> None:
    """A killed engine leaves its socket behind, which nobody serves."""

    async def story(listening: Listening) -> None:
        with Engine(base) as engine:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.passes))
        Path(f"{base}.0").unlink(missing_ok=True)
        left = socket.socket(socket.AF_UNIX)
        left.bind(f"{base}.0")
        left.close()
        died = listening.now
        await listening.until(lambda: isinstance(listening.said[-1], SourceFault), 0.05)
        fault = listening.said[-1]
        assert isinstance(fault, SourceFault)
        assert "nobody serves" in fault.reason
        assert listening.now - died < SILENT_SECONDS
        with Engine(base) as engine:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: isinstance(listening.said[-1], SourceUp))

    during(base, story)


def test_silence_is_a_fault_only_after_a_while(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base) as engine:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.passes))
            assert await listening.once(SILENT_SECONDS - 1) == []
            (fault,) = await listening.once(2.0)
            assert isinstance(fault, SourceFault)
            assert "DP0" in fault.reason
            assert "fallen silent for 30 s" in fault.reason
            engine.heartbeat()
            await listening.until(lambda: isinstance(listening.said[-1], SourceUp))

    during(base, story)


def test_garbage_among_passes_is_passed_over_and_garbage_alone_is_told(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base) as engine:
            await listening.subscribed(engine)
            for garbage in ([b"hello"], [b"", b"12345678", b"\xc1"], frames(Message(wall_time=-1.0), 1)):
                engine.say(garbage)
                engine.step()
            await listening.until(lambda: len(listening.passes) == 3)
            assert [type(one) for one in listening.said] == [SourceUp]

            def alone() -> bool:
                engine.say([b"hello"])
                return isinstance(listening.said[-1], SourceFault)

            await listening.until(alone, 1.0)
            fault = listening.said[-1]
            assert isinstance(fault, SourceFault)
            assert "is it SGLang's FPM socket?" in fault.reason
            engine.step()
            await listening.until(lambda: isinstance(listening.said[-1], SourceUp))

    during(base, story)


def test_a_subscriber_that_sleeps_loses_passes_and_nobody_waits(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base) as engine:
            await listening.subscribed(engine)
            for _ in range(20_000):
                engine.step()
            await listening.until(lambda: bool(listening.passes) and listening.passes[-1].counter > 0)

            def newer() -> bool:
                engine.step()
                return listening.passes[-1].counter >= 20_000

            await listening.until(newer)
        assert len(listening.passes) < 20_000
        counters = [one.counter for one in listening.passes]
        assert counters == sorted(set(counters))

    during(base, story, high_water=10)


def test_passes_taken_at_once_are_spread_over_the_time_they_took(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base) as engine:
            await listening.subscribed(engine)
            engine.heartbeat()
            await listening.until(lambda: bool(listening.passes))
            for _ in range(4):
                engine.step(0.02)
            await asyncio.sleep(0)
            before = listening.now
            await listening.until(lambda: len(listening.passes) == 5)
        times = [one.at for one in listening.passes[1:]]
        assert times == sorted(times)
        assert before <= times[0]
        assert times[-1] <= listening.now

    during(base, story)


def test_a_single_rank_over_tcp() -> None:
    with Engine("tcp://127.0.0.1:0") as engine:

        async def story(listening: Listening) -> None:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.passes))

        during(engine.endpoint, story)


def test_the_name_of_one_ranks_own_socket_is_understood(base: Path) -> None:
    async def story(listening: Listening) -> None:
        with Engine(base, 3) as engine:
            await listening.subscribed(engine)
            engine.step()
            await listening.until(lambda: bool(listening.passes))
        assert listening.passes[0].dp_rank == 3

    during(f"ipc://{base}.3", story)


def test_a_file_that_is_no_socket_is_not_connected_to(base: Path) -> None:
    Path(f"{base}.0").write_text("no socket")

    async def story(listening: Listening) -> None:
        (fault,) = await listening.once()
        assert isinstance(fault, SourceFault)
        assert "no socket at" in fault.reason

    during(base, story)


def test_a_socket_that_nobody_serves_is_silent(base: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{base}.0")
    left.close()

    async def story(listening: Listening) -> None:
        assert await listening.once() == []
        (fault,) = await listening.once(CUT_SECONDS + 1)
        assert isinstance(fault, SourceFault)
        assert "nobody serves" in fault.reason

    during(base, story)


def test_an_address_that_zmq_does_not_take_is_one_sentence() -> None:
    async def story(listening: Listening) -> None:
        (fault,) = await listening.once()
        assert isinstance(fault, SourceFault)
        assert "cannot be connected to" in fault.reason

    during("tcp://127.0.0.1:notaport", story)


def test_it_leaves_nothing_open(base: Path) -> None:
    async def story(listening: Listening) -> zmq.Context[Any]:
        with Engine(base) as engine:
            await listening.subscribed(engine)
        context = listening.endpoint._context
        assert context is not None
        return context

    assert during(base, story).closed


def test_nothing_of_zmq_is_loaded_before_it_is_asked_for() -> None:
    program = (
        "import sys, ddwatch_sidecar.cli, ddwatch_sidecar.run, ddwatch_sidecar.config; print('zmq' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
