"""A real SGLang is found by its real processes: port, log, version, forward passes with a name nobody gave."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddwatch.core import wire
from ddwatch.discovery.find import find
from ddwatch.discovery.machine import Machine
from tests.e2e.real_sglang.server import Background, serving
from tests.e2e.real_sglang.test_restart import SIDECAR, within
from tests.fakes.standing_in import proc_of
from tests.sidecar.running import running

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(600)]


def test_a_real_server_is_found_and_watched_without_a_word(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("discovery")
    records = folder / "records"
    more = ("--enable-forward-pass-metrics", "--export-metrics-to-file", "--export-metrics-to-file-dir", str(records))
    with serving(folder, *more) as server:
        family = [server.process.pid, *(one.pid for one in psutil.Process(server.process.pid).children(recursive=True))]
        proc = proc_of(folder / "proc", *family)
        (found,) = find(Machine(proc)).servers
        server.load(1, users=1, requests=1, tokens=32)
        done = subprocess.run(
            [sys.executable, "-m", "ddwatch.cli", "--once"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "DDWATCH_PROC": str(proc), "DDWATCH_LISTEN": "127.0.0.1:9"},
            check=False,
        )
        monkeypatch.setenv("DDWATCH_PROC", str(proc))
        with running(*SIDECAR) as sidecar, Background(server, 1, users=1):

            def up() -> set[str]:
                sources = wire.decode_snapshot(sidecar.get("/v1/snapshot").content).sources
                return {source.name for source in sources if source.state == "up"}

            within(60, lambda: up() >= {"log", "loads", "metrics", "fpm", "requests"}, "every source that was found")
    assert (found.pid, found.url, found.listening) == (server.process.pid, server.url, True)
    assert found.log.source == str(server.log)
    assert (found.name, found.version, found.schedulers) == ("tiny", "0.5.23", 1)
    assert (found.metrics, found.log_requests, found.notes) == (True, False, ())
    assert found.forward_passes is not None
    assert Path(found.forward_passes.removeprefix("ipc://")).parent == folder / "tmp"
    assert found.request_records == str(records)
    assert found.arguments["speculative_algorithm"] == "STANDALONE"
    assert done.returncode in (0, 1, 3), done.stderr
    assert "throughput: " in done.stdout
    assert f"found tiny (pid {server.process.pid})" in done.stderr


def test_two_ranks_are_one_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("discovery-ranks")
    with serving(folder, "--enable-forward-pass-metrics", ranks=2) as server:
        family = [server.process.pid, *(one.pid for one in psutil.Process(server.process.pid).children(recursive=True))]
        (found,) = find(Machine(proc_of(folder / "proc", *family))).servers
    assert (found.pid, found.url, found.schedulers, found.arguments["dp_size"]) == (
        server.process.pid,
        server.url,
        2,
        2,
    )
