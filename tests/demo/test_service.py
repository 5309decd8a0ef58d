"""The simulated service as a process: its past at once, its present at the stated pace, and an orderly end."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddwatch.core.exits import Exit
from ddwatch.demo.service import LIVE, main
from ddwatch.demo.stage import Pace

DEADLINE = 30.0


@contextmanager
def service(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The process, live, and gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ddwatch.demo.service", "--log", str(log), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == LIVE.encode()
        yield process
    finally:
        process.kill()
        process.communicate()


def until(condition: Callable[[], bool]) -> None:
    """Polls a condition with a deadline."""
    deadline, pause = time.monotonic() + DEADLINE, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        pause.wait(0.02)


def plain(log: Path) -> list[str]:
    """The lines without their stamps."""
    return [re.sub(r"^\[[\d-]{10} [\d:]{8}", "[", line) for line in log.read_text(encoding="utf-8").split("\n")]


def test_the_past_is_there_before_it_says_live_and_time_waits_for_the_watcher(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    with service(log, "--scenario", "steady", "--hold") as process:
        past = log.read_bytes()
        assert past.count(b"Decode batch") > 1000
        assert past.endswith(b"\n")
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        until(lambda: log.stat().st_size > len(past) + 2000)
        assert log.read_bytes().startswith(past)
        process.terminate()
        assert process.wait(DEADLINE) == Exit.OK
    assert log.read_bytes().endswith(b"\n")
    assert log.stat().st_mode & 0o077 == 0


def test_speed_makes_its_time_pass_faster(tmp_path: Path) -> None:
    """At 200 times real time an hour of idling is over in 18 s; a few seconds show minutes of the story."""
    log = tmp_path / "sglang.log"
    with service(log, "--scenario", "founding", "--speed", "200", "--lead", "0") as process:
        until(lambda: b"fired up" in log.read_bytes())
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == Exit.OK


def test_what_a_start_says_comes_while_it_loads(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    with service(log, "--scenario", "founding", "--speed", "20", "--lead", "0"):
        until(lambda: b"server_args=" in log.read_bytes())
        assert b"fired up" not in log.read_bytes()
        until(lambda: b"Load weight end" in log.read_bytes())
        assert b"fired up" not in log.read_bytes()


def test_the_same_seed_writes_the_same_log_apart_from_stamps(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("one.log", "two.log", "other.log")]
    for log, seed in zip(logs, ("3", "3", "4"), strict=True):
        with service(log, "--scenario", "dp", "--seed", seed, "--hold"):
            assert log.stat().st_size > 100_000
    one, two, other = (plain(log) for log in logs)
    assert one == two
    assert one != other


def test_it_ends_with_the_process_that_it_lives_for_and_takes_its_log_along(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    log = folder / "sglang.log"
    with service(log, "--scenario", "idle", "--remove", "--until-pid", str(other.pid)) as process:
        assert log.exists()
        other.communicate(b"\n")
        assert process.wait(DEADLINE) == Exit.OK
    assert not folder.exists()


def test_what_a_killed_watcher_left_in_the_folder_goes_too(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    recordings = folder / "recordings"
    recordings.mkdir(parents=True)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    words = ("--scenario", "idle", "--remove", "--until-pid", str(other.pid), "--clear", str(folder))
    with service(folder / "sglang.log", *words) as process:
        (recordings / "one.sqlite").touch()
        other.communicate(b"\n")
        assert process.wait(DEADLINE) == Exit.OK
    assert not folder.exists()


def test_a_folder_whose_owner_lives_is_the_owners(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    (folder / "recordings").mkdir(parents=True)
    words = ("--scenario", "idle", "--remove", "--until-pid", str(os.getpid()), "--clear", str(folder))
    with service(folder / "sglang.log", *words) as process:
        process.terminate()
        assert process.wait(DEADLINE) == Exit.OK
    assert [path.name for path in folder.iterdir()] == ["recordings"]


def test_the_state_of_its_cards_is_there_when_it_is_live_and_goes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    cards = folder / "cards"
    words = ("--scenario", "idle", "--remove", "--hold", "--cards", str(cards))
    with service(folder / "sglang.log", *words) as process:
        assert "sys count 8\n" in cards.read_text()
        process.terminate()
        assert process.wait(DEADLINE) == Exit.OK
    assert not folder.exists()


def test_a_state_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    words = ("--scenario", "idle", "--log", str(log), "--cards", str(tmp_path / "absent" / "cards"))
    done = subprocess.run(
        [sys.executable, "-m", "ddwatch.demo.service", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == Exit.INPUT
    assert done.stderr == "ddwatch demo: the simulated service stopped: No such file or directory\n"


def test_a_folder_that_holds_something_else_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    with service(tmp_path / "sglang.log", "--scenario", "idle", "--remove", "--hold") as process:
        process.terminate()
        assert process.wait(DEADLINE) == Exit.OK
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        code = main(["--scenario", "idle", "--log", str(tmp_path / "absent" / "sglang.log")])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = capfd.readouterr().err
    assert code == Exit.INPUT
    assert "cannot write the simulated log" in said
    assert said.count("\n") == 1


def test_pace_turns_the_story_into_wall_time() -> None:
    pace = Pace(1000.0, 50.0, 10.0)
    assert pace.due(1000.0) == 50.0
    assert pace.due(1100.0) == 60.0
