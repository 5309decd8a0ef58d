"""`ddwatch` without a command, as a user meets it: real processes, real logs, real exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from ddwatch.commands.live import token_of
from ddwatch.core.exits import CommandFailed
from tests.fakes.sidecar_http import FakeSidecar, plain, small_frame, snapshot

DECODE = (
    "[{stamp} TP0] Decode batch, #running-req: 1, #token: {token}, token usage: 0.01, accept len: 2.90, "
    "accept rate: 0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0\n"
)


def half_a_minute() -> str:
    """A log of the last 30 seconds."""
    stamps = [datetime.fromtimestamp(time.time() - 29 + second, timezone.utc) for second in range(30)]
    return "".join(
        DECODE.format(stamp=f"{stamp:%Y-%m-%d %H:%M:%S}", token=5900 + place) for place, stamp in enumerate(stamps)
    )


def ddwatch(*words: str, stdin: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", *words],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def complaint(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    """The one sentence on stderr of a command that failed with that code."""
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert done.stdout == b""
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "sglang.log"
    path.write_text(half_a_minute())
    return path


def test_one_reading_of_a_log_names_units_origin_and_age(log: Path) -> None:
    done = ddwatch("--once", "--log", str(log))
    text = done.stdout.decode()
    assert done.returncode == 3, done.stderr
    assert text.startswith("learning: ")
    for words in (
        "throughput: 32.2 tokens per second (from log, ",
        "accept length: 2.90 tokens per request and step",
        "step time: 90.1 ms (span step)",
        "batch: 1 running requests, 0 waiting",
        "context: 5.9k tokens per request",
        "source log: up, last heard",
        "30 lines, 0 unread",
    ):
        assert words in text, text


def test_one_reading_as_json_is_the_snapshot_document(log: Path) -> None:
    done = ddwatch("--once", "--json", "--log", str(log))
    document = json.loads(done.stdout)
    assert document["schema"] == "ddwatch.snapshot/1"
    assert document["now"]["throughput"] == 32.2
    assert done.stdout.count(b"\n") == 1


def test_one_reading_of_a_pipe() -> None:
    done = ddwatch("--once", "--log", "-", stdin=half_a_minute().encode())
    assert b"throughput: 32.2 tokens per second" in done.stdout, done.stderr


def test_one_reading_leaves_no_process_behind(log: Path) -> None:
    ddwatch("--once", "--log", str(log))
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(log) in (p.info["cmdline"] or [])]


def test_the_exit_code_is_the_verdicts() -> None:
    with FakeSidecar(others={"/v1/snapshot": snapshot(small_frame(3))}) as sidecar:
        assert ddwatch("--once", "--url", sidecar.url).returncode == 3


def test_the_token_goes_to_the_sidecar_and_never_on_the_command_line(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    with FakeSidecar(others={"/v1/snapshot": snapshot(small_frame(3))}) as sidecar:
        ddwatch("--once", "--url", sidecar.url, "--token-file", str(secret))
        ddwatch("--once", "--url", sidecar.url, DDWATCH_TOKEN="other")
    shown = [asked["authorization"] for asked in sidecar.asked]
    assert shown[0] == "Bearer s3cret"
    assert shown[-1] == "Bearer other"


def test_bad_input_is_one_sentence_each(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert "connection refused" in complaint(ddwatch("--once", "--url", nobody), 66)
    assert "--bell is for the screen" in complaint(ddwatch("--once", "--bell"), 64)
    assert "there is no file" in complaint(ddwatch("--once", "--log", str(tmp_path / "missing")), 66)
    assert "is a directory" in complaint(ddwatch("--once", "--log", str(tmp_path)), 66)
    assert "--log - < /dev/null" in complaint(ddwatch("--once", "--log", "/dev/null"), 66)
    os.mkfifo(tmp_path / "pipe")
    assert f"--log - < {tmp_path / 'pipe'}" in complaint(ddwatch("--once", "--log", str(tmp_path / "pipe")), 66)
    assert "cannot read the token file" in complaint(ddwatch("--once", "--token-file", str(tmp_path)), 66)
    assert "holds no token" in complaint(ddwatch("--once", "--token-file", str(empty)), 66)
    assert "--json needs --once" in complaint(ddwatch("--json"), 64)
    assert "start one" in complaint(ddwatch("--once", "--log", "x", "--url", "y"), 64)
    assert "--profile is for a sidecar of its own" in complaint(ddwatch("--once", "--profile", "x", "--url", "y"), 64)
    assert "is for a sidecar that runs" in complaint(ddwatch("--once", "--log", "x", "--token-file", "y"), 64)
    assert "no profile and no file" in complaint(
        ddwatch("--once", "--sglang-url", "http://127.0.0.1:9", "--profile", "x"), 66
    )
    assert "needs a terminal" in complaint(ddwatch("--log", str(empty)), 64)
    assert "invalid choice: 7" in complaint(ddwatch("--window", "7"), 64)


def test_other_servers_and_versions_are_one_sentence_each() -> None:
    for answer, words in (
        (plain(200, "text/html", b"<html>"), "a web page answers there"),
        (plain(404, "application/json", b"{}"), "another server answers there"),
        (plain(401, "application/json", b"{}"), "asks for a token"),
        (plain(200, "application/json", b'{"schema":"ddwatch.snapshot/2"}'), "ddwatch.snapshot/2"),
    ):
        with FakeSidecar(others={"/v1/snapshot": answer}) as sidecar:
            assert words in complaint(ddwatch("--once", "--url", sidecar.url), 66)


def test_a_token_of_two_lines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\ntwo\n")
    with pytest.raises(CommandFailed, match="single line"):
        token_of(str(path))


def test_a_killed_command_takes_its_sidecar_with_it(tmp_path: Path) -> None:
    fifo = tmp_path / "quiet.log"
    fifo.touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "ddwatch.cli", "--once", "--log", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 20
    children: list[psutil.Process] = []
    while not children and time.monotonic() < deadline:
        children = [
            child for child in psutil.Process(process.pid).children() if "ddwatch_sidecar.cli" in child.cmdline()
        ]
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(children, timeout=10)
    assert children
    assert alive == []
