"""The stand-in for the driver's library is compiled once per user, into a folder of their own, or says why not."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ddwatch.demo.gpus.library import SOURCE, NoLibrary, compiled, key, library


@pytest.fixture
def compiler(needs_command: Callable[[str], Path]) -> Path:
    return needs_command("gcc")


def program(folder: Path, name: str, script: str) -> None:
    """A small shell program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_it_is_compiled_once_into_a_folder_of_this_users_own(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache" / "demo"
    first = library([folder])
    assert first.parent == folder and key() in first.name
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [first.name]
    # What is there needs no compiler any more.
    monkeypatch.setenv("PATH", str(tmp_path))
    written = first.stat().st_mtime_ns
    assert library([folder]) == first
    assert first.stat().st_mtime_ns == written


def test_a_folder_that_others_may_read_is_closed(compiler: Path, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    library([folder])
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_somewhere_else_is_left_alone_for_the_next_one(compiler: Path, tmp_path: Path) -> None:
    elsewhere, link, good = tmp_path / "elsewhere", tmp_path / "link", tmp_path / "good"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    assert library([link, good]).parent == good
    assert list(elsewhere.iterdir()) == []


def test_without_a_folder_it_says_why(compiler: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoLibrary, match=r"their driver stub cannot be kept \(.+\); everything else works"):
        library([tmp_path / "file" / "below"])


def test_without_a_compiler_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLibrary) as caught:
        library([tmp_path / "cache"])
    assert str(caught.value) == (
        "the simulated service has no GPUs here: their driver stub needs a C compiler (cc, gcc or clang); "
        "everything else works"
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'note: this' >&2; echo 'nvml_stub.c:13:10: fatal error: math.h: No such file' >&2; exit 1", "math.h"),
        ("exit 1", "no reason given"),
    ],
)
def test_a_compiler_that_fails_is_one_sentence_and_leaves_nothing(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "cc", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(NoLibrary) as caught:
        library([tmp_path / "cache"])
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_compiler_that_cannot_be_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoLibrary, match="could not be used"):
        compiled(str(tmp_path / "absent"), tmp_path / "library.so")


def test_its_source_raises_no_warning(compiler: Path, tmp_path: Path) -> None:
    compiled(str(compiler), tmp_path / "library.so", ("-Wall", "-Wextra", "-Werror"))


def test_its_source_travels_with_the_package(tmp_path: Path) -> None:
    """Both packages are made by hatchling out of the tracked files; neither needs the network."""
    root = SOURCE.parents[3]
    listed = subprocess.run(
        ["git", "ls-files", "--error-unmatch", str(SOURCE.relative_to(root))], cwd=root, capture_output=True
    )
    assert listed.returncode == 0
