"""The front door of `ddwatch`: finds the command, loads only its module, turns its end into an exit code."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn, Protocol, cast

from ddwatch import __version__, standard_streams
from ddwatch.command_line import Flag, Parser, flags_of
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
    examples: tuple[str, ...]
    """Shown at the end of its help; a test parses each."""


COMMANDS: tuple[Command, ...] = (
    Command(
        "live",
        "watch a service on one screen (the default)",
        "ddwatch.commands.live",
        (
            "ddwatch",
            "ddwatch --log /var/log/sglang/server.log --sglang-url http://127.0.0.1:30000",
            "ddwatch --log journal:sglang --once",
        ),
    ),
    Command(
        "sidecar",
        "read the sources and serve the exports, no screen",
        "ddwatch.commands.sidecar",
        (
            "ddwatch sidecar --log /var/log/sglang/server.log",
            "ddwatch sidecar --config /etc/ddwatch/sidecar.toml",
        ),
    ),
    Command(
        "demo",
        "watch a simulated service: no GPU, no SGLang",
        "ddwatch.commands.demo",
        (
            "ddwatch demo",
            "ddwatch demo --scenario throttle",
            "ddwatch demo --headless --seconds 20 --json",
        ),
    ),
    Command(
        "replay",
        "play an SGLang log or a recording on the same screen",
        "ddwatch.commands.replay",
        (
            "ddwatch replay sglang.log --speed 60",
            "ddwatch replay bench.log --headless --json --fail-on slow-step",
            "ddwatch replay ~/.local/state/ddwatch/recordings --alert 1",
        ),
    ),
    Command(
        "export",
        "print the rows of a recording as CSV or JSON lines",
        "ddwatch.commands.export",
        (
            "ddwatch export recordings --table samples --format csv",
            "ddwatch export recordings --since 2026-05-01T08:00 --until 2026-05-01T09:00",
        ),
    ),
    Command(
        "alerts",
        "list what is wrong and was; acknowledge and mute it",
        "ddwatch.commands.alerts",
        (
            "ddwatch alerts",
            "ddwatch alerts ack slow-step --note 'Ann looks at the fans'",
            "ddwatch alerts mute retractions --for 2h",
        ),
    ),
    Command(
        "steps",
        "print one row per decode line of a log, with its flags",
        "ddwatch.commands.steps",
        (
            "ddwatch steps sglang.log.gz --format csv",
            "ssh gpu01 cat server.log | ddwatch steps - --format table",
        ),
    ),
    Command(
        "compare",
        "say what a restart changed, at equal batch and context",
        "ddwatch.commands.compare",
        (
            "ddwatch compare sglang.log",
            "ddwatch compare sglang.log --at 14:05",
        ),
    ),
    Command(
        "backtest",
        "false alarms and detection delay on your own log",
        "ddwatch.commands.backtest",
        (
            "ddwatch backtest sglang.log",
            "ddwatch backtest recordings --profile ours.toml --json",
        ),
    ),
    Command(
        "explain",
        "say whether a pasted speed is as expected, and why",
        "ddwatch.commands.explain",
        (
            'ddwatch explain "3239/2750 tok 32.2 t/s" --accept 2.9',
            'ddwatch explain "32 tok/s at 6k ctx" --profile ours.toml',
        ),
    ),
    Command(
        "predict",
        "tokens per second for a context, seconds for a request",
        "ddwatch.commands.predict",
        (
            "ddwatch predict --context 6000 --accept 2.9",
            "ddwatch predict --context 500 --output 2000 --batch 4",
            "ddwatch predict --sweep",
        ),
    ),
    Command(
        "fit",
        "fit a profile to a log of your own service",
        "ddwatch.commands.fit",
        (
            "ddwatch fit sglang.log -o ours.toml",
            "ddwatch fit mixed.log --class code=code.log -o ours.toml",
        ),
    ),
    Command(
        "check",
        "say whether a server is up, generates, and is as fast as it should be",
        "ddwatch.commands.check",
        (
            "ddwatch check",
            "ddwatch check http://127.0.0.1:30000 --profile ours.toml --json",
        ),
    ),
    Command(
        "calibrate",
        "measure an idle service and write its profile",
        "ddwatch.commands.calibrate",
        (
            "ddwatch calibrate http://127.0.0.1:30000 -o ours.toml",
            "ddwatch calibrate http://gpu01:30000 -o ours.toml --batches 1-4 --minutes 30",
        ),
    ),
    Command(
        "doctor",
        "say what can be observed here, and what would give more",
        "ddwatch.commands.doctor",
        (
            "ddwatch doctor",
            "ddwatch doctor --log journal:sglang --bundle report.zip",
        ),
    ),
    Command(
        "rules",
        "print alert and recording rules for Prometheus",
        "ddwatch.commands.rules",
        (
            "ddwatch rules > /etc/prometheus/ddwatch-rules.yml",
            "ddwatch rules --json",
        ),
    ),
    Command(
        "dashboard",
        "print a Grafana dashboard over the metrics",
        "ddwatch.commands.dashboard",
        (
            "ddwatch dashboard > /var/lib/grafana/dashboards/ddwatch.json",
            "ddwatch dashboard --json",
        ),
    ),
    Command(
        "completion",
        "print completion for bash, zsh or fish",
        "ddwatch.commands.completion",
        (
            "source <(ddwatch completion bash)",
            "ddwatch completion zsh > ~/.zfunc/_ddwatch",
            "ddwatch completion fish > ~/.config/fish/completions/ddwatch.fish",
        ),
    ),
    Command(
        "profile",
        "show, list and check profiles",
        "ddwatch.commands.profile",
        (
            "ddwatch profile list",
            "ddwatch profile show kimi-k2.6-ddtree-8x-rtx-pro-6000",
            "ddwatch profile check ours.toml",
        ),
    ),
)


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


def parser_of(command: Command) -> Parser:
    """The parser of a command, which is loaded for it."""
    module = cast("CommandModule", import_module(command.module))
    name = "ddwatch" if command is COMMANDS[0] else f"ddwatch {command.name}"
    parser = Parser(prog=name, description=command.summary, examples=command.examples)
    module.add_arguments(parser)
    return parser


def completed() -> tuple[tuple[str, str, tuple[Flag, ...]], ...]:
    """Every command with its summary and flags."""
    return tuple((command.name, command.summary, flags_of(parser_of(command))) for command in COMMANDS)


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
        # One command tells of all the others.
        given = {"commands": completed()} if getattr(module, "TELLS_OF_COMMANDS", False) else {}
        return module.run(parser_of(command).parse_args(list(rest), argparse.Namespace(**given)))
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
