"""Standard streams that are full, closed or gone: one sentence or silence, the right exit code, never a traceback."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT

REAL = str(ROOT / "tests" / "golden" / "logs" / "real-0.5.23-plain.log")
DDWATCH = (sys.executable, "-m", "ddwatch.cli")
SIDECAR = (sys.executable, "-m", "ddwatch_sidecar.cli")

COMMANDS = (
    (*DDWATCH, "steps", REAL),
    (*DDWATCH, "replay", "--headless", "--json", REAL),
    (*DDWATCH, "predict", "--context", "3000"),
    (*DDWATCH, "--once", "--log", REAL),
    (*DDWATCH, "--help"),
    (*DDWATCH, "steps", "--help"),
    (*DDWATCH, "--version"),
    (*DDWATCH, "demo", "--list"),
    (*DDWATCH, "sidecar", "--print-config"),
    (*SIDECAR, "--print-config"),
    (*SIDECAR, "--help"),
)


def named(command: Sequence[str]) -> str:
    """The words of a command without the interpreter and the log."""
    return " ".join(word for word in command[2:] if word != REAL)


def with_closed(command: Sequence[str], *descriptors: int) -> subprocess.CompletedProcess[str]:
    """Runs a command whose caller closed some of its standard streams, as `>&-` in a shell does."""
    closing = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in descriptors)
    words = ["sh", "-c", f'exec "$@" {closing}', "sh", *command]
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_a_full_disk_behind_stdout_is_one_sentence(command: Sequence[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    finally:
        os.close(full)
    assert done.returncode == 66
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot write to standard output: No space left on device" in done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_a_closed_stdout_is_a_reader_that_has_left(command: Sequence[str]) -> None:
    done = with_closed(command, 1)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_closed_streams_leave_the_exit_code(command: Sequence[str]) -> None:
    assert with_closed(command, 0, 1, 2).returncode == 0


def test_a_sentence_for_a_closed_stderr_goes_nowhere_else() -> None:
    done = with_closed([*DDWATCH, "steps", "gone.log"], 2)
    assert (done.returncode, done.stdout) == (66, "")
    done = with_closed([*SIDECAR, "--token-file", "gone", "--listen", "0.0.0.0:0", "--log", "gone.log"], 2)
    assert (done.returncode, done.stdout) == (66, "")


@pytest.mark.parametrize("words", [("--once", "--log", "-"), ("steps", "-"), ("replay", "--headless", "-")])
def test_a_closed_stdin_is_an_empty_one(words: Sequence[str]) -> None:
    done = with_closed([*DDWATCH, *words], 0)
    assert done.stderr.count("\n") <= 1, done.stderr
    assert done.returncode in (3, 66)


@pytest.mark.parametrize("words", [(), ("replay", REAL), ("demo",), ("--log", "-")])
def test_a_screen_with_closed_streams_needs_a_terminal(words: Sequence[str]) -> None:
    done = with_closed([*DDWATCH, *words], 0, 1)
    assert (done.returncode, done.stderr.count("\n")) == (64, 1), done.stderr


ASCII = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


@pytest.mark.parametrize(
    "words",
    [("--once", "--log", REAL), ("--once", "--json", "--log", REAL), ("steps", REAL), ("replay", "--headless", REAL)],
)
def test_an_ascii_locale_gets_ascii(words: Sequence[str]) -> None:
    done = subprocess.run([*DDWATCH, *words], capture_output=True, env=ASCII, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


def test_a_sign_that_the_locale_cannot_write_is_no_failure(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    line = Path(REAL).read_text(encoding="utf-8").partition("server_args=")[2].split("\n")[0]
    log.write_text(
        f"[2026-12-01 11:00:00] server_args={line.replace('tiny-target', 'modèle-目标')}\n", encoding="utf-8"
    )
    with log.open("a", encoding="utf-8") as file:
        file.write(Path(REAL).read_text(encoding="utf-8"))
    for words in (["--once"], ["--once", "--json"]):
        done = subprocess.run([*DDWATCH, *words, "--log", str(log)], capture_output=True, env=ASCII, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
