"""`ddwatch calibrate` against the simulated service as a process: a profile, or one sentence and what was measured."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

from ddwatch.core.exits import Exit
from ddwatch.demo.scenarios import LOAD_SECONDS
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.fakes.hostile import hostile, http
from tests.fakes.simulated import Simulated, simulated

SHORT = ("--limit", "256", "--minutes", "0.15")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path / "sglang.log", speed=20) as running:
        yield running


def until(condition: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + 30, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        pause.wait(0.02)


def test_it_writes_a_profile_that_profile_check_accepts(
    service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, picture = tmp_path / "mine.toml", tmp_path / "mine.svg"
    done = said(["calibrate", service.url, "-o", str(profile), "--svg", str(picture), "--json", *SHORT], capsys)
    assert done.code == Exit.OK, done.err
    document = held_against("calibrate.json", done.out)
    assert document["profile"] == "mine"
    assert {point["batch"] for point in document["points"]} == {1}
    assert profile.stat().st_mode & 0o077 == 0
    checked = said(["profile", "check", str(profile), "--json"], capsys)
    assert json.loads(checked.out)["valid"] is True
    shown = said(["profile", "show", str(profile), "--json"], capsys)
    assert json.loads(shown.out)["profile"]["identity"]["algorithm"] == "DDTREE"
    ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    predicted = said(["predict", "--context", "200", "--class", "code", "--profile", str(profile)], capsys)
    assert predicted.code == Exit.OK


def test_the_table_fits_eighty_columns(service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["calibrate", service.url, "-o", str(tmp_path / "p.toml"), "--batches", "1,3", *SHORT]
    done = said(words, capsys)
    assert done.code == Exit.OK, done.err
    rows = [line for line in done.out.splitlines() if "█" in line]
    assert {row.split()[0] for row in rows} == {"1", "3"}
    assert all(len(row) <= 80 for row in done.out.splitlines()[1:])
    assert "pairs" in done.err


def test_ctrl_c_keeps_what_it_has_and_the_same_command_goes_on(service: Simulated, tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    points = tmp_path / ".p.toml.points"
    words = [sys.executable, "-m", "ddwatch.cli", "calibrate", service.url, "-o", str(profile), "--limit", "1k"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    until(lambda: points.exists() and points.read_bytes().count(b"\n") > 8)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INTERRUPTED
    assert "the same command goes on from here" in err
    assert "Traceback" not in err
    assert f"profile p written to {profile}" in out
    assert profile.exists()
    kept = points.read_bytes().count(b"\n") - 1
    assert points.stat().st_mode & 0o077 == 0
    # Nobody is left behind on the server.
    until(lambda: httpx.get(f"{service.url}/v1/loads", trust_env=False).json()["loads"][0]["num_running_reqs"] == 0)
    more = [*words, "--minutes", "0.05", "--json"]
    again = subprocess.run(more, capture_output=True, text=True, timeout=60)
    assert again.stdout, again.stderr
    assert json.loads(again.stdout)["resumed_points"] == kept


def test_a_server_that_dies_in_the_middle_leaves_what_was_measured(service: Simulated, tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    points = tmp_path / ".p.toml.points"
    words = [sys.executable, "-m", "ddwatch.cli", "calibrate", service.url, "-o", str(profile), "--limit", "1k"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    until(lambda: points.exists() and points.read_bytes().count(b"\n") > 8)
    service.process.kill()
    _, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INPUT
    assert "points are kept" in err
    assert "Traceback" not in err
    assert profile.exists()


def test_a_busy_server_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(tmp_path / "log", "dp", more=("--lead", str(LOAD_SECONDS + 30))) as running:
        until(lambda: httpx.get(f"{running.url}/v1/loads", trust_env=False).json()["loads"][0]["num_running_reqs"] > 0)
        done = said(["calibrate", running.url, "-o", str(tmp_path / "p.toml")], capsys)
    assert done.code == Exit.UNJUDGED
    assert "is in use" in done.err
    assert not (tmp_path / "p.toml").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense://x", "-o", "p"], "is not an address"),
        (["http://127.0.0.1:1", "-o", "p", "--batches", "0"], "--batches '0' is not a list"),
        (["http://127.0.0.1:1", "-o", "p", "--batches", "1,x"], "is not a list"),
        (["http://127.0.0.1:1", "-o", "p", "--classes", "poems"], "--classes are among"),
        (["http://127.0.0.1:1", "-o", "p", "--minutes", "nan"], "--minutes is more than 0"),
        (["http://127.0.0.1:1", "-o", "."], "not directories"),
    ],
)
def test_wrong_words_get_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = said(["calibrate", *words], capsys)
    assert done.code == Exit.USAGE
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_other_servers_get_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for answer, sentence in (
        (http("<html>", kind="text/html"), "a web page"),
        (http("{}", "404 Not Found"), "no SGLang server"),
        (http("", "401 Unauthorized"), "--sglang-key-file"),
        (http('{"model_path": "m"}'), "offers no model"),
    ):
        with hostile(answer) as url:
            done = said(["calibrate", url, "-o", str(tmp_path / "p.toml")], capsys)
        assert done.code == Exit.INPUT
        assert sentence in done.err
        assert done.err.count("\n") == 1


def test_a_disk_that_takes_nothing_is_one_sentence(
    service: Simulated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = said(["calibrate", service.url, "-o", str(tmp_path / "file" / "p.toml"), *SHORT], capsys)
    assert done.code == Exit.INPUT
    assert "cannot keep what was measured" in done.err
