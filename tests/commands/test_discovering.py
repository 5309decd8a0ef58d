"""`ddwatch` without arguments: the sidecar of this machine, else the SGLang that runs here, else what to type."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddwatch.commands.discovering import DEFAULT_URL, sidecar_url
from tests.commands.terminal import Terminal
from tests.fakes.sidecar_http import FakeSidecar, plain, small_frame, snapshot
from tests.fakes.standing_in import Standing, free_port, proc_of, standing_in


def isolated(folder: Path, *servers: Standing) -> dict[str, str]:
    """Surroundings in which only these servers run, and no sidecar."""
    pids = [pid for server in servers for pid in server.family()]
    proc = proc_of(folder / f"proc{len(list(folder.glob('proc*')))}", *pids)
    return {"DDWATCH_PROC": str(proc), "DDWATCH_LISTEN": f"127.0.0.1:{free_port()}"}


def ddwatch(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def test_one_server_is_found_and_read(tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(b"caf\xe9 sglang.log")
    with log.open("ab") as file, standing_in("--model-path", "x/kimi", stdout=file, stderr=file) as server:
        done = ddwatch("--once", **isolated(tmp_path, server))
    assert done.returncode == 3, done.stderr
    assert "throughput: 32.2 tokens per second (from log, " in done.stdout
    assert done.stderr.splitlines()[0] == (
        f"ddwatch: found told/by-itself (pid {server.pid}), reading {tmp_path}/caf? sglang.log and {server.url}"
    )


def test_the_sidecar_of_this_machine_comes_first() -> None:
    health = plain(200, "application/json", b'{"schema":"ddwatch.health/1"}')
    with FakeSidecar(others={"/healthz": health, "/v1/snapshot": snapshot(small_frame(3))}) as sidecar:
        done = ddwatch("--once", "--json", DDWATCH_LISTEN=sidecar.url.removeprefix("http://"))
    assert done.returncode == 3
    assert done.stderr == ""


def test_nothing_is_one_sentence_with_what_was_looked_for_and_what_to_type(tmp_path: Path) -> None:
    surroundings = isolated(tmp_path)
    done = ddwatch("--once", **surroundings)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (66, "", 1)
    for words in (
        f"no sidecar answers at http://{surroundings['DDWATCH_LISTEN']}",
        "none of the 0 processes here is an SGLang server",
        "sglang serve",
        "ddwatch --log PATH",
        "ddwatch --url URL",
        "ddwatch demo",
    ):
        assert words in done.stderr


def test_several_without_a_terminal_are_listed_each_with_its_command(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with log.open("ab") as file, standing_in(stderr=file) as first, standing_in() as second:
        done = ddwatch("--once", "--json", "--window", "15", **isolated(tmp_path, first, second))
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("ddwatch: 2 SGLang servers run here")
    assert f"  $ ddwatch --log {log} --sglang-url {first.url} --once --json --window 15\n" in done.stderr
    assert f"  $ ddwatch --sglang-url {second.url} --once --json --window 15\n" in done.stderr
    assert "none: its output is thrown away (/dev/null)" in done.stderr
    assert {line.split()[0] for line in done.stderr.splitlines() if "pid" in line} == {"1", "2"}


@pytest.mark.parametrize(("answer", "number"), [("\n", 0), ("x\n2\n", 1)])
def test_several_in_a_terminal_are_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, number: int
) -> None:
    logs = [(tmp_path / name).open("ab") for name in ("a.log", "b.log")]
    with logs[0], logs[1], standing_in(stderr=logs[0]) as one, standing_in(stderr=logs[1]) as two:
        for name, value in isolated(tmp_path, one, two).items():
            monkeypatch.setenv(name, value)
        chosen = sorted((one, two), key=lambda server: server.port)[number]
        with Terminal("--once", rows=60) as terminal:
            terminal.until("2 SGLang servers run here:", "Which one? 1-2, Enter for 1, q to leave:")
            terminal.send(answer)
            text = terminal.until("throughput: 32.2 tokens per second")
            assert terminal.end() == 3
    assert f"(pid {chosen.pid}), reading" in text


def test_a_choice_can_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standing_in() as one, standing_in() as two:
        for name, value in isolated(tmp_path, one, two).items():
            monkeypatch.setenv(name, value)
        with Terminal("--once") as terminal:
            terminal.until("Which one?")
            terminal.send("q\n")
            assert terminal.end() == 130


def test_the_screen_opens_on_a_server_that_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "a.log").open("ab") as file, standing_in(stderr=file) as server:
        for name, value in isolated(tmp_path, server).items():
            monkeypatch.setenv(name, value)
        with Terminal(rows=30) as terminal:
            terminal.until("32.2")
            terminal.send("q")
            assert terminal.end() == 0


def test_options_of_an_own_sidecar_find_a_server_too(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-1\n", encoding="utf-8")
    key.chmod(0o600)
    with (tmp_path / "a.log").open("ab") as file, standing_in("--api-key", "sk-1", stderr=file) as server:
        surroundings = isolated(tmp_path, server)
        done = ddwatch("--once", "--sglang-key-file", str(key), **surroundings)
        without = ddwatch("--once", **surroundings)
    assert done.returncode == 3, done.stderr
    assert "it wants its key" not in done.stderr
    assert "it wants its key: give --sglang-key-file FILE" in without.stderr
    assert "sk-1" not in done.stderr + done.stdout


def test_a_server_of_which_nothing_can_be_read_is_one_sentence(tmp_path: Path) -> None:
    with standing_in("--grpc-mode", "--model-path", "m") as server:
        done = ddwatch("--once", **isolated(tmp_path, server))
    assert (done.returncode, done.stderr.count("\n")) == (66, 1)
    assert "neither its log nor its port can be read: its output is thrown away" in done.stderr


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        (None, DEFAULT_URL),
        ("127.0.0.1:9500", "http://127.0.0.1:9500"),
        ("0.0.0.0:9500", "http://127.0.0.1:9500"),
        ("[::1]:9500", "http://[::1]:9500"),
        ("nonsense", DEFAULT_URL),
        ("127.0.0.1:0", DEFAULT_URL),
    ],
)
def test_the_sidecar_is_looked_for_where_it_was_told_to_listen(
    monkeypatch: pytest.MonkeyPatch, listen: str | None, url: str
) -> None:
    if listen is not None:
        monkeypatch.setenv("DDWATCH_LISTEN", listen)
    assert sidecar_url() == url
