"""`ddwatch completion`: real shells read the scripts and offer what the parsers know."""

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ddwatch_sidecar.cli import parser as sidecar_parser

from ddwatch.cli import COMMANDS, completed
from ddwatch.command_line import Flag, flags_of
from ddwatch.commands.completion import flags_of_sidecar, shapes
from ddwatch.commands.completion_bash import bash
from ddwatch.commands.completion_fish import fish
from ddwatch.commands.completion_words import Shape, unknown
from ddwatch.commands.completion_zsh import zsh
from ddwatch.core.exits import Exit
from tests.commands.documents import held_against
from tests.commands.said import said

OWN_PROFILE = "ours-on-gpu01"
CASES: tuple[tuple[Sequence[str], set[str]], ...] = (
    (("ddwatch", "comp"), {"compare", "completion"}),
    (("ddwatch", "demo", "--scenario", "thr"), {"throttle"}),
    (("ddwatch", "demo", "--headless", "--scenario", "thr"), {"throttle"}),
    (("ddwatch", "--on"), {"--once"}),
    (("ddwatch", "--bell", "pa"), {"page"}),
    (("ddwatch", "--log", "journal:u"), {"journal:user/"}),
    (("ddwatch", "--profile", "ours"), {OWN_PROFILE}),
    (("ddwatch", "predict", "--profile", "kimi"), {"kimi-k2.6-ddtree-8x-rtx-pro-6000"}),
    (("ddwatch", "profile", "for"), {"forget"}),
    (("ddwatch", "profile", "show", "ours"), {OWN_PROFILE}),
    (("ddwatch", "alerts", "mut"), {"mute"}),
    (("ddwatch", "alerts", "mute", "--for", "2h", "retr"), {"retractions"}),
    (("ddwatch", "alerts", "--note", "ack", "unm"), {"unmute"}),
    (("ddwatch", "export", "folder", "--format", "c"), {"csv"}),
    (("ddwatch", "replay", "--fail-on", "slow"), {"slow-step"}),
    (("ddwatch", "replay", "server.l"), {"server.log"}),
    (("ddwatch", "fit", "server.log", "oth"), {"other.log"}),
    (("ddwatch", "sidecar", "--record", "sub"), {"subfolder"}),
    (("ddwatch-sidecar", "--notify-severity", "no"), {"notice"}),
    (("ddwatch-sidecar", "--print"), {"--print-config", "--print-flags"}),
    (("ddwatch", "steps", "--tz", "U"), {"UTC"}),
    (("ddwatch", "predict", "--context", ""), set()),
    (("ddwatch", "completion", ""), {"bash", "zsh", "fish"}),
)
"""Words before the tab key, and all that is offered."""


@pytest.fixture(scope="module")
def commands() -> list[Shape]:
    return shapes(completed())


@pytest.fixture
def place(tmp_path: Path, home: Path) -> Path:
    """A folder with two logs and a folder, and a profile of one's own."""
    own = home / ".local/share/ddwatch/profiles"
    own.mkdir(parents=True)
    (own / f"{OWN_PROFILE}.toml").touch()
    for name in ("server.log", "other.log"):
        (tmp_path / name).touch()
    (tmp_path / "subfolder").mkdir()
    return tmp_path


def ran(folder: Path, *words: str | Path) -> str:
    """What a command prints; it may say nothing else."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "TERM": "dumb"}
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def parted(text: str) -> list[list[str]]:
    """Lines up to each line that is a dot."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line == ".":
            found.append([])
        else:
            found[-1].append(line)
    return found[:-1]


def asked_of_bash(words: Sequence[str]) -> str:
    """The lines that ask a bash with the script for what it offers."""
    return (
        f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _ddwatch\n"
        'printf "%s\\n" "${COMPREPLY[@]}"; echo .\n'
    )


def offered_by_bash(folder: Path, program: Path, script: str, asked: Sequence[Sequence[str]]) -> list[set[str]]:
    """What a bash process offers for each line."""
    file = folder / "asked.sh"
    file.write_text("set -u\n" + script + "".join(asked_of_bash(words) for words in asked), encoding="utf-8")
    return [{line for line in part if line} for part in parted(ran(folder, program, "--norc", file))]


def test_bash_offers_what_fits(commands: list[Shape], place: Path, needs_command: Callable[[str], Path]) -> None:
    found = offered_by_bash(place, needs_command("bash"), bash(commands), [words for words, _ in CASES])

    assert {words: offer for (words, _), offer in zip(CASES, found, strict=True)} == dict(CASES)


