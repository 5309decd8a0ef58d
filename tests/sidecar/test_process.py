"""The sidecar as a real process: it starts, serves, follows, ends, and says in one sentence why it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from ddwatch_sidecar import cli

from ddwatch import __version__
from ddwatch.core import wire
from tests.fakes.log_writer import LogWriter
from tests.sidecar.running import COMMAND, decode_line, run, running

TOKEN = "a-token-of-good-length"
NOTHING = (
    "there is nothing to read: give --log PATH (or journal:UNIT, docker:NAME, command:CMD, - for standard input), or "
    "--sglang-url URL; none of the 0 processes here is an SGLang server"
)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "this never came true"
        time.sleep(0.02)


def lines_of(page: str) -> float:
    found = [line for line in page.splitlines() if line.startswith("ddwatch_lines_read_total{")]
    return float(found[0].split()[-1]) if found else 0.0


def test_a_growing_log_reaches_every_export(tmp_path: Path, needs_command: Callable[[str], Path]) -> None:
    promtool = needs_command("promtool")
    with LogWriter(tmp_path / "server.log") as log, running("--log", str(log.path), "--tz", "UTC") as sidecar:
        assert sidecar.announced == {
            "schema": "ddwatch.sidecar/1",
            "url": sidecar.url,
            "pid": sidecar.process.pid,
        }
        assert sidecar.get("/healthz").status_code == 200
        assert sidecar.get("/readyz").status_code == 503
        for number in range(1, 6):
            log.line(decode_line(number))
        until(lambda: lines_of(sidecar.get("/metrics").text) == 5)
        log.rotate()
        log.line(decode_line(6), decode_line(7))
        until(lambda: lines_of(sidecar.get("/metrics").text) == 7)
        page = sidecar.get("/metrics").text
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=30, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
        assert 'ddwatch_throughput_tokens_per_second{dp_rank=""} 32.2' in page
        assert 'ddwatch_log_rotations_total{source="log"} 1.0' in page
        snapshot = wire.decode_snapshot(sidecar.get("/v1/snapshot").content)
        assert (snapshot.ddwatch_version, snapshot.simulated, snapshot.now.throughput) == (__version__, False, 32.2)
        history, _ = wire.decode_history(sidecar.get("/v1/history").content)
        assert history.points or snapshot.now.at is not None
        assert sidecar.get("/readyz").status_code == 200
        assert sidecar.end() == 0


def events(response: httpx.Response) -> Iterator[tuple[str, str]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, line[6:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_the_last_line_and_a_farewell(tmp_path: Path, number: int) -> None:
    with LogWriter(tmp_path / "server.log") as log, running("--log", str(log.path)) as sidecar:
        log.line(decode_line(1))
        seen: list[tuple[str, str]] = []

        def follow() -> None:
            with httpx.stream("GET", sidecar.url + "/v1/stream", timeout=20, trust_env=False) as response:
                seen.extend(events(response))

        reader = threading.Thread(target=follow)
        reader.start()
        until(lambda: bool(seen) and lines_of(sidecar.get("/metrics").text) == 1)
        log.line(decode_line(2))
        began = time.monotonic()
        code = sidecar.end(number)
        took = time.monotonic() - began
        reader.join(10)

        assert code == 0 and took < 2
        assert seen[-1][0] == "end" and json.loads(seen[-1][1])["error"] == "the sidecar was told to stop"
        last = wire.decode_stream(seen[-2][1])
        assert last.snapshot.sources[0].lines == 2
        assert sidecar.said[-1] == "ddwatch-sidecar: stopped"
        assert not [line for line in sidecar.said if "Traceback" in line]


def test_a_terminal_that_closes_does_not_end_it(tmp_path: Path) -> None:
    with running("--log", str(tmp_path / "server.log")) as sidecar:
        sidecar.process.send_signal(signal.SIGHUP)
        assert sidecar.get("/healthz").status_code == 200
        assert sidecar.end() == 0


def test_it_goes_on_when_nobody_reads_what_it_says(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    out, err = os.pipe(), os.pipe()
    process = subprocess.Popen(
        [*COMMAND, "--log", str(log), "--port", "0", "--announce"],
        stdout=out[1],
        stderr=err[1],
        stdin=subprocess.DEVNULL,
    )
    try:
        os.close(out[1])
        os.close(err[1])
        os.close(err[0])
        with os.fdopen(out[0]) as stdout:
            url = json.loads(stdout.readline())["url"]
        log.write_text(decode_line(1) + "\n")
        until(lambda: lines_of(httpx.get(url + "/metrics", trust_env=False).text) == 1)
        process.terminate()
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait(5)


def test_standard_input_is_a_source() -> None:
    with running("--log", "-", stdin=subprocess.PIPE) as sidecar:
        assert sidecar.process.stdin is not None
        sidecar.process.stdin.write(decode_line(1) + "\n" + decode_line(2) + "\n")
        sidecar.process.stdin.flush()
        until(lambda: lines_of(sidecar.get("/metrics").text) == 2)
        sidecar.process.stdin.close()
        until(lambda: 'ddwatch_source_up{source="stdin"} 0.0' in sidecar.get("/metrics").text)
        sidecar.process.stdin = None
        assert sidecar.end() == 0


def test_two_logs_stand_side_by_side_and_a_missing_one_is_waited_for(tmp_path: Path) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text(decode_line(1) + "\n")
    with running("--log", str(first), "--log", str(second)) as sidecar:
        until(lambda: f'ddwatch_source_up{{source="log:{first}"}} 1.0' in sidecar.get("/metrics").text)
        until(lambda: f'ddwatch_source_up{{source="log:{second}"}} 0.0' in sidecar.get("/metrics").text)
        second.write_text(decode_line(1) + "\n")
        until(lambda: f'ddwatch_source_up{{source="log:{second}"}} 1.0' in sidecar.get("/metrics").text)
        assert sidecar.end() == 0


def test_it_leaves_with_the_process_it_stays_for(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(words, stdin=subprocess.PIPE) as parent,
        running("--log", str(tmp_path / "x.log"), "--until-pid", str(parent.pid)) as sidecar,
    ):
        assert sidecar.get("/healthz").status_code == 200
        parent.terminate()
        parent.wait(10)
        assert sidecar.wait() == 0
        assert f"ddwatch-sidecar: process {parent.pid} is gone, so this sidecar leaves" in sidecar.said


def test_a_token_is_asked_for_and_never_shown(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    words = ("--log", str(tmp_path / "x.log"), "--listen", "0.0.0.0:9477", "--token-file", str(token))
    with running(*words) as sidecar:
        assert sidecar.get("/v1/snapshot").status_code == 401
        assert sidecar.get("/v1/snapshot", Authorization="Bearer wrong").status_code == 401
        answer = sidecar.get("/v1/snapshot", Authorization=f"Bearer {TOKEN}")
        assert answer.status_code == 200 and TOKEN not in answer.text
        assert sidecar.get("/healthz", Authorization=f"Bearer {TOKEN}", Host="evil.example").status_code == 403
        assert sidecar.end() == 0
        assert not [line for line in sidecar.said if TOKEN in line]


def test_time_can_run_faster_for_a_simulated_service(tmp_path: Path) -> None:
    with running("--log", str(tmp_path / "x.log"), "--simulated", "--time-scale", "1000") as sidecar:
        first = wire.decode_snapshot(sidecar.get("/v1/snapshot").content)
        until(lambda: wire.decode_snapshot(sidecar.get("/v1/snapshot").content).at - first.at > 100)
        assert first.simulated
        assert sidecar.end() == 0


WITHOUT_SCREEN = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("textual", "rich", "pynvml"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
sys.argv = ["ddwatch-sidecar", *sys.argv[1:]]
from ddwatch_sidecar.cli import main
main()
"""


