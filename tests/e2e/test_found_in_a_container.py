"""A server inside a container is found by its control group, and its log is followed through the container's tool."""

import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.fakes.containers import client
from tests.fakes.containers.paper import Paper
from tests.fakes.standing_in import proc_of, standing_in
from tests.sidecar.sources.children import program

ID = "3f2a" * 16
COUNT = 30
SCRIPT = """#!/bin/sh
if [ "$1" = inspect ]; then printf '/kimi\\tjson-file\\t{{"Networks":{{"host":{{}}}}}}\\n'; exit; fi
exec {python} -E {client} {root} docker "$@"
"""


def decode(at: float) -> str:
    stamp = f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M:%S}"
    return (
        f"[{stamp} TP0] Decode batch, #running-req: 1, #token: 5000, token usage: 0.01, accept len: 2.90, accept rate: "
        "0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0"
    )


def now() -> float:
    return datetime.now(timezone.utc).timestamp()


def test_ddwatch_alone_reads_the_log_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, programs = tmp_path / "containers", tmp_path / "programs"
    root.mkdir()
    programs.mkdir()
    program(programs / "docker", SCRIPT.format(python=sys.executable, client=client.__file__, root=root))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    started = now() - COUNT
    at = iter([started] + [started + second for second in range(COUNT)])
    paper = Paper(root, "kimi", lambda: next(at, now()))
    paper.create()
    paper.start()
    paper.write(*(decode(started + second) for second in range(COUNT)))
    with standing_in(shell="SERVER 2>&1 | cat >/dev/null") as server:
        proc = proc_of(tmp_path / "proc", *server.family(), groups={server.pid: f"0::/docker/{ID}\n"})
        done = subprocess.run(
            [sys.executable, "-m", "ddwatch.cli", "--once"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "DDWATCH_PROC": str(proc), "DDWATCH_LISTEN": "127.0.0.1:9"},
            check=False,
        )
    assert f"(pid {server.pid}), reading docker:kimi and {server.url}" in done.stderr
    assert "throughput: 32.2 tokens per second" in done.stdout, done.stderr
    assert "source docker:kimi: up" in done.stdout
