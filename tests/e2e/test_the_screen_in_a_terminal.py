"""The real screen in a real terminal: it shows what the server does, says when the sidecar dies, and comes back."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.e2e.live_log import LiveLog
from tests.e2e.terminal import terminal
from tests.e2e.waiting import until
from tests.sidecar.running import running


@pytest.fixture
def tmux(needs_command: Callable[[str], Path]) -> Path:
    return needs_command("tmux")


def children_with(text: str) -> list[psutil.Process]:
    """Processes whose command line holds this text."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(text in word for word in process.info["cmdline"] or ())
    ]


def test_it_follows_the_server_and_outlives_the_sidecar(tmp_path: Path, tmux: Path) -> None:
    with (
        LiveLog(tmp_path / "server.log") as log,
        running("--log", str(log.path), "--tz", "UTC") as sidecar,
        terminal(tmux, "--url", sidecar.url) as screen,
    ):
        until(lambda: log.work(32.2) and "32.2 tok/s" in screen.text(), "the reading", seen=screen.text)
        picture = screen.shows("live", "accept length", "verify latency", "events", "q quit")
        assert len(picture.rstrip("\n").splitlines()) == 24
        assert re.search(r"accept +2\.9", picture), picture

        log.rotate()
        until(lambda: log.work(48.6) and "48.6 tok/s" in screen.text(), "the new file", seen=screen.text)
        screen.shows("server.log was rotated")

        screen.keys("Space")
        screen.shows("FROZEN")
        screen.keys("Space")
        screen.keys("?")
        screen.shows("freeze")
        screen.keys("Escape")
        screen.shows("throughput", "accept length")

        port = urlsplit(sidecar.url).port
        assert port is not None
        sidecar.process.kill()
        sidecar.process.wait(10)
        gone = screen.shows("NO DATA", f"the sidecar at {sidecar.url} is not there", "trying again")
        assert "live" not in gone.splitlines()[0]
        with running("--log", str(log.path), "--tz", "UTC", port=port) as again:
            until(lambda: log.work(64.8) and "64.8 tok/s" in screen.text(), "the recovery", seen=screen.text)
            assert "live" in screen.shows("live").splitlines()[0]
            screen.keys("q")
            assert screen.exit_code() == 0
            assert again.end() == 0


def test_it_starts_a_sidecar_for_a_log_and_takes_it_along_when_it_leaves(tmp_path: Path, tmux: Path) -> None:
    with LiveLog(tmp_path / "server.log") as log, terminal(tmux, "--log", str(log.path)) as screen:
        until(lambda: log.work(32.2) and "32.2 tok/s" in screen.text(), "the reading", seen=screen.text)
        assert children_with(str(log.path))
        screen.keys("q")
        assert screen.exit_code() == 0
        until(lambda: not [found for found in children_with(str(log.path)) if "tmux" not in found.name()], "its end")


def test_a_terminal_of_twenty_by_five_still_says_the_verdict(tmp_path: Path, tmux: Path) -> None:
    with (
        LiveLog(tmp_path / "server.log") as log,
        running("--log", str(log.path), "--tz", "UTC") as sidecar,
        terminal(tmux, "--url", sidecar.url, width=20, height=5) as screen,
    ):
        until(lambda: log.work(32.2) and "32.2 tok" in screen.text(), "the reading", seen=screen.text)
        screen.resize(80, 24)
        screen.shows("verify latency")
        screen.resize(10, 2)
        screen.resize(120, 40)
        screen.shows("verify latency", "events")
        screen.keys("q")
        assert screen.exit_code() == 0


def test_a_missing_log_is_waited_for_on_the_screen(tmp_path: Path, tmux: Path) -> None:
    log = LiveLog(tmp_path / "later.log")
    with log, terminal(tmux, "--log", str(log.path)) as screen:
        screen.shows("log waiting")
        until(lambda: log.work(32.2) and "32.2 tok/s" in screen.text(), "the reading", seen=screen.text)
        screen.keys("C-c")
        assert screen.exit_code() == 0