def test_it_lives_without_any_screen_library(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(decode_line(1) + "\n")
    with running("--log", str(tmp_path / "server.log"), command=(sys.executable, "-c", WITHOUT_SCREEN)) as sidecar:
        until(lambda: lines_of(sidecar.get("/metrics").text) == 1)
        assert sidecar.end() == 0


def test_help_and_version_are_data() -> None:
    assert run("--help").stdout.startswith("usage: ddwatch-sidecar")
    assert (run("--version").returncode, run("--version").stdout) == (0, f"ddwatch-sidecar {__version__}\n")


def test_the_settings_can_be_looked_at(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('log = "/x"\nlisten = "127.0.0.1:1"\n')
    result = run("--config", str(config), "--port", "7", "--print-config", environment={"DDWATCH_TOKEN": TOKEN})

    assert result.returncode == 0 and TOKEN not in result.stdout
    assert json.loads(result.stdout) == {
        "schema": "ddwatch.config/1",
        "log": ["/x"],
        "listen": "127.0.0.1:1",
        "port": 7,
        "token_file": None,
        "allow_host": [],
        "catch_up": 16.0,
        "tz": None,
        "nvml": False,
        "nvml_library": None,
        "nvml_absent": None,
        "gpu_seconds": 1.0,
        "gpu_throughput": False,
        "sglang_url": None,
        "sglang_key_file": None,
        "metrics": True,
        "fpm": None,
        "request_metrics": None,
        "profile": None,
        "learn": True,
        "record": None,
        "record_size": 512.0,
        "record_days": 30.0,
        "time_scale": 1.0,
        "webhook_file": None,
        "notify_command": [],
        "notify_severity": "notice",
        "notify_repeat": None,
        "alerts": None,
        "quiet_hours": None,
        "simulated": False,
    }


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 64, NOTHING),
        (("--log", "x", "--log", "x"), 64, "the same log is named twice"),
        (("--log", "journal:"), 64, "--log names no unit: write journal:UNIT, like journal:sglang"),
        (("--log", "docker:"), 64, "--log names no container: write docker:NAME, like docker:sglang"),
        (("--log", "command:"), 64, "--log names no command: write 'command:CMD ARGS'"),
        (("--log", "command:ssh 'gpu"), 64, "--log cannot be split into words: no closing quotation"),
        (("--log", "x", "--listen", "0.0.0.0:0"), 64, "needs a token: give --token-file FILE or set DDWATCH_TOKEN"),
        (("--log", "x", "--listen", "nonsense:port"), 64, "'nonsense:port' is not an address to listen on"),
        (
            ("--log", "x", "--listen", "nowhere.invalid:1"),
            64,
            "the host 'nowhere.invalid' to listen on is not known",
        ),
        (("--log", "x", "--port", "99999"), 64, "--port must be a port number from 0 to 65535"),
        (
            ("--log", "x", "--token-file", "/nonexistent/t"),
            66,
            "the token file /nonexistent/t cannot be read: No such",
        ),
        (
            ("--log", "x", "--config", "/nonexistent/c"),
            66,
            "the settings file /nonexistent/c cannot be read: No",
        ),
        (("--log", "x", "--until-pid", "0"), 64, "--until-pid must be the id of a process"),
        (("--log", "x", "--until-pid", "999999999"), 66, "there is no process 999999999 to stay for"),
        (("--log", "x", "--allow-host", "a b"), 64, "--allow-host 'a b' is not a host name"),
        (("--log", "x", "--tz", "Mars/Olympus"), 64, "--tz names no time zone known here: 'Mars/Olympus'"),
        (("--lgo", "x"), 64, "unrecognized arguments: --lgo x"),
        (("--token", "x"), 64, "unrecognized arguments: --token x"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    words: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        left_with: int | str | None = cli.run(words, {"DDWATCH_PROC": os.devnull})
    except SystemExit as left:
        left_with = left.code
    shown = capsys.readouterr()

    assert (left_with, shown.out) == (code, "")
    assert says in shown.err and shown.err.count("\n") == 1 and shown.err.startswith("ddwatch-sidecar: ")


def test_a_process_ends_with_that_sentence_and_code() -> None:
    result = run()

    assert (result.returncode, result.stdout) == (64, "")
    assert result.stderr.startswith(f"ddwatch-sidecar: {NOTHING}")
    assert result.stderr.count("\n") == 1


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--log", "x", "--port", str(port))

    assert (result.returncode, result.stdout) == (66, "")
    assert result.stderr == (
        f"ddwatch-sidecar: port {port} on 127.0.0.1 is in use; is another sidecar running? (choose one with --port)\n"
    )


def test_ddwatch_becomes_the_sidecar_and_hands_over_every_word(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "ddwatch.cli", "sidecar")
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=30, check=False)
    assert shown.returncode == 0 and shown.stdout.startswith("usage: ddwatch-sidecar")
    with running("--log", str(tmp_path / "x.log"), command=command) as sidecar:
        # The same process: a signal for `ddwatch sidecar` reaches the sidecar itself.
        assert sidecar.announced["pid"] == sidecar.process.pid
        assert sidecar.end() == 0


CRASH = """[2026-05-01 12:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 3128, in run_scheduler_process
    scheduler.event_loop_overlap()
RuntimeError: CUDA error: an illegal memory access was encountered"""


def test_a_traceback_that_ends_in_a_hang_is_told_without_a_next_line(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "server.log") as log, running("--log", str(log.path)) as sidecar:
        until(lambda: bool(wire.decode_snapshot(sidecar.get("/v1/snapshot").content).sources))
        log.line(*CRASH.splitlines())
        until(lambda: "an illegal memory access" in sidecar.get("/v1/history").text)
        assert sidecar.end() == 0
