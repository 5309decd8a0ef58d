"""`ddwatch`: the screen on a sidecar that runs already, or on one of its own for a server; or one plain reading."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ddwatch.commands.discovering import DEFAULT_URL, sidecar_url
from ddwatch.core.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from ddwatch.commands.sidecar_child import SidecarChild
    from ddwatch.core.records import SourceFault
    from ddwatch.core.snapshot import Frame
    from ddwatch.feeds.live import LiveFeed

WINDOWS = (1, 5, 15, 60)
WINDOW = 5
OWN = ("profile", "sglang_key_file", "request_metrics", "fpm")
"""Options of a sidecar of one's own; they leave the one that runs already alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"a sidecar to attach to ({DEFAULT_URL} if one answers there, else the SGLang that runs here is found)",
    )
    parser.add_argument(
        "--log",
        metavar="PATH|…",
        help="an SGLang log to follow with a sidecar of its own: a file, - for stdin, journal:UNIT (or "
        "journal:user/UNIT), docker:NAME (or podman's), 'command:CMD ARGS'",
    )
    parser.add_argument("--sglang-url", metavar="URL", help="SGLang itself, asked for its load: the better witness")
    parser.add_argument("--sglang-key-file", metavar="FILE", help="SGLang's own key (else DDWATCH_SGLANG_KEY)")
    parser.add_argument("--request-metrics", metavar="DIR", help="SGLang's records of finished requests")
    parser.add_argument("--fpm", metavar="NAME", help="SGLang's --forward-pass-metrics-ipc-name: its forward passes")
    parser.add_argument("--profile", metavar="NAME|FILE", help="judge by this profile; without one ddwatch learns")
    parser.add_argument("--token-file", metavar="FILE", help="the sidecar's token (else DDWATCH_TOKEN)")
    parser.add_argument("--once", action="store_true", help="print one plain reading, exit with the verdict's code")
    parser.add_argument("--json", action="store_true", help="with --once: print the snapshot document")
    parser.add_argument("--window", type=int, choices=WINDOWS, default=WINDOW, metavar="MIN", help="1, 5, 15 or 60 (5)")
    parser.add_argument(
        "--bell",
        nargs="?",
        const="page",
        choices=("page", "notice"),
        help="ring the terminal's bell once for each page that begins to fire; notice: for notices too",
    )
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    parser.add_argument("--mouse", action="store_true", help="mouse even in tmux and over SSH")


def run(arguments: argparse.Namespace) -> int:
    """Shows the screen, or prints one reading."""
    if arguments.json and not arguments.once:
        raise CommandFailed("ddwatch: --json needs --once", Exit.USAGE)
    if arguments.bell is not None and arguments.once:
        raise CommandFailed("ddwatch: --bell is for the screen, and --once draws none", Exit.USAGE)
    named = arguments.log is not None or arguments.sglang_url is not None
    if named and arguments.url is not None:
        raise CommandFailed("ddwatch: --url is a sidecar that runs; --log and --sglang-url start one", Exit.USAGE)
    given = [flag for flag in OWN if getattr(arguments, flag) is not None]
    if given and arguments.url is not None:
        flag = given[0].replace("_", "-")
        raise CommandFailed(f"ddwatch: --{flag} is for a sidecar of its own, and --url names one that runs", Exit.USAGE)
    if (named or given) and arguments.token_file is not None:
        raise CommandFailed("ddwatch: --token-file is for a sidecar that runs (--url)", Exit.USAGE)
    if not arguments.once:
        need_terminal()
    with ExitStack() as stack:
        if not named and not given:
            token = token_of(arguments.token_file)
            url = arguments.url or local_sidecar(token)
            if url is not None:
                return once_of(arguments, url, token) if arguments.once else screen(arguments, live_feed(url, token))
        child = stack.enter_context(child_of(arguments) if named else child_of_found(arguments))
        if arguments.once:
            return once_of(arguments, child.url, None, child)
        return screen(arguments, ChildFeed(child))


def need_terminal() -> None:
    """Raises CommandFailed where no screen can be drawn."""
    if not sys.stdout.isatty() or not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        raise CommandFailed("ddwatch: the screen needs a terminal; `ddwatch --once` prints one reading", Exit.USAGE)


def token_of(path: str | None) -> str | None:
    """The token from a file or the environment, None when there is none."""
    if path is None:
        return os.environ.get("DDWATCH_TOKEN") or None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandFailed(f"ddwatch: cannot read the token file {path}: {reason}") from error
    if not token or not token.isascii() or not token.isprintable():
        raise CommandFailed(f"ddwatch: the token file {path} holds no token on a single line")
    return token


def local_sidecar(token: str | None) -> str | None:
    """The sidecar of this machine, None where nothing listens; raises CommandFailed for any other server there."""
    import httpx

    from ddwatch.feeds.live import Refused, check, sentence

    url = sidecar_url()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        response = httpx.get(f"{url}/healthz", headers=headers, timeout=2.0, trust_env=False)
        check(response)
        if b'"ddwatch.health/' not in response.content:
            raise Refused("another server answers there")
    except httpx.ConnectError:
        return None
    except (httpx.HTTPError, Refused) as error:
        raise CommandFailed(f"ddwatch: {sentence(url, error)}; give --url URL or --log PATH") from error
    return url


@contextmanager
def child_of_found(arguments: argparse.Namespace) -> "Iterator[SidecarChild]":
    """A sidecar for the SGLang server that runs here; among several the reader picks one."""
    import subprocess

    from ddwatch.commands.discovering import FLAGS, chosen
    from ddwatch.commands.sidecar_child import sidecar_for
    from ddwatch.core.servers.found import words_for

    words = [*words_for(chosen(typed(arguments)), FLAGS), *handed_on(arguments)]
    with ending_on_signals(), sidecar_for(None, subprocess.DEVNULL, words) as child:
        yield child


