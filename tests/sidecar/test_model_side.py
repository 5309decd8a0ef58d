"""A sidecar beside SGLang's port: moments are preferred, the model is in every export, learning survives."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ddwatch.core import wire
from ddwatch.core.snapshot import Snapshot
from tests.fakes.log_writer import LogWriter
from tests.fakes.sglang_port import SglangPort, sglang_port
from tests.sidecar.running import Sidecar, run, running

LINE = (
    "[2026-05-01 12:00:00] Decode batch, #running-req: 1, #token: {tokens}, token usage: 0.01, accept len: 2.90, "
    "accept rate: 0.06, cuda graph: True, gen throughput (token/s): {rate:.2f}, #queue-req: 0"
)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "this never came true"
        time.sleep(0.05)


def seen(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


def test_the_port_alone_is_enough() -> None:
    port = SglangPort()
    port.used_tokens = 3000
    with sglang_port(port), running("--sglang-url", port.url) as sidecar:
        until(lambda: len(port.asked) >= 2)
        port.run(30, 0.065)
        until(lambda: seen(sidecar).now.provenance == "moments")
        snapshot = seen(sidecar)
        assert snapshot.now.step_seconds == pytest.approx(0.065)
        assert snapshot.server.algorithm == "DDTREE"
        assert "api_key" not in snapshot.server.arguments
        assert snapshot.expected is not None
        assert snapshot.expected.profile == "kimi-k2.6-ddtree-8x-rtx-pro-6000"
        assert snapshot.ratio == pytest.approx(1.0, abs=0.1)
        page = sidecar.get("/metrics").text
        assert "ddwatch_expected_throughput_tokens_per_second" in page
        assert 'provenance="moments"' in page
        port.running = port.used_tokens = 0
        until(lambda: seen(sidecar).verdict.name == "idle")
        assert sidecar.end() == 0


def test_a_port_that_is_gone_costs_nothing_else(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "server.log") as log:
        port = SglangPort()
        with running("--log", str(log.path), "--sglang-url", "http://127.0.0.1:9", "--tz", "UTC") as sidecar:
            until(lambda: any(source.name == "log" for source in seen(sidecar).sources))
            log.line(*(LINE.format(tokens=5000 + i, rate=32.2) for i in range(5)))
            until(lambda: seen(sidecar).now.throughput is not None)
            until(lambda: {source.name for source in seen(sidecar).sources} >= {"loads", "metrics"})
            states = {source.name: source.state for source in seen(sidecar).sources}
            lost = next(source for source in seen(sidecar).sources if source.name == "loads")
            assert lost.detail == "nothing answers at http://127.0.0.1:9 (connection refused)"
            assert states == {"log": "up", "loads": "lost", "metrics": "lost"}
            assert seen(sidecar).verdict.name != "blind"
            assert sidecar.end() == 0
        assert port.asked == []


def test_sglang_wants_its_key_and_gets_it_from_a_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-sglang-1\n", encoding="utf-8")
    key.chmod(0o600)
    port = SglangPort(key="sk-sglang-1")
    with sglang_port(port):
        with running("--sglang-url", port.url) as sidecar:
            until(lambda: "--sglang-key-file" in seen(sidecar).verdict.sentence)
        with running("--sglang-url", port.url, "--sglang-key-file", str(key)) as sidecar:
            until(lambda: seen(sidecar).server.version == "0.5.23")
            assert "sk-sglang-1" not in "".join(sidecar.said)
        with running("--sglang-url", port.url, environment={"DDWATCH_SGLANG_KEY": "sk-sglang-1"}) as sidecar:
            until(lambda: seen(sidecar).server.version == "0.5.23")


def test_what_was_learned_survives_a_restart_of_the_sidecar(tmp_path: Path) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data")}
    port = SglangPort({"model_path": "some/Other-Model"})
    port.used_tokens = 3000
    with sglang_port(port), LogWriter(tmp_path / "server.log") as log:
        with running("--log", str(log.path), "--sglang-url", port.url, environment=home) as sidecar:
            until(lambda: seen(sidecar).server.model is not None)
            log.line(*(LINE.format(tokens=5000 + i, rate=32.2 + 0.1 * (i % 5)) for i in range(80)))
            until(lambda: seen(sidecar).model is not None)
            assert sidecar.end() == 0
        schemas = [json.loads(file.read_bytes())["schema"] for file in (tmp_path / "state").rglob("*.json")]
        assert [schema for schema in schemas if schema.startswith("ddwatch.learner/")] == ["ddwatch.learner/1"]
        assert list((tmp_path / "data").rglob("learned-*.toml"))
        log.line(*(LINE.format(tokens=5100 + i, rate=32.2) for i in range(3)))
        with running("--log", str(log.path), "--sglang-url", port.url, environment=home) as sidecar:
            until(lambda: seen(sidecar).server.model is not None)
            log.line(*(LINE.format(tokens=5200 + i, rate=32.2) for i in range(3)))
            until(lambda: seen(sidecar).model is not None)
            model = seen(sidecar).model
            assert model is not None
            assert model.learned


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--sglang-url", "ftp://x"), 64, "must be an address"),
        (("--sglang-url", "http://user:pw@x:1"), 64, "without a path or a password"),
        (("--log", "x", "--profile", "nowhere.toml"), 66, "no profile and no file"),
        (("--log", "x", "--sglang-key-file", "/nowhere"), 66, "key of SGLang file /nowhere cannot be read"),
    ],
)
def test_wrong_settings_are_one_sentence(words: tuple[str, ...], code: int, said: str) -> None:
    result = run(*words)
    assert result.returncode == code
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_port_that_closes_beside_a_silent_log_pages(tmp_path: Path) -> None:
    port = SglangPort()
    port.used_tokens = 3000
    port.run(30, 0.065)
    with ExitStack() as serving:
        serving.enter_context(sglang_port(port))
        with running("--sglang-url", port.url, "--no-record") as sidecar:
            until(lambda: seen(sidecar).server.version is not None)
            serving.close()
            closed = time.monotonic()
            until(lambda: seen(sidecar).verdict.name == "down")
            assert time.monotonic() - closed < 8
            assert seen(sidecar).verdict.severity == "page"
            assert sidecar.end() == 0
