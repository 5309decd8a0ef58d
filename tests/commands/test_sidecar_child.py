"""A sidecar of one's own tells why it is gone and leaves nothing behind, however both ends end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddwatch.commands.sidecar_child import sidecar_for, signal_name
from ddwatch.core.exits import CommandFailed
from tests.e2e.waiting import until

STARTS_ONE = """
import sys, time
from ddwatch.commands.sidecar_child import sidecar_for
with sidecar_for(sys.argv[1], more=["--no-record", "--no-nvml"]) as child:
    print(child.url, flush=True)
    time.sleep(600)
"""


def child_of(pid: int) -> psutil.Process:
    (found,) = psutil.Process(pid).children()
    return found


def test_one_that_was_killed_says_so_and_not_what_it_said_before(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.touch()
    with sidecar_for(str(log), more=["--no-record", "--no-nvml"]) as child:
        assert child.last_words() is None
        os.kill(child_of(os.getpid()).pid, signal.SIGKILL)
        until(lambda: child.last_words() is not None, "its end is seen")
        assert child.last_words() == "it was killed (SIGKILL)"


def test_one_that_cannot_start_says_its_own_sentence(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.touch()
    with (
        pytest.raises(CommandFailed, match="nonsense"),
        sidecar_for(str(log), more=["--no-record", "--no-nvml", "--profile", "nonsense"]),
    ):
        pass


def test_nothing_is_left_when_the_one_who_started_it_is_killed(tmp_path: Path) -> None:
    log, room = tmp_path / "sglang.log", tmp_path / "room"
    log.touch()
    room.mkdir()
    words = [sys.executable, "-c", STARTS_ONE, str(log)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(room)}) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline().startswith(b"http://")
        sidecar = child_of(starter.pid)
        starter.kill()
    until(lambda: not sidecar.is_running(), "the sidecar leaves")
    assert list(room.iterdir()) == []


def test_signals_have_names_where_they_have_one() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(40) == "signal 40"
