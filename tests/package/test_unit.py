"""The systemd unit, as systemd itself reads it: no word of it is wrong, and little is left open."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

UNIT = ROOT / "sidecar" / "deploy" / "ddwatch-sidecar.service"
PROGRAM = "/usr/local/bin/ddwatch-sidecar"
MOST_EXPOSED = 25
"""Of 100; systemd calls up to 49 OK. What is left is the network, /proc and the NVIDIA devices, which it needs."""


def analysed(needs_command: Callable[[str], Path], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(needs_command("systemd-analyze")), *words], capture_output=True, text=True, timeout=60, check=False
    )


def written(folder: Path, text: str) -> str:
    """The unit with a program that is here, under its own name."""
    path = folder / UNIT.name
    assert text.count(PROGRAM) == 1
    path.write_text(text.replace(PROGRAM, sys.executable), encoding="utf-8")
    return str(path)


def with_all_that_is_offered(text: str) -> str:
    """The unit with its commented settings on."""
    offered = [line for line in text.splitlines() if line.startswith(("# SupplementaryGroups=", "# LoadCredential="))]
    assert len(offered) == 2
    for line in offered:
        text = text.replace(line, line.removeprefix("# "))
    return text


@pytest.mark.parametrize("variant", [str, with_all_that_is_offered])
def test_systemd_finds_nothing_wrong_with_it(
    variant: Callable[[str], str], needs_command: Callable[[str], Path], tmp_path: Path
) -> None:
    path = written(tmp_path, variant(UNIT.read_text(encoding="utf-8")))

    done = analysed(needs_command, "verify", "--man=no", path)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_wrong_word_is_seen(needs_command: Callable[[str], Path], tmp_path: Path) -> None:
    path = written(tmp_path, UNIT.read_text(encoding="utf-8").replace("ProtectClock=yes", "ProtectClocks=yes"))

    done = analysed(needs_command, "verify", "--man=no", path)

    assert "ProtectClocks" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("without", "passes"),
    [("", True), ("CapabilityBoundingSet=\nSystemCallFilter=@system-service\nDynamicUser=yes", False)],
)
def test_systemd_finds_it_little_exposed(
    without: str, passes: bool, needs_command: Callable[[str], Path], tmp_path: Path
) -> None:
    text = UNIT.read_text(encoding="utf-8")
    for line in without.splitlines():
        assert f"{line}\n" in text
        text = text.replace(f"{line}\n", "")
    path = written(tmp_path, text)

    done = analysed(needs_command, "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", path)

    assert (done.returncode == 0) is passes, done.stdout + done.stderr
