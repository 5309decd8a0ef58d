"""`ddwatch demo`: a simulated service, a real sidecar and the real screen, on any machine; its GPUs too."""

import argparse
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ddwatch.core.exits import VERDICT_EXITS, CommandFailed, Exit
from ddwatch.demo.service import LIVE

if TYPE_CHECKING:
    from ddwatch.commands.sidecar_child import SidecarChild

SCHEMA = "ddwatch.demo/1"
LOG = "sglang.log"
RECORDINGS = "recordings"
"""Folder of what is recorded, so that the minute before an alert can be shown; gone with the simulation."""
CARDS = "cards"
"""File with the state of the simulated GPUs."""
OFF = ("0", "false", "no", "off")
GPU_SECONDS = "0.5"
"""Time between two readings of the simulated GPUs, which nothing slows down."""
START_SECONDS = 60.0
"""How long a child may take to say that it is there."""
END_SECONDS = 3.0
"""How long a child may take to end before it is killed."""
FASTEST = 100.0
"""Beyond this a laptop cannot write and read the lines of eight ranks as fast as they come."""
SECONDS = 10.0
"""Wall time of a headless run unless --seconds says otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--scenario", default="founding", metavar="NAME", help="story to play (founding); see --list")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, another run of the story (1)")
    parser.add_argument("--speed", type=float, default=1.0, metavar="N", help="times real time (1)")
    parser.add_argument("--interval", type=int, default=1, metavar="N", help="decode steps per decode line (1)")
    parser.add_argument("--headless", action="store_true", help="no screen: watch for --seconds, print one reading")
    parser.add_argument("--seconds", type=float, metavar="N", help=f"with --headless: wall time to watch ({SECONDS:g})")
    parser.add_argument("--json", action="store_true", help="with --headless: print one JSON document")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_argument("--list", action="store_true", help="list the scenarios and leave")


def run(arguments: argparse.Namespace) -> int:
    """Plays a scenario; returns 0 from the screen, the verdict's exit code from a headless run."""
    if arguments.list:
        sys.stdout.write(listed())
        return Exit.OK
    checked(arguments)
    from ddwatch.commands.live import ending_on_signals

    with ending_on_signals(), stage(arguments) as child:
        return headless(arguments, child) if arguments.headless else screen(arguments, child)


def listed() -> str:
    """The scenarios with their stories."""
    from ddwatch.demo.scenarios import SCENARIOS

    width = max(len(story.name) for story in SCENARIOS)
    return "".join(f"{story.name:<{width}}  {story.story}\n" for story in SCENARIOS)


