"""The make targets bring their own environment, and say in one sentence what they lack."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A bare checkout: what make needs, without an environment."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    return tmp_path


def run(checkout: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def program(folder: Path, name: str, script: str) -> Path:
    """A small shell program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_help_is_the_default_and_names_every_documented_target(checkout: Path) -> None:
    result = run(checkout, "make")

    documented = {
        line.split(":")[0]
        for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
        if ":" in line and " ## " in line
    }
    assert result.returncode == 0
    assert {line.split()[1] for line in result.stdout.splitlines()} == documented
    assert {"help", "demo", "test", "test-fast", "check", "bench", "schemas", "clean"} <= documented


def test_a_python_that_is_too_old_is_refused(checkout: Path) -> None:
    old = program(checkout / "fake", "python-old", "exit 1")

    result = run(checkout, "tools/environment", "runtime", PYTHON=str(old))

    assert result.returncode == 1
    assert result.stderr == f"ddwatch: PYTHON={old} is not a Python 3.10 or newer\n"


def test_without_any_python_it_says_what_to_install(checkout: Path) -> None:
    tools = ("sh", "awk", "cksum", "cat", "dirname", "head", "env")
    (checkout / "only").mkdir()
    for name in tools:
        found = shutil.which(name)
        assert found is not None, name
        (checkout / "only" / name).symlink_to(found)

    result = run(checkout, "sh", "tools/environment", "runtime", PATH=str(checkout / "only"))

    assert result.returncode == 1
    assert result.stderr.startswith("ddwatch: no Python 3.10 or newer here; install one")


def test_a_python_without_venv_is_told_by_package_name(checkout: Path) -> None:
    bare = program(
        checkout / "fake",
        "python-bare",
        'case "$2" in *print*) echo 3.12 ;; *ensurepip*) exit 1 ;; *) exit 0 ;; esac',
    )

    result = run(checkout, "tools/environment", "runtime", PYTHON=str(bare))

    assert result.returncode == 1
    assert result.stderr.endswith("on Debian and Ubuntu: sudo apt-get install python3.12-venv\n")
    assert result.stderr.count("\n") == 1


def test_the_environment_of_the_benchmarks_holds_that_of_the_tests(checkout: Path) -> None:
    program(checkout / ".venv" / "bin", "python", f'echo "$@" >>{checkout}/asked')

    first, *others = [run(checkout, "tools/environment", want) for want in ("bench", "dev", "runtime", "bench")]

    assert (first.returncode, first.stderr.count("\n")) == (0, 1)
    assert [(one.returncode, one.stderr) for one in others] == [(0, "")] * 3
    asked = (checkout / "asked").read_text(encoding="utf-8").splitlines()
    assert [words.split()[-1] for words in asked if " install " in words] == [".[dev,bench]"]
    assert run(checkout, "tools/environment", "all").returncode == 64


def test_commands_that_cannot_be_had_are_named_and_do_not_stop_the_tests(checkout: Path) -> None:
    result = run(checkout, "tools/packages", "sh", "no-such-command", "nor-this", PATH=only_coreutils(checkout))

    assert result.returncode == 0
    assert result.stderr == "ddwatch: not here and not to be had with apt-get: no-such-command nor-this\n"


def only_coreutils(checkout: Path) -> str:
    """A PATH without apt-get."""
    folder = checkout / "coreutils"
    folder.mkdir()
    for name in ("sh", "dirname", "id", "env"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


def test_binaries_of_servers_are_taken_out_of_their_packages_and_no_package_is_installed(checkout: Path) -> None:
    binaries = ("promtool", "prometheus", "prometheus-alertmanager", "amtool")
    for name in binaries:
        program(checkout / "content" / "usr" / "bin", name, f"echo this is {name}")
    templates = "usr/share/prometheus/alertmanager"
    (checkout / "content" / templates).mkdir(parents=True)
    (checkout / "content" / templates / "default.tmpl").write_text("a template", encoding="utf-8")
    program(checkout / "fake", "id", "echo 0")
    program(checkout / "fake", "apt-get", f'echo "$@" >>{checkout}/asked\n[ "$1" = download ] && : >"$2.deb"')
    program(checkout / "fake", "dpkg-deb", f"exec tar -c -C {checkout}/content .")
    tools = ("sh", "env", "dirname", "mktemp", "mkdir", "chmod", "tar", "install", "rm")
    for name in tools:
        (checkout / "fake" / name).symlink_to(str(shutil.which(name)))
    (checkout / ".venv" / "bin").mkdir(parents=True)

    result = run(checkout, "tools/packages", *binaries, PATH=str(checkout / "fake"), DESTDIR=str(checkout / "system"))

    assert (result.returncode, result.stderr) == (
        0,
        "ddwatch: fetching promtool prometheus prometheus-alertmanager amtool from Debian's packages\n",
    )
    assert (checkout / "asked").read_text(encoding="utf-8").splitlines() == [
        "download prometheus",
        "download prometheus-alertmanager",
    ]
    assert {path.name for path in (checkout / ".venv" / "bin").iterdir()} == set(binaries)
    system = [path for path in (checkout / "system").rglob("*") if path.is_file()]
    assert system == [checkout / "system" / templates / "default.tmpl"]
    found = subprocess.run([checkout / ".venv" / "bin" / "amtool"], capture_output=True, text=True, check=True)
    assert found.stdout == "this is amtool\n"


def test_commands_that_are_here_cost_no_word(checkout: Path) -> None:
    result = run(checkout, "tools/packages", "sh", "env")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
