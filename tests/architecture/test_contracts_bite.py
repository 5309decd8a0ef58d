"""The import laws hold, and each of them is seen to fail on a violation seeded into a copy of the house."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def contracts() -> list[dict[str, Any]]:
    """The contracts as pyproject.toml states them."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = stated["tool"]["importlinter"]["contracts"]
    return found


class Seed(NamedTuple):
    """One violation: code added to the end of a file (which may be new), and the words that the report must hold."""

    contract: str
    file: str
    code: str
    reported: tuple[str, ...]


SEEDS = (
    Seed("rooms", "ddwatch/core/exits.py", "import ddwatch.feeds", ("ddwatch.core.exits -> ddwatch.feeds",)),
    Seed("rooms", "ddwatch/commands/__init__.py", "import ddwatch.cli", ("ddwatch.commands -> ddwatch.cli",)),
    Seed("rooms", "ddwatch/screens/__init__.py", "import ddwatch.commands", ("ddwatch.screens -> ddwatch.commands",)),
    Seed("rooms", "ddwatch/widgets/__init__.py", "import ddwatch.feeds", ("ddwatch.widgets -> ddwatch.feeds",)),
    Seed("rooms", "ddwatch/feeds/__init__.py", "import ddwatch.demo", ("ddwatch.feeds -> ddwatch.demo",)),
    Seed("rooms", "ddwatch/probes/__init__.py", "import ddwatch.screens", ("ddwatch.probes -> ddwatch.screens",)),
    Seed("rooms", "ddwatch/utils.py", "", ("ddwatch.utils",)),
    Seed(
        "sidecar-rooms",
        "sidecar/ddwatch_sidecar/sources/__init__.py",
        "import ddwatch_sidecar.exports",
        ("ddwatch_sidecar.sources -> ddwatch_sidecar.exports",),
    ),
    Seed("sidecar-rooms", "sidecar/ddwatch_sidecar/helpers.py", "", ("ddwatch_sidecar.helpers",)),
    Seed(
        "core-order",
        "ddwatch/core/records.py",
        "import ddwatch.core.wire",
        ("ddwatch.core.records -> ddwatch.core.wire",),
    ),
    Seed("core-order", "ddwatch/core/common.py", "", ("ddwatch.core.common",)),
    Seed("no-sidecar-inside", "ddwatch/__init__.py", "import ddwatch_sidecar", ("ddwatch is not allowed to import",)),
    Seed(
        "no-sidecar-inside",
        "ddwatch/demo/__init__.py",
        "import ddwatch_sidecar.exports",
        ("ddwatch.demo is not allowed to import ddwatch_sidecar.exports",),
    ),
    *(
        Seed(
            "sidecar-has-no-screen",
            "sidecar/ddwatch_sidecar/exports/__init__.py",
            f"import {module}",
            (f"ddwatch_sidecar.exports is not allowed to import {module}",),
        )
        for module in (
            "textual",
            "rich",
            "ddwatch.cli",
            "ddwatch.commands",
            "ddwatch.app",
            "ddwatch.screens",
            "ddwatch.feeds",
        )
    ),
    Seed(
        "sidecar-has-no-screen",
        "sidecar/ddwatch_sidecar/__init__.py",
        "import ddwatch.widgets",
        ("ddwatch_sidecar is not allowed to import ddwatch.widgets",),
    ),
)


def seeds_of_forbidden_modules() -> list[Seed]:
    """For the contracts that list modules of other projects: every listed module, one by one."""
    places = {
        "core-is-pure": ("ddwatch/core/snapshot.py", "ddwatch.core.snapshot"),
        "only-the-screen-draws": ("ddwatch/feeds/__init__.py", "ddwatch.feeds"),
        "the-screen-never-fetches": ("ddwatch/widgets/__init__.py", "ddwatch.widgets"),
        "readings-belong-to-the-sidecar": ("ddwatch/demo/__init__.py", "ddwatch.demo"),
    }
    seeds = []
    for contract in contracts():
        if contract["id"] in places:
            file, module = places[contract["id"]]
            forbidden = contract["forbidden_modules"]
            code = "\n".join(f"import {name}" for name in forbidden)
            seeds.append(Seed(contract["id"], file, code, tuple(f"{module} -> {name}" for name in forbidden)))
    return seeds


def lint(house: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs import-linter over the house that stands in this folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(house), str(house / "sidecar")]),
        "COLUMNS": "500",
        "NO_COLOR": "1",
    }
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", *options]
    return subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the house to spoil."""
    for part in ("ddwatch", "sidecar"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def expect_kept(result: subprocess.CompletedProcess[str]) -> None:
    """Fails with the part of the report that names the violations."""
    if result.returncode != 0:
        pytest.fail(result.stdout.split("Broken contracts\n")[-1].strip() + result.stderr, pytrace=False)


def test_the_house_keeps_its_import_laws() -> None:
    expect_kept(lint(ROOT))


def test_an_unspoiled_copy_keeps_them_too(house: Path) -> None:
    expect_kept(lint(house))


@pytest.mark.parametrize(
    "seed", [*SEEDS, *seeds_of_forbidden_modules()], ids=lambda seed: f"{seed.contract}: {seed.file} {seed.code[:40]!r}"
)
def test_a_violation_breaks_its_contract(house: Path, seed: Seed) -> None:
    file = house / seed.file
    before = file.read_text(encoding="utf-8") if file.exists() else '"""Has no place here."""\n'
    file.write_text(f"{before}\n{seed.code}\n", encoding="utf-8")

    result = lint(house, "--contract", seed.contract)

    name = next(contract["name"] for contract in contracts() if contract["id"] == seed.contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{name} BROKEN" in result.stdout
    # The report breaks long lines; the words are what counts.
    report = " ".join(result.stdout.split())
    missing = [words for words in seed.reported if words not in report]
    assert missing == [], result.stdout


def test_every_contract_is_seen_to_fail() -> None:
    stated = {contract["id"] for contract in contracts()}
    seeded = {seed.contract for seed in [*SEEDS, *seeds_of_forbidden_modules()]}

    assert seeded == stated


def test_a_contract_that_names_a_room_says_whether_it_means_the_whole_room() -> None:
    # On a root package a forbidden contract with as_packages = true is vacuous: it looks at no edge inside its source.
    roots = {"ddwatch", "ddwatch_sidecar"}
    for contract in contracts():
        if contract["type"] == "forbidden" and roots & set(contract["source_modules"]):
            assert contract.get("as_packages") is False, contract["id"]
