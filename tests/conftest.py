"""The same world for every test: UTC, a C locale, an empty home, no network but this machine, golden files."""

import difflib
import ipaddress
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", parent=settings.get_profile("ci"), derandomize=False, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

FOREIGN = ("DDWATCH_", "SGLANG_", "XDG_", "SSH_", "TMUX", "LC_", "TEXTUAL")
"""Prefixes of variables that would let the developer's own set-up into a test."""
FOREIGN_NAMES = frozenset(
    {"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLORTERM", "COLUMNS", "LINES", "LANGUAGE", "PYTHONWARNINGS"}
    | {name for base in ("http", "https", "all", "no") for name in (f"{base}_proxy", f"{base.upper()}_PROXY")}
)
PACKAGES = {
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "journalctl": "systemd",
    "systemd-analyze": "systemd",
}
"""Debian packages of commands whose package has another name."""


def stated_environment(environ: dict[str, str]) -> dict[str, str]:
    """The environment of every test and of every process that a test starts."""
    kept = {
        name: value for name, value in environ.items() if name not in FOREIGN_NAMES and not name.startswith(FOREIGN)
    }
    beside_python = str(Path(sys.executable).parent)
    kept["PATH"] = os.pathsep.join([beside_python, environ.get("PATH", os.defpath)])
    # The machine's own hardware and processes stay out of tests that do not ask for them.
    ours = {"DDWATCH_NVML": "no", "DDWATCH_PROC": os.devnull}
    return {**kept, **ours, "TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


def reaches_out(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The host that a socket event would reach beyond this machine, or None."""
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return None
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or host in ("", "localhost", socket.gethostname()) or host.endswith(".invalid"):
        return None
    try:
        # An unspecified address connects to this machine.
        address_of_host = ipaddress.ip_address(host)
    except ValueError:
        return host
    return None if address_of_host.is_loopback or address_of_host.is_unspecified else host


def stay_home(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook that lets no test reach another machine."""
    host = reaches_out(event, arguments) if event.startswith("socket.") else None
    if host is not None:
        raise RuntimeError(f"a test tried to reach {host!r}; tests use this machine only, and .invalid for lost hosts")


def pinned_textual() -> str:
    """The Textual version that the pictures were drawn with."""
    for line in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if '"textual==' in line:
            return line.split("==")[1].split('"')[0]
    raise LookupError("pyproject.toml does not pin textual")


def refusal_to_update(textual: str, pinned: str, *, ci: bool) -> str | None:
    """Why golden files may not be rewritten here, or None."""
    if ci:
        return "--update-golden: CI never rewrites golden files"
    if textual != pinned:
        return f"--update-golden: Textual {textual} is installed, the pictures belong to {pinned}"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what the code says now; review the diff"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden"):
        reason = refusal_to_update(version("textual"), pinned_textual(), ci=under_ci())
        if reason is not None:
            raise pytest.UsageError(reason)
    stated = stated_environment(dict(os.environ))
    os.environ.clear()
    os.environ.update(stated)
    time.tzset()
    sys.addaudithook(stay_home)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if shutil.which("nvidia-smi") is None:
        skip = pytest.mark.skip(reason="no NVIDIA driver on this machine")
        for item in items:
            if item.get_closest_marker("gpu") is not None:
                item.add_marker(skip)


def under_ci() -> bool:
    """Whether a missing command is a failure rather than a counted skip."""
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


_homes = iter(range(sys.maxsize))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home folder for this test and the processes that it starts."""
    folder = tmp_path_factory.mktemp(f"home-{next(_homes)}", numbered=False)
    monkeypatch.setenv("HOME", str(folder))
    for name, part in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_RUNTIME_DIR", ".run"),
    ):
        monkeypatch.setenv(name, str(folder / part))
    return folder


@pytest.fixture
def needs_command() -> Callable[[str], Path]:
    """Finds a command; without it the test fails in CI and is skipped, and counted, elsewhere."""

    def find(name: str) -> Path:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
        sentence = f"{name} is not here: install the Debian package {PACKAGES.get(name, name)} (make test does it)"
        if under_ci():
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)

    return find


class Golden:
    """Compares what the code says now with a file that a reviewer has read."""

    def __init__(self, *, update: bool) -> None:
        self.update = update
        """True under --update-golden: the files are rewritten instead of compared."""

    def check(self, path: Path, actual: str) -> None:
        """Fails with a diff unless the file holds exactly `actual`; rewrites it under --update-golden."""
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"{path.name} does not exist; write it with --update-golden, then read it", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if expected != actual:
            diff = difflib.unified_diff(
                expected.splitlines(), actual.splitlines(), f"{path.name} (golden)", "now", lineterm=""
            )
            lines = "\n".join(list(diff)[:200])
            pytest.fail(f"{lines}\nIf this is right: pytest --update-golden, then review the diff.", pytrace=False)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Iterator[Golden]:
    """The one way to compare with a golden file: `golden.check(path, text)`."""
    yield Golden(update=update_golden)
