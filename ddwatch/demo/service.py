"""The simulated service as a process of its own: writes its log at the pace of the wall clock.

`python -m ddwatch.demo.service --scenario steady --seed 1 --log PATH` first writes the part of the story that
already lies in the past, says `live` on stdout, and then goes on line by line until it is told to end. With
`--hold` it first waits for a line on stdin, so that a watcher can take its place before time moves.
"""

import argparse
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ddwatch.core.exits import Exit
from ddwatch.demo.scenarios import SCENARIOS, lines, scenario

WATCH_SECONDS = 0.5
"""How often it looks whether the process that it lives for is still there."""
GROUP_SECONDS = 0.02
"""Lines due within this much wall time are written at once, as a busy server's buffered output would be."""
LIVE = "live"
"""Printed on stdout once the past is written."""


class Pace:
    """Turns simulated time into wall time: `speed` simulated seconds pass in one second of `clock`."""

    def __init__(self, simulated: float, wall: float, speed: float) -> None:
        self._simulated = simulated
        self._wall = wall
        self._speed = speed

    def due(self, at: float) -> float:
        """When, on the wall clock, the simulated moment `at` comes."""
        return self._wall + (at - self._simulated) / self._speed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the process."""
    parser.add_argument("--scenario", required=True, choices=[story.name for story in SCENARIOS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, required=True, help="file to append to")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per second")
    parser.add_argument("--interval", type=int, default=1, help="decode steps per decode line")
    parser.add_argument("--lead", type=float, help="seconds of the story that already lie in the past")
    parser.add_argument("--hold", action="store_true", help="once live, wait for a line on stdin before time moves")
    parser.add_argument(
        "--remove", action="store_true", help="at the end remove the log, and its folder if that is empty"
    )
    parser.add_argument("--until-pid", type=int, help="end when this process ends")


def alive(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def wait_until(moment: float, stop: threading.Event, until_pid: int | None) -> bool:
    """Waits for a moment of the monotonic clock; False when the service shall end before."""
    while not stop.is_set():
        if until_pid is not None and not alive(until_pid):
            return False
        left = moment - time.monotonic()
        if left <= 0:
            return True
        stop.wait(min(left, WATCH_SECONDS))
    return False


def held(stop: threading.Event, until_pid: int | None) -> None:
    """Waits for a line on stdin, its end, or the end of the service."""
    while not stop.is_set() and (until_pid is None or alive(until_pid)):
        if select.select([sys.stdin], [], [], WATCH_SECONDS)[0]:
            return


def write(log: int, batch: list[str]) -> None:
    """Appends whole lines; a short write (a full disk) raises OSError sooner or later."""
    data = memoryview("".join(f"{line}\n" for line in batch).encode())
    while data:
        data = data[os.write(log, data) :]


def play(
    story: Iterator[tuple[float, str]],
    log: int,
    *,
    live_from: float,
    speed: float,
    stop: threading.Event,
    until_pid: int | None,
    hold: bool,
) -> None:
    """Writes the lines up to `live_from` at once and the others when they are due."""
    batch: list[str] = []
    at, line = next(story)
    while at <= live_from and not stop.is_set():
        batch.append(line)
        if len(batch) >= 500:
            write(log, batch)
            batch.clear()
        at, line = next(story)
    write(log, batch)
    sys.stdout.write(f"{LIVE}\n")
    sys.stdout.flush()
    if hold:
        held(stop, until_pid)
    pace = Pace(live_from, time.monotonic(), speed)
    while wait_until(pace.due(at), stop, until_pid):
        now = time.monotonic()
        batch = []
        while pace.due(at) <= now + GROUP_SECONDS and len(batch) < 5000:
            batch.append(line)
            at, line = next(story)
        write(log, batch)


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
    story = scenario(arguments.scenario)
    lead = story.lead if arguments.lead is None else arguments.lead
    live_from = time.time()
    told = lines(story, arguments.seed, live_from - lead, interval=arguments.interval, zone=None)
    try:
        log = os.open(arguments.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        sys.stderr.write(f"ddwatch demo: cannot write the simulated log {arguments.log}: {error.strerror}\n")
        return Exit.INPUT
    try:
        play(
            told,
            log,
            live_from=live_from,
            speed=arguments.speed,
            stop=stop,
            until_pid=arguments.until_pid,
            hold=arguments.hold,
        )
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
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
