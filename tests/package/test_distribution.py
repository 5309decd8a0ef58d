"""The wheel and the sdist: built without network, installed into a fresh environment, and used from there."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

import pytest
from hatchling import __about__ as hatchling_about
from trove_classifiers import classifiers

from ddwatch import __version__
from ddwatch.core.exits import Exit
from tests.architecture.checkout import ROOT, tracked_paths

WHEEL = f"ddwatch-{__version__}-py3-none-any.whl"
SDIST = f"ddwatch-{__version__}.tar.gz"
NEEDED = (
    "ddwatch/app.tcss",
    "ddwatch/py.typed",
    "ddwatch/demo/gpus/nvml_stub.c",
    "ddwatch/demo/server_arguments.json",
    "ddwatch/probes/texts/code.txt",
    "ddwatch/profiles/kimi-k2.6-ddtree-8x-rtx-pro-6000.toml",
    "ddwatch_sidecar/py.typed",
)
"""Files beside the code without which a command fails when it is used."""


class Distribution(NamedTuple):
    """What was built."""

    sdist: Path
    wheel: Path


def built(source: Path, into: Path, kind: str) -> None:
    """Builds an sdist or a wheel with the build backend itself."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """The sdist of this checkout, and the wheel that is built from that sdist alone."""
    folder = tmp_path_factory.mktemp("distribution")
    built(ROOT, folder, "sdist")
    with tarfile.open(folder / SDIST) as packed:
        packed.extractall(folder, filter="data")
    built(folder / SDIST.removesuffix(".tar.gz"), folder, "wheel")
    return Distribution(folder / SDIST, folder / WHEEL)


class Installed:
    """A fresh environment with the wheel; what ddwatch depends on is borrowed from the environment of the tests."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        venv.create(folder / "venv", with_pip=False)
        self.bin = folder / "venv" / "bin"
        # Added by a line of a .pth, a folder's own .pth files are not read: no editable ddwatch comes with it.
        borrowed = self.packages() / "borrowed.pth"
        borrowed.write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
        self.install(wheel)

    def packages(self) -> Path:
        (found,) = (self._folder / "venv").glob("lib/python*/site-packages")
        return found

    def install(self, wheel: Path) -> None:
        words = ["--python", str(self.bin / "python"), "install", "--quiet", "--no-deps", "--no-index"]
        words += ["--disable-pip-version-check", "--force-reinstall", str(wheel)]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of the installed package, away from the checkout."""
        environment = {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        environment |= {name: os.environ[name] for name in ("DDWATCH_NVML", "DDWATCH_PROC")}
        return subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def said(self, *words: str) -> str:
        """What a command prints that ends well."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), distribution.wheel)


