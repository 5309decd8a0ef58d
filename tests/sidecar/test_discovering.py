"""A sidecar that was told nothing to read watches the SGLang that runs here."""

from pathlib import Path

import pytest
from ddwatch_sidecar.config import Settings
from ddwatch_sidecar.discovering import with_found

from ddwatch.core import wire
from ddwatch.core.snapshot import Snapshot
from tests.e2e.waiting import until
from tests.fakes.standing_in import Standing, proc_of, standing_in
from tests.sidecar.running import run, running


def alone(folder: Path, *servers: Standing) -> str:
    """A /proc in which only these servers run."""
    return str(proc_of(folder / "proc", *(pid for server in servers for pid in server.family())))


def test_the_only_server_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "sglang.log"
    with log.open("ab") as file, standing_in(stderr=file) as server:
        monkeypatch.setenv("DDWATCH_PROC", alone(tmp_path, server))
        with running("--no-record", "--no-learn") as sidecar:

            def reading() -> Snapshot | None:
                snapshot = wire.decode_snapshot(sidecar.get("/v1/snapshot").content)
                return snapshot if snapshot.now.throughput is not None else None

            snapshot = until(reading, "a reading")
            assert snapshot is not None
            assert {source.name for source in snapshot.sources} >= {"log", "loads"}
            assert f"found told/by-itself (pid {server.pid}): {log} and {server.url}" in "\n".join(sidecar.said)


def test_of_several_one_must_be_named(tmp_path: Path) -> None:
    with standing_in() as one, standing_in() as two:
        done = run(environment={"DDWATCH_PROC": alone(tmp_path, one, two)})
    assert done.returncode == 64
    for server in (one, two):
        assert f"(pid {server.pid}): ddwatch-sidecar --sglang-url {server.url}\n" in done.stderr
    assert done.stderr.endswith("ddwatch-sidecar: 2 SGLang servers run here: name one, as above\n")


def test_one_of_which_nothing_can_be_read_is_said(tmp_path: Path) -> None:
    with standing_in("--grpc-mode") as server:
        done = run(environment={"DDWATCH_PROC": alone(tmp_path, server)})
    assert done.returncode == 64
    assert f"(pid {server.pid}) runs here: its output is thrown away" in done.stderr


def test_a_simulated_service_and_what_was_named_are_never_looked_for() -> None:
    told: list[str] = []
    for settings in (Settings(simulated=True), Settings(log=("x",)), Settings(sglang_url="http://127.0.0.1:9")):
        assert with_found(settings, {}, told.append) is settings
    assert told == []
