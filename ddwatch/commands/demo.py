"""`ddwatch demo`: a simulated service, a real sidecar and the real screen, on any machine and without a GPU."""

import argparse
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ddwatch.core.exits import VERDICT_EXITS, CommandFailed, Exit
from ddwatch.demo.service import LIVE

SCHEMA = "ddwatch.demo/1"
START_SECONDS = 60.0
"""How long a child may take to say that it is there."""
END_SECONDS = 3.0
"""How long a child may take to end before it is killed."""
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
    with ExitStack() as stack:
        stack.enter_context(ending_on_signals())
        folder = stack.enter_context(private_folder())
        url = stack.enter_context(stage(arguments, folder))
        if arguments.headless:
            return headless(arguments, url)
        return screen(arguments, url)


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
    if not 0 < arguments.speed <= 1000:
        raise wrong("--speed is more than 0 and at most 1000")
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
def ending_on_signals() -> Iterator[None]:
    """Turns SIGTERM and a closed terminal into an orderly end, so that children and files go with us."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


@contextmanager
def child(words: list[str], what: str, complaints: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child process in a session of its own, ended with us; what it complains of goes to a file."""
    with complaints.open("wb") as errors:
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={name: value for name, value in os.environ.items() if not name.startswith("DDWATCH_")},
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailed(f"ddwatch demo: cannot start {what}: {error.strerror}") from error
    try:
        yield process
    finally:
        ended(process)


def ended(process: subprocess.Popen[bytes]) -> None:
    """Ends a child and waits for it."""
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def first_line(process: subprocess.Popen[bytes], what: str, complaints: Path) -> str:
    """What a child says once it is there; raises CommandFailed with its own complaint when it is not."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_SECONDS
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in said:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise CommandFailed(f"ddwatch demo: {what} did not start within {START_SECONDS:.0f} s")
            part = os.read(process.stdout.fileno(), 4096)
            if not part:
                text = complaints.read_text(encoding="utf-8", errors="replace").strip()
                reason = text.splitlines()[-1] if text else f"exit code {process.wait()}"
                raise CommandFailed(f"ddwatch demo: {what} did not start: {reason}")
            said += part
    return said.split(b"\n", 1)[0].decode("utf-8", "replace").strip()


@contextmanager
def stage(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The simulated service and a real sidecar that watches it; yields the sidecar's URL."""
    log = folder / "sglang.log"
    service_words = [
        "ddwatch.demo.service",
        *("--scenario", arguments.scenario),
        *("--seed", str(arguments.seed)),
        *("--log", str(log)),
        *("--speed", str(arguments.speed)),
        *("--interval", str(arguments.interval)),
        *("--until-pid", str(os.getpid())),
        "--hold",
    ]
    # The demo is the same for everyone: an empty settings file keeps the user's own out of it.
    settings = folder / "sidecar.toml"
    settings.touch()
    sidecar_words = [
        "ddwatch_sidecar.cli",
        *("--log", str(log)),
        *("--listen", "127.0.0.1:0"),
        *("--until-pid", str(os.getpid())),
        *("--time-scale", str(arguments.speed)),
        *("--config", str(settings)),
        "--announce",
        "--simulated",
    ]
    with ExitStack() as stack:
        what = "the simulated service"
        service = stack.enter_context(child(service_words, what, folder / "service.err"))
        said = first_line(service, what, folder / "service.err")
        if said != LIVE:
            raise CommandFailed(f"ddwatch demo: {what} said {said!r} instead of starting")
        what = "the sidecar"
        sidecar = stack.enter_context(child(sidecar_words, what, folder / "sidecar.err"))
        url = announced(first_line(sidecar, what, folder / "sidecar.err"))
        assert service.stdin is not None
        service.stdin.write(b"go\n")
        service.stdin.flush()
        yield url


def announced(line: str) -> str:
    """The URL in a sidecar's announcement; raises CommandFailed when it is none."""
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed(f"ddwatch demo: the sidecar announced {line!r} instead of its URL") from error


def headless(arguments: argparse.Namespace, url: str) -> int:
    """Watches for a while and prints one reading."""
    import httpx

    from ddwatch.core.wire import WireError, decode_snapshot

    seconds = SECONDS if arguments.seconds is None else arguments.seconds
    time.sleep(seconds)
    try:
        body = httpx.get(f"{url}/v1/snapshot", timeout=10, trust_env=False).raise_for_status().content
        snapshot = decode_snapshot(body)
    except (httpx.HTTPError, WireError) as error:
        raise CommandFailed(f"ddwatch demo: the sidecar did not answer: {error}") from error
    if arguments.json:
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "scenario": arguments.scenario,
            "seed": arguments.seed,
            "seconds": seconds,
            "simulated": True,
            "snapshot": json.loads(body),
        }
        sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")
    else:
        sys.stdout.write(f"SIMULATED  scenario {arguments.scenario}, seed {arguments.seed}, {seconds:g} s\n")
        now, verdict = snapshot.now, snapshot.verdict
        sys.stdout.write(f"{verdict.name}: {verdict.sentence}\n")
        for name, value, unit in (
            ("throughput", now.throughput, "tok/s"),
            ("accept length", now.accept_length, "tokens"),
            ("step time", None if now.step_seconds is None else 1000 * now.step_seconds, "ms"),
            ("context", now.context_tokens, "tokens per request"),
            ("batch", now.batch, "running"),
            ("queue", now.queued, "waiting"),
        ):
            figure = "unknown" if value is None else f"{value:.4g} {unit}"
            sys.stdout.write(f"{name:<14} {figure}\n")
    return VERDICT_EXITS[snapshot.verdict.name]


def screen(arguments: argparse.Namespace, url: str) -> int:
    """The real screen on the sidecar's stream."""
    from ddwatch.app import DDWatch
    from ddwatch.feeds.live import LiveFeed

    app = DDWatch(LiveFeed(url))
    app.run()
    return Exit.OK