def test_bash_offers_every_command_and_every_flag(
    commands: list[Shape], place: Path, needs_command: Callable[[str], Path]
) -> None:
    lines = [("ddwatch", ""), *[("ddwatch", command.name, "-") for command in COMMANDS], ("ddwatch-sidecar", "-")]

    names, *flags = offered_by_bash(place, needs_command("bash"), bash(commands), lines)

    assert names == {command.name for command in COMMANDS}
    stated = {name: {word for flag in flags for word in flag.names} for name, _, flags in completed()}
    stated["sidecar"] = {word for flag in flags_of(sidecar_parser()) for word in flag.names}
    assert dict(zip(stated, flags, strict=False)) == stated
    assert flags[-1] == stated["sidecar"]
    assert all({"-h", "--help"} <= offered for offered in flags)


def test_bash_understands_a_flag_with_an_equals_sign(
    commands: list[Shape], place: Path, needs_command: Callable[[str], Path]
) -> None:
    lines = [
        ("ddwatch", "demo", "--scenario", "=", "thr"),
        ("ddwatch", "export", "--format", "="),
        ("ddwatch", "alerts", "--for", "=", "2h", "unm"),
    ]

    found = offered_by_bash(place, needs_command("bash"), bash(commands), lines)

    assert found == [{"throttle"}, {"jsonl", "csv"}, {"unmute"}]


def test_bash_knows_both_programs(commands: list[Shape], place: Path, needs_command: Callable[[str], Path]) -> None:
    (place / "script").write_text(bash(commands) + "complete -p ddwatch ddwatch-sidecar\n", encoding="utf-8")

    told = ran(place, needs_command("bash"), "--norc", place / "script")

    assert told == "complete -F _ddwatch ddwatch\ncomplete -F _ddwatch ddwatch-sidecar\n"


def test_fish_offers_what_fits(commands: list[Shape], place: Path, needs_command: Callable[[str], Path]) -> None:
    (place / "script.fish").write_text(fish(commands), encoding="utf-8")
    lines = [shlex.join(words).replace("''", "") for words, _ in CASES]
    asked = "; ".join(f"complete -C {shlex.quote(line)}; echo ." for line in lines)

    said_by_fish = ran(place, needs_command("fish"), "--no-config", "-c", f"source script.fish; {asked}")

    offers = [{line.split("\t")[0].rstrip("/") for line in part} for part in parted(said_by_fish)]
    expected = {words: {word.rstrip("/") for word in offer} for words, offer in CASES}
    assert {words: offer for (words, _), offer in zip(CASES, offers, strict=True)} == expected


def test_fish_offers_every_command_and_every_flag(
    commands: list[Shape], place: Path, needs_command: Callable[[str], Path]
) -> None:
    (place / "script.fish").write_text(fish(commands), encoding="utf-8")
    asked = "; ".join(
        f"complete -C 'ddwatch {one.name} -'; complete -C 'ddwatch {one.name} --'; echo ." for one in commands
    )

    said_by_fish = ran(place, needs_command("fish"), "--no-config", "-c", f"source script.fish; {asked}")

    for one, part in zip(commands, parted(said_by_fish), strict=True):
        offered = {line.split("\t")[0] for line in part}
        assert {name for option in one.options for name in option.names} - offered == set(), one.name


def test_zsh_reads_its_script(commands: list[Shape], place: Path, needs_command: Callable[[str], Path]) -> None:
    (place / "_ddwatch").write_text(zsh(commands), encoding="utf-8")

    assert ran(place, needs_command("zsh"), "-f", "-n", "_ddwatch") == ""


def test_every_value_is_known_or_known_to_be_free() -> None:
    flags = {name: flags for name, _, flags in completed()} | {"sidecar": flags_of(sidecar_parser())}

    assert {name: unknown(found) for name, found in flags.items() if unknown(found)} == {}
    assert unknown([Flag(names=("--what",), dest="what", metavar="WHAT", value="one")]) == ["what"]


def test_the_sidecar_tells_its_own_flags() -> None:
    assert flags_of_sidecar() == flags_of(sidecar_parser())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_document_holds_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain, document = said(["completion", shell], capsys), said(["completion", shell, "--json"], capsys)

    assert (plain.code, plain.err, document.code) == (Exit.OK, "", Exit.OK)
    assert held_against("completion.json", document.out)["script"] == plain.out


def test_an_unknown_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    told = said(["completion", "tcsh"], capsys)

    assert told.code == Exit.USAGE and "tcsh" in told.err and told.err.count("\n") == 1
