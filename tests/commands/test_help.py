"""`--help`: every command shows examples that work, in 80 columns, and every argument says what it is."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ddwatch_sidecar.cli import parser as sidecar_parser

from ddwatch.cli import COMMANDS, parser_of
from ddwatch.command_line import EXAMPLES, Parser, flags_of

PARSERS: dict[str, Parser] = {command.name: parser_of(command) for command in COMMANDS if command.name != "sidecar"} | {
    "sidecar": sidecar_parser()
}


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def words_of(example: str) -> Iterator[list[str]]:
    """The words of each command of ours in a line of shell."""
    line = shlex.shlex(example, posix=True, punctuation_chars=True)
    line.whitespace_split = True
    current: list[str] = []
    for word in [*line, ";"]:
        if set(word) <= set("|;<>()&"):
            if current and current[0] in ("ddwatch", "ddwatch-sidecar"):
                yield current
            current = []
        else:
            current.append(word)


def parsed(words: list[str]) -> str:
    """The command that takes these words; leaves with 64 where it does not."""
    program, *rest = words
    if program == "ddwatch-sidecar":
        name = "sidecar"
    elif rest and rest[0] in PARSERS:
        name = rest.pop(0)
    else:
        name = "live"
    PARSERS[name].parse_args(rest)
    return name


@pytest.mark.parametrize("name", PARSERS)
def test_the_help_shows_examples_that_parse(name: str) -> None:
    text = PARSERS[name].format_help()
    examples = text.split(f"\n{EXAMPLES}")[1].split("\n\n")[0].splitlines()

    assert 2 <= len(examples) <= 3
    assert [line.strip() for line in examples] == list(PARSERS[name].examples)
    for example in examples:
        assert [parsed(words) for words in words_of(example.strip())] == [name], example


def test_the_examples_of_both_names_of_the_sidecar_parse() -> None:
    (command,) = (one for one in COMMANDS if one.name == "sidecar")

    assert {parsed(words) for example in command.examples for words in words_of(example)} == {"sidecar"}


def test_an_example_that_does_not_parse_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = words_of("cat x | ddwatch steps - --no-such-flag > y")

    with pytest.raises(SystemExit):
        parsed(words)

    assert "--no-such-flag" in capsys.readouterr().err


@pytest.mark.parametrize("name", PARSERS)
def test_the_help_fits_80_columns(name: str) -> None:
    assert [line for line in PARSERS[name].format_help().splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", PARSERS)
def test_every_argument_says_what_it_is(name: str) -> None:
    assert [flag.dest for flag in flags_of(PARSERS[name]) if not flag.help] == []


def test_what_is_said_besides_examples_is_filled() -> None:
    parser = Parser(prog="p", description="d " * 100, epilog="e " * 100, examples=["p --one", "p --two"])

    text = parser.format_help()

    assert "\nexamples:\n  p --one\n  p --two\n\ne e e" in text
    assert max(map(len, text.splitlines())) <= 80 and text == parser.format_help()


def test_the_real_program_prints_it() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "dashboard", "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    ).stdout

    assert told == PARSERS["dashboard"].format_help()