def typed(arguments: argparse.Namespace) -> list[str]:
    """Words of this command line that belong into a longer one."""
    words = [f"--{name}" for name in ("once", "json", "ascii", "mouse") if getattr(arguments, name)]
    for name in (*OWN, "bell"):
        if getattr(arguments, name) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(arguments, name)]
    return words if arguments.window == WINDOW else [*words, "--window", str(arguments.window)]


@contextmanager
def child_of(arguments: argparse.Namespace) -> "Iterator[SidecarChild]":
    """A sidecar for --log; with `-` it gets stdin, and the screen takes its keys from the terminal itself."""
    import subprocess

    from ddwatch.commands.log_named import need_program, place_named
    from ddwatch.commands.sidecar_child import sidecar_for

    more = handed_on(arguments)
    if arguments.log is None:
        with ending_on_signals(), sidecar_for(None, subprocess.DEVNULL, more) as child:
            yield child
        return
    place = place_named("", arguments.log)
    if place.kind not in ("file", "stdin"):
        if arguments.once:
            need_program(place)
        with ending_on_signals(), sidecar_for(arguments.log, subprocess.DEVNULL, more) as child:
            yield child
        return
    if place.kind == "file":
        path = Path(arguments.log)
        if path.is_dir():
            raise CommandFailed(f"ddwatch: {arguments.log} is a directory, not a log")
        if arguments.once:
            need_log(path, arguments.log)
        with ending_on_signals(), sidecar_for(str(path.absolute()), subprocess.DEVNULL, more) as child:
            yield child
        return
    if sys.stdin.isatty():
        raise CommandFailed("ddwatch: --log - reads a log from a pipe, and stdin is a terminal", Exit.USAGE)
    piped = os.dup(0)
    try:
        if not arguments.once:
            keys_from_terminal()
        with ending_on_signals(), sidecar_for("-", piped, more) as child:
            os.close(piped)
            piped = -1
            yield child
    finally:
        if piped >= 0:
            os.close(piped)


def handed_on(arguments: argparse.Namespace) -> list[str]:
    """Words of this command line that are the sidecar's."""
    # One reading leaves nothing behind.
    words = ["--no-record", "--alerts", "off"] if arguments.once else []
    for name in ("sglang_url", "sglang_key_file", "request_metrics", "fpm", "profile"):
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", value]
    return words


def need_log(path: Path, name: str) -> None:
    """Raises CommandFailed for what gives one reading nothing to wait for; a live screen waits for any of it."""
    try:
        if not path.exists():
            raise CommandFailed(f"ddwatch: there is no file {name}")
        if not path.is_file():
            raise CommandFailed(f"ddwatch: {name} is a pipe or device; hand it over as `--log - < {name}`")
        path.open("rb").close()
    except OSError as error:
        raise CommandFailed(f"ddwatch: cannot read {name}: {(error.strerror or str(error)).lower()}") from error


def keys_from_terminal() -> None:
    """Puts the controlling terminal in the place of stdin."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise CommandFailed("ddwatch: there is no terminal to take keys from beside --log -", Exit.USAGE) from error
    os.dup2(terminal, 0)
    os.close(terminal)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turns SIGTERM and a closed terminal into an orderly end, so that the child goes too."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def once_of(arguments: argparse.Namespace, url: str, token: str | None, child: "SidecarChild | None" = None) -> int:
    """One reading."""
    from ddwatch.commands.once import once

    if child is None:
        return once(url, token, as_json=arguments.json)
    return once(url, token, as_json=arguments.json, last_words=child.last_words)


def live_feed(url: str, token: str | None) -> "LiveFeed":
    """A feed on a sidecar; raises CommandFailed for an address that can never be one."""
    from ddwatch.feeds.live import LiveFeed

    if not url.startswith(("http://", "https://")):
        raise CommandFailed(f"ddwatch: --url {url!r} is not an address; it should look like {DEFAULT_URL}", Exit.USAGE)
    return LiveFeed(url, token)


class ChildFeed:
    """A feed on a sidecar of one's own: when it dies, its last sentence is what the screen says."""

    def __init__(self, child: "SidecarChild") -> None:
        self._child = child
        self._feed = live_feed(child.url, None)
        self.controls = self._feed.controls
        self.origin = self._feed.origin

    def frames(self) -> "Iterator[Frame | SourceFault]":
        """The child's frames, until it is gone."""
        from ddwatch.core.records import SourceFault

        for item in self._feed.frames():
            words = self._child.last_words() if isinstance(item, SourceFault) else None
            if words is None:
                yield item
                continue
            reason = f"the sidecar that ddwatch started is gone: {words}"
            yield SourceFault(at=item.at if isinstance(item, SourceFault) else 0.0, source="sidecar", reason=reason)
            return

    def close(self) -> None:
        """Ends `frames`."""
        self._feed.close()


def screen(arguments: argparse.Namespace, feed: "LiveFeed | ChildFeed") -> int:
    """The screen until the reader leaves."""
    from ddwatch.app import DDWatch
    from ddwatch.bell import Bell
    from ddwatch.commands.alert_asking import ask
    from ddwatch.commands.recorded_past import past_of

    app = DDWatch(
        feed,
        ascii_only=arguments.ascii or None,
        window=60.0 * arguments.window,
        past=past_of,
        asks=ask,
        bell=Bell(arguments.bell) if arguments.bell is not None else None,
    )
    if arguments.mouse:
        app.run(mouse=True)
    else:
        app.run()
    return app.return_code or Exit.OK
