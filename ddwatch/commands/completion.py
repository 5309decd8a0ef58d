"""`ddwatch completion`: prints the script that completes our command lines in bash, zsh or fish."""

import argparse
import json
import subprocess
import sys

import msgspec

from ddwatch.command_line import Flag
from ddwatch.commands.completion_bash import bash
from ddwatch.commands.completion_fish import fish
from ddwatch.commands.completion_words import Shape, shape
from ddwatch.commands.completion_zsh import zsh
from ddwatch.core.exits import CommandFailed, Exit

SCHEMA = "ddwatch.completion/1"
SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
TELLS_OF_COMMANDS = True
"""The front door hands over its commands with their flags as `arguments.commands`."""
SIDECAR_SECONDS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.description = (
        "Prints completion for ddwatch and ddwatch-sidecar: commands, flags, their values, files, demo scenarios and "
        "profiles. Nothing of it starts Python when the tab key is pressed."
    )
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell that shall read it")
    parser.add_argument("--json", action="store_true", help="one JSON document with the script in it")


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    script = SHELLS[arguments.shell](shapes(arguments.commands))
    if arguments.json:
        document = {"schema": SCHEMA, "shell": arguments.shell, "script": script}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(script)
    return Exit.OK


def shapes(commands: tuple[tuple[str, str, tuple[Flag, ...]], ...]) -> list[Shape]:
    """Every command; the flags of the sidecar are told by itself."""
    return [
        shape(name, summary, flags_of_sidecar() if name == "sidecar" else flags) for name, summary, flags in commands
    ]


def flags_of_sidecar() -> tuple[Flag, ...]:
    """What the sidecar's own command line says of itself."""
    words = [sys.executable, "-m", "ddwatch_sidecar.cli", "--print-flags"]
    try:
        told = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=SIDECAR_SECONDS, check=True)
        return msgspec.json.decode(told.stdout, type=tuple[Flag, ...])
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        raise CommandFailed(f"ddwatch completion: the sidecar does not tell its flags: {error}") from error
