"""Whatever is handed to it: one clear sentence on stderr, the right exit code, no traceback, and nothing lost."""

import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.e2e.live_log import LiveLog
from tests.e2e.waiting import until
from tests.sidecar.running import running

COMMAND = (sys.executable, "-m", "ddwatch.cli")
REAL = ROOT / "tests" / "golden" / "logs" / "real-0.5.23-plain.log"
TOKEN = "a-token-of-good-length"


def told(words: Sequence[str], code: int, stdin: bytes = b"") -> str:
    """The one sentence of a command that must fail with this exit code."""
    done = subprocess.run([*COMMAND, *words], input=stdin, capture_output=True, timeout=60, check=False)
    stderr = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), (done, stderr)
    assert stderr.count("\n") == 1, stderr
    assert "Traceback" not in stderr
    return stderr


READERS = (("replay", "--headless"), ("steps",))
"""Commands that read a log to its end."""


@pytest.mark.parametrize("command", READERS)
def test_a_missing_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert f"there is no file {tmp_path / 'gone.log'}" in told([*command, str(tmp_path / "gone.log")], 66)


@pytest.mark.parametrize("command", READERS)
def test_a_directory(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "is a directory" in told([*command, str(tmp_path)], 66)


@pytest.mark.parametrize("command", READERS)
def test_a_binary_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(256)) * 1000)
    assert f"{path} is not a text log: it holds binary data" in told([*command, str(path)], 66)


@pytest.mark.parametrize("command", READERS)
def test_an_empty_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "empty.log").touch()
    assert "empty" in told([*command, str(tmp_path / "empty.log")], 66)


@pytest.mark.parametrize("command", READERS)
def test_a_log_without_any_line_of_sglang(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "other.log"
    path.write_text("INFO: Started server process [1]\n" * 500)
    assert "no decode line in 500 lines; is this the scheduler's log?" in told([*command, str(path)], 66)


@pytest.mark.parametrize("command", READERS)
def test_a_damaged_compressed_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(b"INFO: no decode line here\n" * 10_000)[:-20])
    assert f"{path} is damaged" in told([*command, str(path)], 66)


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        sentence = told(["sidecar", "--log", str(tmp_path / "server.log"), "--port", port], 66)
    assert f"port {port} on 127.0.0.1 is in use" in sentence


def test_a_bad_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("another-token-of-good-length\n")
    environment = {"DDWATCH_TOKEN": TOKEN}
    with running("--log", str(tmp_path / "server.log"), environment=environment) as sidecar:
        assert "asks for a token" in told(["--once", "--url", sidecar.url], 66)
        sentence = told(["--once", "--url", sidecar.url, "--token-file", str(token)], 66)
        assert "asks for a token, or for another one than this" in sentence
        assert "another-token" not in sentence
        assert sidecar.get("/v1/snapshot").status_code == 401


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://127.0.0.1:1", 66), ("nonsense", 66), ("ftp://host/x", 66), ("http://nowhere.invalid:9477", 66)],
)
def test_a_bad_url(url: str, code: int) -> None:
    assert url in told(["--once", "--url", url], code)


def test_a_url_of_another_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with subprocess.Popen([*COMMAND, "--once", "--url", url], stdout=-1, stderr=-1, text=True) as process:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.count("\n")) == (66, "", 1)
    assert "does not speak HTTP; is this the right port?" in err


@pytest.mark.parametrize("words", [(), ("--log", "x"), ("replay", str(REAL))])
def test_a_screen_without_a_terminal(words: tuple[str, ...]) -> None:
    assert "the screen needs a terminal" in told(words, 64)


def test_a_log_that_is_not_there_is_an_error_for_one_reading_and_a_wait_for_the_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "gone.log"
    assert f"there is no file {path}" in told(["--once", "--log", str(path)], 66)
    with running("--log", str(path)) as sidecar:
        until(lambda: "does not exist (yet)" in " ".join(sidecar.said), "the sentence on stderr")
        assert sidecar.process.poll() is None


def test_a_live_log_that_is_compressed_names_the_command_for_it(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(REAL.read_bytes()))
    with running("--log", str(path)) as sidecar:
        until(lambda: f"use `ddwatch replay {path}`" in " ".join(sidecar.said), "the sentence on stderr")
    done = subprocess.run(
        [*COMMAND, "replay", "--headless", str(path)], capture_output=True, timeout=60, check=False, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ("steps", str(REAL)),
        ("replay", "--headless", "--json", str(REAL)),
        ("--help",),
    ],
)
def test_a_broken_pipe_is_silent(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (0, 1, 2, 3)


def test_standard_input_that_ends_leaves_what_it_said(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "server.log") as log:
        log.work(lines=20)
    with log.path.open("rb") as file, running("--log", "-", "--tz", "UTC", stdin=file.fileno()) as sidecar:
        until(lambda: "standard input ended" in " ".join(sidecar.said), "the end of standard input")
        until(lambda: 'ddwatch_lines_read_total{source="stdin"} 20.0' in sidecar.get("/metrics").text, "the lines")
        assert sidecar.process.poll() is None


def test_standard_input_that_ended_is_lost_on_every_page(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "server.log") as log:
        log.work(lines=20)
    with log.path.open("rb") as file, running("--log", "-", "--tz", "UTC", stdin=file.fileno()) as sidecar:
        until(lambda: 'ddwatch_lines_read_total{source="stdin"} 20.0' in sidecar.get("/metrics").text, "the lines")
        until(lambda: 'ddwatch_source_up{source="stdin"} 0.0' in sidecar.get("/metrics").text, "the end")
        until(lambda: 'ddwatch_lines_read_total{source="stdin"} 20.0' in sidecar.get("/metrics").text, "its count")
        assert 'ddwatch_source_up{source="stdin"} 0.0' in sidecar.get("/metrics").text
