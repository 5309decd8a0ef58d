"""The tab key in a real bash and a real zsh, in a real terminal."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddwatch.cli import completed
from ddwatch.commands.completion import shapes
from ddwatch.commands.completion_bash import bash
from ddwatch.commands.completion_zsh import zsh
from tests.e2e.terminal import Terminal

SHELLS = {
    "bash": (("--norc", "--noprofile", "-i"), "source ./_ddwatch", bash),
    "zsh": (("-f", "-i"), "autoload -Uz compinit; compinit -u -D; source ./_ddwatch", zsh),
}
LINES = (
    ("ddwatch comple", "ddwatch completion"),
    ("ddwatch demo --scenario thr", "ddwatch demo --scenario throttle"),
    ("ddwatch alerts ack slow", "ddwatch alerts ack slow-step"),
    ("ddwatch steps serv", "ddwatch steps server.log"),
    ("ddwatch --log jour", "ddwatch --log journal:"),
    ("ddwatch-sidecar --notify-sev", "ddwatch-sidecar --notify-severity"),
    ("ddwatch check --assume", "ddwatch check --assume-idle"),
)
"""What is typed before the tab key, and what stands there after it."""


@pytest.fixture
def window(needs_command: Callable[[str], Path]) -> Iterator[Terminal]:
    made = Terminal(needs_command("tmux"), f"ddwatch-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    yield made
    made.tmux("kill-server")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes(
    shell: str, window: Terminal, needs_command: Callable[[str], Path], tmp_path: Path
) -> None:
    words, load, script = SHELLS[shell]
    (tmp_path / "_ddwatch").write_text(script(shapes(completed())), encoding="utf-8")
    (tmp_path / "server.log").touch()
    window.open(["env", "-C", str(tmp_path), "PS1=ready> ", str(needs_command(shell)), *words], 100, 30)
    window.shows("ready>")
    window.keys(f"{load}; PS1='loaded> '", "Enter")
    window.shows("\nloaded>")

    for typed, completed_line in LINES:
        window.keys(typed, "Tab")
        window.shows(f"loaded> {completed_line}")
        window.keys("C-u", "C-l")