def checked(arguments: argparse.Namespace) -> None:
    """Raises CommandFailed for arguments that make no sense."""
    from ddwatch.demo.scenarios import SCENARIOS

    def wrong(sentence: str) -> CommandFailed:
        return CommandFailed(f"ddwatch demo: {sentence}", Exit.USAGE)

    names = [story.name for story in SCENARIOS]
    if arguments.scenario not in names:
        raise wrong(f"no scenario {arguments.scenario!r}; there are {', '.join(names)}")
    if not 0 < arguments.speed <= FASTEST:
        raise wrong(f"--speed is more than 0 and at most {FASTEST:g}")
    if arguments.interval < 1:
        raise wrong("--interval is at least 1")
    if arguments.seconds is not None and not 0 < arguments.seconds <= 86400:
        raise wrong("--seconds is more than 0 and at most 86400")
    if not arguments.headless:
        if arguments.json or arguments.seconds is not None:
            raise wrong("--json and --seconds need --headless")
        if not sys.stdout.isatty() or not sys.stdin.isatty():
            raise wrong("the screen needs a terminal; add --headless to print one reading")


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that only this user can read, gone afterwards."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="ddwatch-demo-"))
    except OSError as error:
        raise CommandFailed(f"ddwatch demo: no room for the simulated log: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Service:
    """The simulated service in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
        self._process = process
        self._complaints = complaints
        self.url = ""
        """Where it speaks SGLang's HTTP."""

    def wait_until_live(self) -> None:
        """Returns once the past of the story is written; raises CommandFailed with its complaint when it never is."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(START_SECONDS):
                raise CommandFailed(f"ddwatch demo: the simulated service was not ready within {START_SECONDS:.0f} s")
        # It says one word and its address, in one write.
        said = os.read(self._process.stdout.fileno(), 4096).decode("utf-8", "replace").split()
        if len(said) == 2 and said[0] == LIVE:
            self.url = said[1]
        else:
            self._complaints.seek(0)
            text = self._complaints.read().decode("utf-8", "replace").strip()
            reason = text.splitlines()[-1] if text else "it ended without a word"
            raise CommandFailed(f"ddwatch demo: the simulated service did not start: {reason}")

    def go(self) -> None:
        """Lets its time move; raises CommandFailed when it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise CommandFailed("ddwatch demo: the simulated service ended before it began") from error

    def end(self) -> None:
        """Ends it and waits until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def service_for(arguments: argparse.Namespace, folder: Path) -> Iterator[Service]:
    """The service with its log in the folder; it watches this process too, so that it goes even when this is killed."""
    words = [
        *(sys.executable, "-m", "ddwatch.demo.service"),
        *("--scenario", arguments.scenario),
        *("--seed", str(arguments.seed)),
        *("--log", str(folder / LOG)),
        *("--speed", str(arguments.speed)),
        *("--interval", str(arguments.interval)),
        *("--port", "0"),
        *("--cards", str(folder / CARDS)),
        *("--until-pid", str(os.getpid())),
        *("--clear", str(folder)),
        *("--hold", "--remove"),
    ]
    # Nameless, so that the folder holds only what the service removes.
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
            )
        except OSError as error:
            raise CommandFailed(f"ddwatch demo: cannot start the simulated service: {error.strerror}") from error
        service = Service(process, complaints)
        try:
            yield service
        finally:
            service.end()


def gpu_words(folder: Path) -> list[str]:
    """What the sidecar is told of GPUs: the simulated ones, or in one sentence why there are none.

    `folder` holds their library where the user's cache cannot. Who wants no GPUs at all (DDWATCH_NVML) gets none.
    """
    if os.environ.get("DDWATCH_NVML", "").lower() in OFF:
        return []
    from platformdirs import user_cache_path

    from ddwatch.demo.gpus.library import NoLibrary, library

    try:
        found = library([user_cache_path("ddwatch") / "demo", folder / "library"])
    except NoLibrary as missing:
        return ["--nvml-absent", str(missing)]
    return ["--nvml-library", str(found), "--gpu-seconds", GPU_SECONDS]


@contextmanager
def stage(arguments: argparse.Namespace) -> "Iterator[SidecarChild]":
    """The simulated service, live, and a real sidecar that watches it."""
    from ddwatch.commands.sidecar_child import sidecar_for

    with private_folder() as folder, service_for(arguments, folder) as service:
        service.wait_until_live()
        words = ["--simulated", "--time-scale", str(arguments.speed), "--sglang-url", service.url]
        words += ["--record", str(folder / RECORDINGS)]
        cards = {"DDWATCH_NVML_SCENARIO": str(folder / CARDS)}
        with sidecar_for(str(folder / LOG), more=[*words, *gpu_words(folder)], variables=cards) as child:
            service.go()
            yield child


def headless(arguments: argparse.Namespace, child: "SidecarChild") -> int:
    """Watches for a while and prints one reading."""
    from ddwatch.commands.once import fetch, reading
    from ddwatch.core.expectation.wording import readable

    seconds = SECONDS if arguments.seconds is None else arguments.seconds
    time.sleep(seconds)
    snapshot, body = fetch(child.url, None)
    if arguments.json:
        document = {
            "schema": SCHEMA,
            "scenario": arguments.scenario,
            "seed": arguments.seed,
            "seconds": seconds,
            "simulated": True,
            "snapshot": json.loads(body),
        }
        sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")
    else:
        sys.stdout.write(readable(reading(snapshot), sys.stdout.encoding))
        sys.stdout.write(f"scenario: {arguments.scenario}, seed {arguments.seed}, watched for {seconds:g} s\n")
    return VERDICT_EXITS[snapshot.verdict.name]


def screen(arguments: argparse.Namespace, child: "SidecarChild") -> int:
    """The real screen on the sidecar's stream."""
    from ddwatch.app import DDWatch
    from ddwatch.commands.alert_asking import ask
    from ddwatch.commands.live import ChildFeed
    from ddwatch.commands.recorded_past import past_of

    app = DDWatch(ChildFeed(child), ascii_only=arguments.ascii or None, past=past_of, asks=ask)
    app.run()
    return app.return_code or Exit.OK
