"""Every test runs in the same small world, and the walls of that world hold."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import settings

from tests.architecture.checkout import ROOT
from tests.conftest import Golden, pinned_textual, reaches_out, refusal_to_update, stated_environment

PROBE = """
import os, pathlib
def test_needs(needs_command):
    needs_command("no-such-command")
def test_golden(golden):
    golden.check(pathlib.Path(os.environ["PROBED"]), "new")
"""


def probe(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest on a small test file below our conftest's fixtures, in its own process."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_probe.py").write_text(PROBE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-ra"]
    merged = {**os.environ, "CI": "", "PROBED": str(folder / "golden.txt"), **environment}
    return subprocess.run(
        [*command, *options, str(folder)], cwd=folder, env=merged, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like tests/ of a checkout that pins the installed Textual."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tests = tmp_path / "tests"
    tests.mkdir()
    return tests


def test_time_is_utc_and_text_is_utf_8() -> None:
    assert time.tzname == ("UTC", "UTC")
    assert datetime.fromtimestamp(0).isoformat() == "1970-01-01T00:00:00"  # noqa: DTZ006 - the local zone is the point
    assert subprocess.run(["locale", "charmap"], capture_output=True, text=True, check=True).stdout == "UTF-8\n"


def test_home_is_empty_and_the_developers_own_settings_stay_outside(home: Path) -> None:
    assert list(Path.home().iterdir()) == []
    assert Path.home() == home
    assert Path(os.environ["XDG_CONFIG_HOME"]).is_relative_to(home)
    stated = stated_environment(
        {"DDWATCH_TOKEN": "x", "NO_COLOR": "1", "https_proxy": "x", "LC_TIME": "de_DE", "COLUMNS": "7", "KEEP": "1"}
    )
    assert {*stated} - {"PATH", "TZ", "LC_ALL", "TERM", "DDWATCH_NVML", "DDWATCH_PROC"} == {"KEEP"}


def test_hypothesis_repeats_itself() -> None:
    assert settings.default is not None
    assert settings.default.derandomize
    assert settings.default.deadline is None


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("192.0.2.1", 80))),
        ("socket.connect", (None, ("2001:db8::1", 80, 0, 0))),
        ("socket.sendto", (None, ("198.51.100.7", 53))),
        ("socket.getaddrinfo", ("example.org", 443, 0, 0, 0)),
        ("socket.getaddrinfo", (b"example.org", 443, 0, 0, 0)),
    ],
)
def test_another_machine_is_out_of_reach(event: str, arguments: tuple[object, ...]) -> None:
    assert reaches_out(event, arguments) is not None


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.connect", (None, ("127.0.0.1", 80))),
        ("socket.connect", (None, ("::1", 80, 0, 0))),
        ("socket.connect", (None, "/run/some.socket")),
        ("socket.getaddrinfo", ("localhost", 80, 0, 0, 0)),
        ("socket.getaddrinfo", (None, 80, 0, 0, 0)),
        ("socket.getaddrinfo", ("gone.invalid", 80, 0, 0, 0)),
        ("socket.bind", (None, ("0.0.0.0", 0))),
    ],
)
def test_this_machine_is_within_reach(event: str, arguments: tuple[object, ...]) -> None:
    assert reaches_out(event, arguments) is None


def test_a_real_connection_beyond_this_machine_is_stopped() -> None:
    with socket.socket() as stranger, pytest.raises(RuntimeError, match="tests use this machine only"):
        stranger.connect(("192.0.2.1", 80))
    with pytest.raises(RuntimeError, match=r"example\.org"):
        socket.getaddrinfo("example.org", 443)


def test_a_real_connection_to_this_machine_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2]) as client:
        assert client.getpeername() == server.getsockname()


def test_a_missing_command_fails_in_ci_and_is_counted_elsewhere(folder: Path) -> None:
    here = probe(folder, "-k", "needs")
    in_ci = probe(folder, "-k", "needs", CI="true")

    sentence = "no-such-command is not here: install the Debian package no-such-command"
    assert here.returncode == 0 and "1 skipped" in here.stdout and sentence in here.stdout
    assert in_ci.returncode == 1 and "1 failed" in in_ci.stdout and sentence in in_ci.stdout


def test_a_command_that_is_here_is_found(needs_command: Callable[[str], Path]) -> None:
    assert needs_command("sh").name == "sh"


def test_a_golden_file_is_compared_and_rewritten_only_when_asked(folder: Path) -> None:
    golden = folder / "golden.txt"
    missing = probe(folder, "-k", "golden")
    golden.write_text("old\n", encoding="utf-8")
    different = probe(folder, "-k", "golden")
    refused = probe(folder, "-k", "golden", "--update-golden", CI="true")
    assert golden.read_text(encoding="utf-8") == "old\n"
    updated = probe(folder, "-k", "golden", "--update-golden")

    assert missing.returncode == 1 and "does not exist" in missing.stdout
    assert different.returncode == 1 and "-old" in different.stdout and "+new" in different.stdout
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR and "CI never rewrites" in refused.stderr
    assert updated.returncode == 0 and golden.read_text(encoding="utf-8") == "new"


def test_pictures_are_not_redrawn_with_another_textual() -> None:
    assert refusal_to_update("8.2.8", "8.2.8", ci=False) is None
    assert refusal_to_update("8.2.9", "8.2.8", ci=False) is not None
    assert refusal_to_update("8.2.8", "8.2.8", ci=True) is not None
    assert pinned_textual().count(".") == 2


def test_an_equal_golden_file_passes(tmp_path: Path) -> None:
    path = tmp_path / "golden.txt"
    path.write_text("as it was\n", encoding="utf-8")

    Golden(update=False).check(path, "as it was\n")
    with pytest.raises(pytest.fail.Exception, match="review the diff"):
        Golden(update=False).check(path, "otherwise\n")
