"""`ddwatch demo`: real processes from end to end; every way of leaving takes children and files along."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ddwatch.core.exits import VERDICT_EXITS, Exit
from ddwatch.demo.scenarios import SCENARIOS
from tests.commands.documents import held_against
from tests.commands.front_door import in_process
from tests.commands.terminal import Terminal

DEADLINE = 30.0


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A folder for the temporary files of the command, to see what stays behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ddwatch.cli", "demo", *words]


def demo(temporary: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=60, env=environment, stdin=subprocess.DEVNULL
    )


def until(condition: Callable[[], bool]) -> None:
    """Polls a condition with a deadline."""
    deadline, pause = time.monotonic() + DEADLINE, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        pause.wait(0.02)


def test_headless_json_is_one_document_of_a_simulated_service(temporary: Path) -> None:
    done = demo(temporary, "--scenario", "steady", "--seed", "7", "--headless", "--seconds", "1.5", "--json")
    document = held_against("demo.json", done.stdout)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert (document["scenario"], document["seed"], document["seconds"]) == ("steady", 7, 1.5)
    snapshot = document["snapshot"]
    assert snapshot["simulated"] is True
    assert snapshot["server"]["algorithm"] == "DDTREE"
    assert snapshot["sources"][0]["unread"] == 0
    # The simulated port is asked as a real one would be.
    states = {source["name"]: source["state"] for source in snapshot["sources"]}
    assert states == {"log": "up", "loads": "up", "metrics": "up"}
    # Minutes of the past are there from the first moment, and it goes on live.
    assert snapshot["window"]["samples"] > 1000
    assert snapshot["now"]["throughput"] > 0
    assert done.returncode == VERDICT_EXITS[snapshot["verdict"]["name"]]
    assert list(temporary.iterdir()) == []


def test_headless_text_says_simulated_first(temporary: Path) -> None:
    done = demo(temporary, "--scenario", "dp", "--headless", "--seconds", "0.5", "--speed", "5", "--interval", "40")
    assert done.stdout.startswith("SIMULATED")
    assert "scenario: dp, seed 1, watched for 0.5 s\n" in done.stdout
    assert done.stderr == ""
    assert done.returncode in set(VERDICT_EXITS.values())


def test_the_founding_story_shows_its_restart_within_seconds(temporary: Path) -> None:
    done = demo(temporary, "--scenario", "founding", "--headless", "--seconds", "4", "--speed", "20", "--json")
    snapshot = held_against("demo.json", done.stdout)["snapshot"]
    assert snapshot["server"]["restarts"] == 1
    assert snapshot["verdict"]["severity"] != "page"


def test_the_list_names_every_scenario_with_its_story(temporary: Path) -> None:
    done = demo(temporary, "--list")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [story.name for story in SCENARIOS]
    assert all(story.story in done.stdout for story in SCENARIOS)
    assert done.returncode == Exit.OK


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--scenario", "nonsense"], "no scenario 'nonsense'; there are steady, founding"),
        ([], "the screen needs a terminal; add --headless"),
        (["--json"], "--json and --seconds need --headless"),
        (["--seconds", "3"], "--json and --seconds need --headless"),
        (["--headless", "--seconds", "0"], "--seconds is more than 0"),
        (["--headless", "--seconds", "nan"], "--seconds is more than 0"),
        (["--headless", "--speed", "0"], "--speed is more than 0"),
        (["--headless", "--speed", "inf"], "--speed is more than 0"),
        (["--headless", "--interval", "0"], "--interval is at least 1"),
        (["--headless", "--seed", "one"], "invalid int value"),
    ],
)
def test_wrong_words_get_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = in_process(["demo", *words], capsys)
    assert code == Exit.USAGE
    assert sentence in said
    assert said.count("\n") == 1


def running(temporary: Path) -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
    """A headless demo in full swing, and its two children."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        command("--headless", "--seconds", "600"),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    itself = psutil.Process(process.pid)
    until(lambda: len(itself.children()) == 2 and any(temporary.glob("*/sglang.log")))
    return process, itself.children()


def gone(children: list[psutil.Process]) -> bool:
    return not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP)],
    ids=["ctrl-c", "sigterm", "closed terminal"],
)
def test_every_signal_takes_children_and_files_along(number: int, code: int, temporary: Path) -> None:
    process, children = running(temporary)
    process.send_signal(number)
    assert process.wait(DEADLINE) == code
    assert gone(children)
    assert list(temporary.iterdir()) == []


def test_children_leave_when_the_command_is_killed(temporary: Path) -> None:
    process, children = running(temporary)
    process.kill()
    process.wait(DEADLINE)
    until(lambda: gone(children))
    assert list(temporary.glob("*/sglang.log")) == []


def test_the_screen_is_full_at_once_and_q_takes_everything_along(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Terminal("demo", "--scenario", "steady") as terminal:
        terminal.until("SIMULATED", "kimi-k2.6", "DDTREE", "median", "up 5 min")
        children = psutil.Process(terminal.process.pid).children()
        assert len(children) == 2
        terminal.send("q")
        assert terminal.end() == Exit.OK
    assert gone(children)
    assert list(temporary.iterdir()) == []


def test_with_the_port_the_better_witness_counts(temporary: Path) -> None:
    done = demo(temporary, "--scenario", "two-witnesses", "--headless", "--seconds", "6", "--json")
    snapshot = held_against("demo.json", done.stdout)["snapshot"]
    assert snapshot["now"]["provenance"] == "moments"
