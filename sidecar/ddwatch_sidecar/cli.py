"""The front door of the sidecar: the only place that knows both its sources and its exports."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import json

from ddwatch import __version__, standard_streams
from ddwatch.command_line import Parser, flags_of
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch_sidecar.narration import narrate

if TYPE_CHECKING:
    from ddwatch_sidecar.run import Plan


def parser() -> Parser:
    """All flags; a flag that was not given is None, so that the other layers of settings can speak."""
    found = Parser(
        prog="ddwatch-sidecar",
        description="Reads the sources on the GPU host and serves the exports: /metrics /healthz /readyz "
        "/v1/snapshot /v1/history /v1/stream. No screen. Told neither --log nor --sglang-url, it "
        "reads the SGLang that runs here.",
        epilog="Settings: flags before environment (DDWATCH_LOG, DDWATCH_LISTEN, ...) before the TOML file before "
        "defaults. A bind beyond this host needs a token. exit codes: 0 stopped, 64 wrong usage, 66 input or address "
        "cannot be used, 130 interrupted before it served",
        examples=(
            "ddwatch-sidecar --log /var/log/sglang/server.log",
            "ddwatch-sidecar --log journal:sglang --sglang-url http://127.0.0.1:30000",
            "ddwatch-sidecar --config /etc/ddwatch/sidecar.toml",
        ),
    )
    add = found.add_argument
    add(
        "--log",
        action="append",
        metavar="PATH|…",
        help="an SGLang log, followed for ever: a file, - for standard input, journal:UNIT (journal:user/UNIT), "
        "docker:NAME (or podman's), 'command:CMD ARGS' for what a command prints",
    )
    add("--listen", metavar="HOST:PORT", help="where to serve (127.0.0.1:9477)")
    add("--port", metavar="N", help="another port on the same host; 0 takes a free one")
    add("--token-file", metavar="FILE", help="the token that readers must show (else DDWATCH_TOKEN)")
    add("--allow-host", action="append", metavar="NAME", help="a further name that readers may use for this host")
    add("--catch-up", metavar="MIB", help="how much of an existing log to read at the start (16)")
    add("--tz", metavar="ZONE", help="zone of the stamps in an existing log (this host's)")
    add("--nvml", action="store_true", default=None, help="read GPUs and host (the default)")
    add("--no-nvml", dest="nvml", action="store_false", default=None, help="leave GPUs and host alone")
    add("--nvml-library", metavar="FILE", help="a library in place of the driver's own (for simulated GPUs)")
    add("--nvml-absent", metavar="TEXT", help="say this in place of GPUs (for a simulated service)")
    add("--gpu-seconds", metavar="S", help="time between two readings of the GPUs (1, at least 0.5)")
    add("--gpu-throughput", action="store_true", default=None, help="read PCIe throughput too, which blocks a while")
    add("--sglang-url", metavar="URL", help="SGLang itself, asked for its load every 2 s: the better witness")
    add("--sglang-key-file", metavar="FILE", help="SGLang's own key (else DDWATCH_SGLANG_KEY)")
    add("--request-metrics", metavar="DIR", help="where SGLang writes its records of finished requests")
    add("--no-metrics", dest="metrics", action="store_false", default=None, help="leave SGLang's /metrics alone")
    add("--fpm", metavar="NAME", help="SGLang's --forward-pass-metrics-ipc-name: hear its forward passes (GPU time)")
    add("--profile", metavar="NAME|FILE", help="judge by this profile; without one ddwatch learns its own")
    add("--no-learn", dest="learn", action="store_false", default=None, help="keep nothing of what is learned")
    add("--alerts", metavar="DIR|off", help="where acknowledgements and mutes are asked for (the user's state folder)")
    add("--record", metavar="DIR|off", help="where to keep the recording (the user's state folder), or off")
    add("--no-record", dest="record", action="store_const", const="off", help="the same as --record off")
    add("--record-size", metavar="MIB", help="size limit of the recording (512)")
    add("--record-days", metavar="DAYS", help="age limit of the recording (30); single samples are kept for a day")
    add("--webhook-file", metavar="FILE", help="the secret address that incidents are posted to (else DDWATCH_WEBHOOK)")
    add("--notify-command", action="append", metavar="WORD", help="a command run for each incident; once for each word")
    add("--notify-severity", choices=("notice", "page"), help="the least severity that is told (notice)")
    add("--notify-repeat", metavar="TIME", help="tell what fires again after this time, like 4h, until acknowledged")
    add("--quiet-hours", metavar="HH:MM-HH:MM", help="hours in which only pages are told")
    add("--config", metavar="FILE", help="settings in TOML (else DDWATCH_CONFIG, else the user's ddwatch/sidecar.toml)")
    add("--simulated", action="store_true", default=None, help="say SIMULATED everywhere: the service is not real")
    add("--time-scale", metavar="N", help="let time run N times as fast (for a simulated service)")
    add("--until-pid", type=int, metavar="PID", help="leave when this process is gone")
    add("--announce", action="store_true", help="print one JSON line with the URL once it listens")
    add("--print-config", action="store_true", help="print the settings as JSON and leave")
    add("--print-flags", action="store_true", help="print the flags as JSON, for ddwatch completion, and leave")
    add("-V", "--version", action="version", version=f"ddwatch-sidecar {__version__}")
    return found


NOT_SETTINGS = frozenset({"config", "until_pid", "announce", "print_config", "print_flags"})


def planned(words: Sequence[str], environment: dict[str, str]) -> "Plan | None":
    """What to run; None when there is nothing to run because settings or flags were only to be printed."""
    arguments = parser().parse_args(list(words))
    if arguments.print_flags:
        print(json.encode(flags_of(parser())).decode())
        return None
    # Imported after the arguments are known to be right: --help must not wait for a web server.
    from ddwatch_sidecar import config, run
    from ddwatch_sidecar.discovering import with_found
    from ddwatch_sidecar.telling import Telling

    flags: dict[str, Any] = {key: value for key, value in vars(arguments).items() if key not in NOT_SETTINGS}
    settings = config.settle(flags, environment, arguments.config)
    if arguments.print_config:
        print(run.printed(settings))
        return None
    if arguments.until_pid is not None and arguments.until_pid <= 0:
        raise CommandFailed("--until-pid must be the id of a process", Exit.USAGE)
    token = config.read_token(settings, environment, narrate)
    key = config.read_sglang_key(settings, environment, narrate)
    webhook = config.read_webhook(settings, environment, narrate)
    telling = Telling(webhook, environment)
    settings = with_found(settings, environment, narrate)
    return run.plan(settings, token, key, telling=telling, until_pid=arguments.until_pid, announce=arguments.announce)


def run(words: Sequence[str], environment: dict[str, str]) -> int:
    """Runs one command line to its end and returns the exit code."""
    try:
        plan = planned(words, environment)
        if plan is None:
            return Exit.OK
        # A terminal that closes takes its screen with it, not the watch.
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        clean = asyncio.run(plan.serve())
    except CommandFailed as failure:
        narrate(failure.sentence)
        return failure.code
    if not clean:
        # A read that hangs in the operating system (a dead network file system) cannot be waited for.
        sys.stdout.flush()
        os._exit(Exit.OK)
    return Exit.OK


def main() -> NoReturn:
    """Entry point of `ddwatch-sidecar`."""
    standard_streams.settle()
    code: int | str | None
    try:
        try:
            code = run(sys.argv[1:], dict(os.environ))
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        standard_streams.give_up_output()
        code = Exit.OK
    except CommandFailed as failure:
        narrate(failure.sentence)
        code = failure.code
    sys.exit(code)


if __name__ == "__main__":
    main()
