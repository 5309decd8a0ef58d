"""The simulated service as a process of its own: writes its log at the pace of the wall clock, answers on its port.

`python -m ddwatch.demo.service --scenario steady --seed 1 --log PATH` first writes the part of the story that
already lies in the past, says `live` on stdout, and then goes on line by line until it is told to end. With
`--hold` it first waits for a line on stdin, so that a watcher can take its place before time moves. With `--port` it
speaks SGLang's HTTP on that port of loopback and says `live http://127.0.0.1:PORT`. With `--cards` a file holds
what the driver's stand-in shall report of its GPUs.
"""

import argparse
import os
import select
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from ddwatch.core.exits import Exit
from ddwatch.demo.gpus.cards import Cards
from ddwatch.demo.gpus.state_file import StateFile
from ddwatch.demo.log_writer import LogWriter
from ddwatch.demo.scenarios import SCENARIOS, acts, scenario, simulation
from ddwatch.demo.stage import WATCH_SECONDS, Stage, View, alive

LIVE = "live"
"""Printed on stdout once the past is written, with the address of the port behind it where there is one."""

CLEARING_SECONDS = 5.0
"""So long a watcher that is left alone may still write into the folder that is removed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the process."""
    parser.add_argument("--scenario", required=True, choices=[story.name for story in SCENARIOS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, required=True, help="file to append to")
    parser.add_argument("--port", type=int, help="port of loopback that speaks SGLang's HTTP; 0 lets the system choose")
    parser.add_argument("--cards", type=Path, help="file to keep the state of the simulated GPUs in")
    parser.add_argument("--key", help="the key that the port asks for")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per second")
    parser.add_argument("--interval", type=int, default=1, help="decode steps per decode line")
    parser.add_argument("--lead", type=float, help="seconds of the story that already lie in the past")
    parser.add_argument("--hold", action="store_true", help="once live, wait for a line on stdin before time moves")
    parser.add_argument(
        "--remove", action="store_true", help="at the end remove the log, and its folder if that is empty"
    )
    parser.add_argument("--until-pid", type=int, help="end when this process ends")
    parser.add_argument("--clear", type=Path, help="remove this folder too when that process did not live to do it")


def held(stop: threading.Event, until_pid: int | None) -> None:
    """Waits for a line on stdin, its end, or the end of the service."""
    while not stop.is_set() and (until_pid is None or alive(until_pid)):
        if select.select([sys.stdin], [], [], WATCH_SECONDS)[0]:
            return


def clear(folder: Path) -> None:
    """Removes a folder with all in it, and what its other users put there while they end."""
    deadline = time.monotonic() + CLEARING_SECONDS
    while time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(WATCH_SECONDS)


def run(arguments: argparse.Namespace, log: int, stop: threading.Event) -> None:
    """Plays the story; raises OSError when the log cannot be written or the port not be opened."""
    story = scenario(arguments.scenario)
    lead = story.lead if arguments.lead is None else arguments.lead
    live_from = time.time()
    start = live_from - lead

    with ExitStack() as stack:
        address = ""

        def go_live() -> None:
            stage.see(service)
            if arguments.cards is not None:
                cards = Cards(f"{story.name}:{arguments.seed}", story.ailments)
                stack.enter_context(StateFile(arguments.cards, cards, start, stage.now, lambda: stage.view).kept())
            sys.stdout.write(f"{LIVE} {address}".rstrip() + "\n")
            sys.stdout.flush()
            if arguments.hold:
                held(stop, arguments.until_pid)

        def changed(view: View) -> None:
            if port is not None:
                port.serve(view.serving)

        stage = Stage(
            log,
            LogWriter(None, dp=story.ranks),
            live_from=live_from,
            speed=arguments.speed,
            stop=stop,
            until_pid=arguments.until_pid,
            go_live=go_live,
            changed=changed,
        )
        port = None
        if arguments.port is not None:
            from ddwatch.demo.port import Port

            port = stack.enter_context(Port(stage, arguments.port, arguments.key))
            address = port.url
        service = simulation(story, arguments.seed, start, interval=arguments.interval, zone=None, outside=stage)
        stage.play(service.play(acts(story)))


def main(words: list[str] | None = None) -> int:
    """Runs the service until SIGTERM, an interrupt or the end of `--until-pid`."""
    parser = argparse.ArgumentParser(prog="ddwatch.demo.service", description=__doc__)
    add_arguments(parser)
    arguments = parser.parse_args(words)
    if arguments.speed <= 0 or arguments.interval < 1:
        parser.error("--speed and --interval are positive")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    try:
        log = os.open(arguments.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        sys.stderr.write(f"ddwatch demo: cannot write the simulated log {arguments.log}: {error.strerror}\n")
        return Exit.INPUT
    try:
        run(arguments, log, stop)
    except OSError as error:
        sys.stderr.write(f"ddwatch demo: the simulated service stopped: {error.strerror}\n")
        return Exit.INPUT
    finally:
        os.close(log)
        if arguments.remove:
            arguments.log.unlink(missing_ok=True)
            # A folder that holds something else stays.
            with suppress(OSError):
                arguments.log.parent.rmdir()
        if arguments.clear is not None and arguments.until_pid is not None and not alive(arguments.until_pid):
            clear(arguments.clear)
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
