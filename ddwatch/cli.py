"""The front door of `ddwatch`: finds the command, loads only its module, turns its end into an exit code."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn, Protocol, cast

from ddwatch import __version__, standard_streams
from ddwatch.core.exits import CommandFailed, Exit


class CommandModule(Protocol):
    """What a file in `commands/` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Does the work and returns the exit code; raises CommandFailed with one sentence."""


class Command(NamedTuple):
    """A line of the command list; the module is imported only when the command is chosen."""

    name: str
    summary: str
    module: str


COMMANDS: tuple[Command, ...] = (
    Command("live", "watch a service on one screen (the default)", "ddwatch.commands.live"),
    Command("sidecar", "read the sources and serve the exports, no screen", "ddwatch.commands.sidecar"),
    Command("demo", "watch a simulated service: no GPU, no SGLang", "ddwatch.commands.demo"),
    Command("replay", "play an SGLang log or a recording on the same screen", "ddwatch.commands.replay"),
    Command("export", "print the rows of a recording as CSV or JSON lines", "ddwatch.commands.export"),
    Command("alerts", "list what is wrong and was; acknowledge and mute it", "ddwatch.commands.alerts"),
    Command("steps", "print one row per decode line of a log, with its flags", "ddwatch.commands.steps"),
    Command("compare", "say what a restart changed, at equal batch and context", "ddwatch.commands.compare"),
    Command("backtest", "false alarms and detection delay on your own log", "ddwatch.commands.backtest"),
    Command("explain", "say whether a pasted speed is as expected, and why", "ddwatch.commands.explain"),
    Command("predict", "tokens per second for a context, seconds for a request", "ddwatch.commands.predict"),
    Command("fit", "fit a profile to a log of your own service", "ddwatch.commands.fit"),
    Command("check", "say whether a server is up, generates, and is as fast as it should be", "ddwatch.commands.check"),
    Command("calibrate", "measure an idle service and write its profile", "ddwatch.commands.calibrate"),
    Command("doctor", "say what can be observed here, and what would give more", "ddwatch.commands.doctor"),
    Command("rules", "print alert and recording rules for Prometheus", "ddwatch.commands.rules"),
    Command("profile", "show, list and check profiles", "ddwatch.commands.profile"),
)


class Parser(argparse.ArgumentParser):
    """argparse with one-sentence errors and this project's exit code for wrong usage."""

    def error(self, message: str) -> NoReturn:
        """Prints one sentence on stderr and leaves with 64."""
        self.exit(Exit.USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def overview() -> str:
    """The text of `ddwatch --help`."""
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    return (
        "usage: ddwatch [COMMAND] [options]\n\n"
        "What an SGLang service with speculative decoding does, what it should do, and why they differ.\n\n"
        f"commands:\n{rows}\n\n"
        "Without a command: ddwatch [--url URL | --log PATH|-|journal:UNIT|docker:NAME|command:CMD] [--once] [--json]\n"
        "(see ddwatch live --help)\n"
        "ddwatch alone watches through the sidecar of this machine, else the SGLang that runs here.\n"
        "Every command has --help.\n\n"
        "exit codes: 0 fine, 1 notice, 2 page, 3 cannot judge, 64 wrong usage, 66 input missing, 130 interrupted\n"
    )


def chosen(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that the words name, and the words left for it; without a name it is `live`."""
    if words and not words[0].startswith("-"):
        for command in COMMANDS:
            if command.name == words[0]:
                return command, words[1:]
        known = ", ".join(command.name for command in COMMANDS)
        raise CommandFailed(f"ddwatch: no command {words[0]!r}; there are {known}", Exit.USAGE)
    return COMMANDS[0], words


def run(words: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        if words and words[0] in ("-h", "--help"):
            print(overview(), end="")
            return Exit.OK
        if words and words[0] in ("-V", "--version"):
            print(f"ddwatch {__version__}")
            return Exit.OK
        command, rest = chosen(words)
        module = cast("CommandModule", import_module(command.module))
        if getattr(module, "PASSES_WORDS", False):
            return module.run(argparse.Namespace(words=list(rest)))
        name = "ddwatch" if command is COMMANDS[0] else f"ddwatch {command.name}"
        parser = Parser(prog=name, description=command.summary, allow_abbrev=False)
        module.add_arguments(parser)
        return module.run(parser.parse_args(list(rest)))
    except CommandFailed as failure:
        print(failure.sentence, file=sys.stderr)
        return failure.code


def main() -> NoReturn:
    """Entry point: exit codes for an interrupt and a stdout that takes no more are settled here, once."""
    standard_streams.settle()
    code: int | str | None
    try:
        try:
            code = run(sys.argv[1:])
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        standard_streams.give_up_output()
        code = Exit.OK
    except CommandFailed as failure:
        print(failure.sentence, file=sys.stderr)
        code = failure.code
    sys.exit(code)


if __name__ == "__main__":
    main()
