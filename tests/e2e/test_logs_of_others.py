"""Logs that are no files, through the real sidecar and the real front door: a journal, a container, a command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from ddwatch.core import wire
from ddwatch.core.snapshot import Snapshot
from tests.e2e.waiting import until
from tests.fakes.containers import client
from tests.fakes.containers.paper import Paper
from tests.fakes.journal import START_MICROSECONDS, Journal
from tests.sidecar.running import Sidecar, running
from tests.sidecar.sources.children import alive, program

COUNT = 30


def decode(at: float, token: int) -> str:
    """A decode line of the host's own clock."""
    stamp = datetime.fromtimestamp(at, timezone.utc)
    return (
        f"[{stamp:%Y-%m-%d %H:%M:%S} TP0] Decode batch, #running-req: 1, #token: {token}, token usage: 0.01, accept "
        f"len: 2.90, accept rate: 0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0"
    )


def now() -> float:
    return datetime.now(timezone.utc).timestamp()


def snapshot_of(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


def lines(sidecar: Sidecar) -> int:
    return sum(source.lines for source in snapshot_of(sidecar).sources)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands first on the PATH of every process."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def container(path: Path, tmp_path: Path) -> Paper:
    """A running container that has written for half a minute; `docker` on the PATH knows it."""
    root = tmp_path / "containers"
    root.mkdir()
    program(path / "docker", f'#!/bin/sh\nexec {sys.executable} -E {client.__file__} {root} docker "$@"\n')
    started = now() - COUNT
    at = iter([started] + [started + second for second in range(COUNT)])
    paper = Paper(root, "kimi", lambda: next(at, now()))
    paper.create()
    paper.start()
    paper.write(*(decode(started + second, 5000 + second) for second in range(COUNT)))
    return paper


@pytest.fixture
def journal(path: Path, tmp_path: Path, needs_command: Callable[[str], Path]) -> Iterator[Journal]:
    """A journal in which sglang.service has written for half a minute; `journalctl` on the PATH reads it."""
    real, writer = needs_command("journalctl"), needs_command("systemd-journal-remote")
    made = Journal(tmp_path / "journal", writer)
    started = now() - COUNT
    second = started - START_MICROSECONDS / 1e6
    made.write(second, *(decode(started + index, 5000 + index) for index in range(COUNT)), step=1.0)
    program(path / "journalctl", f'#!/bin/sh\nexec {real} --directory={made.folder} "$@"\n')
    yield made
    made.rotate()


def once(*words: str) -> tuple[int, dict[str, object]]:
    """One reading as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "--once", "--json", *words],
        capture_output=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == b"", done.stderr
    return done.returncode, json.loads(done.stdout)


def test_one_reading_of_a_container(container: Paper) -> None:
    code, document = once("--log", "docker:kimi")
    (source,) = [one for one in document["sources"] if one["witness"]]  # type: ignore[attr-defined]
    assert (source["name"], source["state"]) == ("docker:kimi", "up")
    assert 0 < source["lines"] <= COUNT
    assert source["detail"] == "reading the log of container kimi"
    assert document["now"]["throughput"] == 32.2  # type: ignore[index]
    assert code == 3


def test_one_reading_of_a_journal(journal: Journal) -> None:
    _, document = once("--log", "journal:sglang")
    (source,) = [one for one in document["sources"] if one["witness"]]  # type: ignore[attr-defined]
    assert (source["name"], source["state"]) == ("journal:sglang", "up")
    assert 0 < source["lines"] <= COUNT
    assert document["now"]["throughput"] == 32.2  # type: ignore[index]


def test_one_reading_of_a_command_that_prints_the_past(tmp_path: Path) -> None:
    started = now() - COUNT
    text = "".join(decode(started + second, 5000 + second) + "\n" for second in range(COUNT))
    (tmp_path / "server.log").write_text(text, encoding="utf-8")
    _, document = once("--log", f"command:tail -n +1 -F '{tmp_path}/server.log'")
    (source,) = [one for one in document["sources"] if one["witness"]]  # type: ignore[attr-defined]
    assert source["name"] == "command:tail"
    assert 0 < source["lines"] <= COUNT
    assert document["now"]["throughput"] == 32.2  # type: ignore[index]


def test_new_lines_of_all_three_reach_one_sidecar_beside_a_file(
    container: Paper, journal: Journal, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_text("", encoding="utf-8")
    words = ("--log", "docker:kimi", "--log", "journal:sglang", "--log", f"command:tail -n +1 -F {log}")
    with running(*words, "--log", str(log), "--tz", "UTC") as sidecar:
        until(lambda: lines(sidecar) == 2 * COUNT, "the past", seen=lambda: str(snapshot_of(sidecar).sources))
        container.write(decode(now(), 6001))
        journal.write(now() - START_MICROSECONDS / 1e6, decode(now(), 6002))
        log.write_text(decode(now(), 6003) + "\n", encoding="utf-8")
        until(
            lambda: lines(sidecar) == 2 * COUNT + 4,
            "one more of each",
            seen=lambda: str(snapshot_of(sidecar).sources),
        )
        names = [source.name for source in snapshot_of(sidecar).sources if source.witness]
        assert sorted(names) == ["command:tail", "docker:kimi", "journal:sglang", "log"]
        page = sidecar.get("/metrics").text
        assert 'ddwatch_source_up{source="docker:kimi"} 1.0' in page
        assert 'ddwatch_source_up{source="command:tail"} 1.0' in page


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_goes_with_the_sidecar_even_when_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    script = program(
        tmp_path / "follow",
        f"#!/bin/sh\ntrap '' HUP TERM\nsleep 300 & echo $! > {tmp_path}/grandchild\n"
        f"echo $$ > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/child\nwait\n",
    )
    with running("--log", f"command:{script}") as sidecar:
        until(lambda: (tmp_path / "child").exists(), "the command to start", seen=lambda: str(sidecar.said))
        pids = [int((tmp_path / name).read_text()) for name in ("child", "grandchild")]
        assert all(alive(pid) for pid in pids)
        sidecar.process.send_signal(number)
        sidecar.process.wait(20)
        until(lambda: not any(alive(pid) for pid in pids), "the command to be gone", seen=lambda: str(pids))


def test_a_command_gets_none_of_the_secrets_and_its_arguments_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDWATCH_SGLANG_KEY", "a-key-nobody-should-see")
    script = program(
        tmp_path / "follow", f"#!/bin/sh\nenv > {tmp_path}/env.new\nmv {tmp_path}/env.new {tmp_path}/env\n"
    )
    with running("--log", f"command:{script} --password hunter2", "--record", str(tmp_path / "recordings")) as sidecar:
        until(lambda: (tmp_path / "env").exists(), "the command to run", seen=lambda: str(sidecar.said))
        assert "DDWATCH" not in (tmp_path / "env").read_text()
        until(lambda: any(one.detail for one in snapshot_of(sidecar).sources), "its end to be told")
        (source,) = [one for one in snapshot_of(sidecar).sources if one.witness]
        assert (source.name, source.state) == ("command:follow", "lost")
        assert source.detail == "follow ended with exit code 0; it is started again"
        shown = sidecar.get("/v1/snapshot").text + sidecar.get("/metrics").text + "".join(sidecar.said)
        assert "hunter2" not in shown
        assert [path.name.split("-")[0] for path in (tmp_path / "recordings").glob("*.sqlite")] == ["command"]


def test_children_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    script = program(tmp_path / "follow", f"#!/bin/sh\necho x >> {tmp_path}/starts\n")
    with running("--log", f"command:{script}", "--time-scale", "50") as sidecar:
        until(
            lambda: (tmp_path / "starts").exists() and len((tmp_path / "starts").read_text().splitlines()) >= 5,
            "five starts",
            seen=lambda: str(sidecar.said),
        )
        process = psutil.Process(sidecar.process.pid)
        assert process.num_fds() < 40
        states = [child.status() for child in process.children(recursive=True) if child.is_running()]
        assert states.count(psutil.STATUS_ZOMBIE) <= 1