def names_in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        return set(packed.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as packed:
        return Parser().parsestr(packed.read(f"ddwatch-{__version__}.dist-info/METADATA").decode("utf-8"))


def test_the_wheel_holds_every_tracked_file_of_both_packages_and_no_other_room(distribution: Distribution) -> None:
    names = names_in_wheel(distribution.wheel)
    tracked = {path for path in tracked_paths() if (ROOT / path).exists()}

    packages = {path for path in tracked if path.startswith("ddwatch/")}
    packages |= {path.removeprefix("sidecar/") for path in tracked if path.startswith("sidecar/ddwatch_sidecar/")}
    assert packages - names == set()
    assert {name.split("/")[0] for name in names} == {"ddwatch", "ddwatch_sidecar", f"ddwatch-{__version__}.dist-info"}
    assert set(NEEDED) <= names


def test_the_sdist_holds_what_is_tracked(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames() if "/" in name}

    assert {path for path in tracked_paths() if (ROOT / path).exists()} - names == set()


def lacking(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    return [name for name in needed if name not in names]


def test_a_file_that_is_left_out_is_seen(distribution: Distribution, tmp_path: Path) -> None:
    with tarfile.open(distribution.sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    source = tmp_path / SDIST.removesuffix(".tar.gz")
    (source / "ddwatch/app.tcss").unlink()

    built(source, tmp_path, "wheel")

    assert lacking(sorted(names_in_wheel(tmp_path / WHEEL)), NEEDED) == ["ddwatch/app.tcss"]


def test_the_metadata_says_what_it_is(distribution: Distribution) -> None:
    found = metadata(distribution.wheel)

    assert (found["Name"], found["Version"], found["Requires-Python"]) == ("ddwatch", __version__, ">=3.10")
    assert found["Description-Content-Type"] == "text/markdown"
    assert str(found.get_payload()).startswith("# ddwatch\n")
    named = found.get_all("Classifier", [])
    assert named and set(named) <= set(classifiers)
    lowest = min(int(minor) for minor in re.findall(r":: 3\.(\d+)", "\n".join(named)))
    assert lowest == 10
    assert "Typing :: Typed" in named
    requirements = [line for line in found.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert any(line.startswith("textual==") for line in requirements)
    assert not any(re.match(r"(pytest|mypy|ruff|hypothesis|hatchling)\b", line) for line in requirements)


def test_the_build_backend_is_the_one_that_is_required() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (lowest,) = set(re.findall(r'"hatchling>=([\d.]+)"', text))

    assert tuple(map(int, hatchling_about.__version__.split(".")[:2])) >= tuple(map(int, lowest.split(".")))


def test_what_is_installed_is_the_wheel(installed: Installed) -> None:
    told = installed.said(
        "python", "-c", "import ddwatch, ddwatch_sidecar; print(ddwatch.__file__, ddwatch_sidecar.__file__)"
    )

    assert all(Path(path).is_relative_to(installed.packages()) for path in told.split())


def test_both_commands_answer(installed: Installed) -> None:
    assert installed.said("ddwatch", "--version") == f"ddwatch {__version__}\n"
    assert installed.said("ddwatch-sidecar", "--version") == f"ddwatch-sidecar {__version__}\n"
    assert installed.said("ddwatch-sidecar", "--help").startswith("usage: ddwatch-sidecar")
    assert "commands:" in installed.said("ddwatch", "--help")


def test_the_demo_plays_from_the_wheel(installed: Installed) -> None:
    done = installed.run("ddwatch", "demo", "--headless", "--seconds", "5", "--json")

    assert done.returncode in {Exit.OK, Exit.NOTICE, Exit.PAGE, Exit.UNJUDGED}, done.stderr
    document = json.loads(done.stdout)
    assert document["simulated"] is True and document["snapshot"]["ranks"], done.stdout


def test_the_screen_finds_its_style_sheet(installed: Installed) -> None:
    script = (
        "from ddwatch.app import DDWatch; from pathlib import Path; import ddwatch.app as a; "
        "print((Path(a.__file__).parent / DDWatch.CSS_PATH).is_file())"
    )

    assert installed.said("python", "-c", script) == "True\n"


def test_rules_dashboard_and_completion_are_those_of_the_checkout(installed: Installed) -> None:
    deploy = ROOT / "sidecar" / "deploy"

    assert installed.said("ddwatch", "rules") == (deploy / "ddwatch-rules.yml").read_text(encoding="utf-8")
    assert installed.said("ddwatch", "dashboard") == (deploy / "grafana-dashboard.json").read_text(encoding="utf-8")
    assert "complete -F _ddwatch" in installed.said("ddwatch", "completion", "bash")


def test_an_upgrade_keeps_profiles_and_recordings(installed: Installed, distribution: Distribution) -> None:
    built_in = installed.said("ddwatch", "profile", "show", "kimi-k2.6-ddtree-8x-rtx-pro-6000", "--toml")
    own = installed.home / ".local/share/ddwatch/profiles"
    own.mkdir(parents=True)
    (own / "ours.toml").write_text(built_in, encoding="utf-8")
    recordings = installed.home / ".local/state/ddwatch/recordings"
    recordings.mkdir(parents=True)
    (recordings / "kept").write_text("kept", encoding="utf-8")

    installed.install(distribution.wheel)

    assert "ours" in installed.said("ddwatch", "profile", "list")
    assert installed.said("ddwatch", "profile", "show", "ours", "--toml") == built_in
    assert (recordings / "kept").read_text(encoding="utf-8") == "kept"
