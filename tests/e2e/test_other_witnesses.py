"""A real sidecar hears an engine's own mouths beside its log: its page over HTTP, its passes over ZMQ."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ddwatch.core import wire
from ddwatch.core.snapshot import Snapshot, SourceView
from tests.e2e.waiting import until
from tests.fakes.fpm_engine import Engine
from tests.fakes.sglang_port import SglangPort, sglang_port
from tests.sidecar.running import Sidecar, running


def seen(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


def source(sidecar: Sidecar, name: str) -> SourceView | None:
    return next((one for one in seen(sidecar).sources if one.name == name), None)


def state(sidecar: Sidecar, name: str) -> str | None:
    one = source(sidecar, name)
    return None if one is None else one.state


@contextmanager
def stepping(engine: Engine, seconds: float = 0.015, every: float = 0.02) -> Iterator[None]:
    """An engine that publishes one pass after another until the block ends."""
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(every):
            engine.step(seconds, requests=2, context=3000, queued=1)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


def test_the_page_and_the_passes_of_an_engine_stand_beside_its_load(tmp_path: Path) -> None:
    base = tmp_path / "fpm"
    port = SglangPort()
    port.used_tokens, port.metrics = 3000, True
    with (
        sglang_port(port),
        Engine(base) as engine,
        stepping(engine),
        running("--sglang-url", port.url, "--fpm", f"ipc://{base}", "--no-nvml") as sidecar,
    ):
        until(lambda: seen(sidecar).forward is not None, "a pass to be shown")
        until(lambda: seen(sidecar).engine is not None, "the page to be shown")
        until(lambda: len(port.asked) >= 2, "a first reading of its load")
        port.run(30, 0.020, batch=2)
        until(lambda: seen(sidecar).now.provenance == "moments", "moments")
        snapshot = seen(sidecar)
        assert snapshot.now.span == "step"
        assert snapshot.forward is not None
        assert snapshot.forward.forward_seconds == pytest.approx(0.015)
        assert (snapshot.forward.batch, snapshot.forward.total_context_tokens) == (2, 3000)
        page = sidecar.get("/metrics").text
        spans = {
            (sample.labels["span"], sample.labels["provenance"], sample.labels["resolution"])
            for family in text_string_to_metric_families(page)
            if family.name == "ddwatch_verify_latency_seconds"
            for sample in family.samples
        }
        assert ("forward", "fpm", "step") in spans
        assert ("step", "moments", "window") in spans
        assert 'ddwatch_source_up{source="fpm"} 1.0' in page
        assert 'ddwatch_source_up{source="metrics"} 1.0' in page
        assert sidecar.end() == 0


def test_what_is_not_there_is_waited_for_and_costs_nothing_else(tmp_path: Path) -> None:
    base = tmp_path / "fpm"
    port = SglangPort()
    with sglang_port(port), running("--sglang-url", port.url, "--fpm", str(base), "--no-nvml") as sidecar:
        until(lambda: state(sidecar, "fpm") == "waiting", "the sockets to be waited for")
        until(lambda: state(sidecar, "metrics") == "waiting", "the page to be waited for")
        until(lambda: state(sidecar, "loads") == "up", "its load")
        page, passes = source(sidecar, "metrics"), source(sidecar, "fpm")
        assert page is not None
        assert "without --enable-metrics" in page.detail
        assert passes is not None
        assert "--enable-forward-pass-metrics" in passes.detail
        assert not page.witness
        assert not passes.witness
        with Engine(base) as engine, stepping(engine):
            until(lambda: state(sidecar, "fpm") == "up", "the passes of an engine that came later")
        assert state(sidecar, "loads") == "up"


def test_an_unknown_version_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    base = tmp_path / "fpm"
    port = SglangPort()
    with (
        sglang_port(port),
        Engine(base, version=2) as engine,
        stepping(engine),
        running("--sglang-url", port.url, "--fpm", str(base), "--no-nvml") as sidecar,
    ):
        until(lambda: state(sidecar, "fpm") == "lost", "the refusal")
        one = source(sidecar, "fpm")
        assert one is not None
        assert one.detail == "FPM version 2 is not known to this ddwatch (knows 1)"
        until(lambda: state(sidecar, "loads") == "up", "its load")
        assert seen(sidecar).forward is None
        assert sidecar.end() == 0


def test_nobody_asks_for_the_page_who_was_told_not_to(tmp_path: Path) -> None:
    port = SglangPort()
    port.metrics = True
    with sglang_port(port), running("--sglang-url", port.url, "--no-metrics", "--no-nvml") as sidecar:
        until(lambda: len(port.asked) >= 4, "several readings of its load")
        assert source(sidecar, "metrics") is None
    assert "/metrics" not in port.asked
