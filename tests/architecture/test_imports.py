"""What a fresh interpreter really loads: the core stays pure, the sidecar needs no screen, `--help` stays light."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddwatch.cli import COMMANDS
from tests.architecture.checkout import ROOT

IMPURE = frozenset(
    {"textual", "rich", "prometheus_client", "pynvml", "asyncio", "socket", "aiohttp", "httpx", "psutil", "threading",
     "subprocess", "logging", "sqlite3", "ssl", "multiprocessing"}
)  # fmt: skip
"""Modules that nothing in the core may cause to be loaded, directly or by way of a library."""
HEAVY = frozenset({"textual", "rich", "aiohttp", "httpx", "prometheus_client", "pynvml", "psutil", "asyncio", "numpy"})
"""Modules that no command may load before it is known to be needed."""

LOADED = """
import importlib, json, pkgutil, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), name + "."):
        importlib.import_module(found.name)
sys.stderr.write("\\n".join(sorted(set(sys.modules) - before)))
"""
"""Imports the named modules with all that is below them; says on stderr which modules that loaded."""

BLOCKED = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"textual", "rich", "pynvml"}:
            raise ImportError(f"{name} is not installed on a GPU host")

sys.meta_path.insert(0, Blocked())
module, *sys.argv = sys.argv[1:]
sys.argv.insert(0, module)
runpy.run_module(module, run_name="__main__", alter_sys=False)
"""
"""Runs a module in an interpreter where the screen's libraries and NVML cannot be imported."""


def python(code: str, *arguments: str, house: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter that finds our packages in this house."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(house), str(house / "sidecar")])}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=house,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def loaded_by(*modules: str, house: Path = ROOT) -> set[str]:
    """Top-level names of the modules that importing these, and all below them, brings in."""
    result = python(LOADED, *modules, house=house)
    assert result.returncode == 0, result.stderr
    return {name.split(".")[0] for name in result.stderr.split()}


def test_the_whole_core_loads_nothing_impure() -> None:
    loaded = loaded_by("ddwatch.core")

    assert "msgspec" in loaded
    assert loaded & IMPURE == set()


@pytest.mark.parametrize("module", sorted(IMPURE))
def test_an_impure_core_is_seen(module: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "ddwatch", tmp_path / "ddwatch", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "ddwatch/core/stray.py").write_text(f"import {module}\n", encoding="utf-8")

    assert module in loaded_by("ddwatch.core", house=tmp_path)


@pytest.mark.parametrize("name", ["ddwatch.cli", *(command.module for command in COMMANDS)])
def test_a_command_is_light_until_it_runs(name: str) -> None:
    assert loaded_by(name) & HEAVY == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_sidecar_answers_without_screen_libraries_and_nvml(arguments: list[str]) -> None:
    result = python(BLOCKED, "ddwatch_sidecar.cli", *arguments)

    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("usage: ddwatch-sidecar" if arguments == ["--help"] else "ddwatch")


def test_every_module_of_the_sidecar_can_be_imported_without_them() -> None:
    code = BLOCKED.split("module, *sys.argv")[0] + LOADED
    result = python(code, "ddwatch_sidecar")

    assert result.returncode == 0, result.stderr


def test_the_block_blocks() -> None:
    result = python(BLOCKED, "textual")

    assert result.returncode != 0
    assert "not installed on a GPU host" in result.stderr
