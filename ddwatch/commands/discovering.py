"""What `ddwatch` watches when nothing was named: the sidecar of this machine, else a running SGLang, by choice."""

import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NoReturn

from ddwatch.core.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from ddwatch.core.servers.found import FoundServer
    from ddwatch.discovery.find import Found

DEFAULT_URL = "http://127.0.0.1:9477"
FLAGS = ("--log", "--sglang-url", "--request-metrics", "--fpm")
"""What a sidecar can be told of a server that was found."""
HANGING = " " * 13
"""Indent of a continued line of the list."""
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def sidecar_url() -> str:
    """Where the sidecar of this machine is looked for: DDWATCH_LISTEN says it to the sidecar too."""
    host, colon, port = (os.environ.get("DDWATCH_LISTEN") or "").rpartition(":")
    if not colon or not port.isdecimal() or port == "0":
        return DEFAULT_URL
    return f"http://{'127.0.0.1' if host in ('', '0.0.0.0', '[::]', '::') else host}:{port}"


def look() -> "Found":
    """All servers of this machine; DDWATCH_PROC names the /proc of another one, mounted into a container."""
    from ddwatch.discovery.find import find
    from ddwatch.discovery.machine import Machine

    return find(Machine(Path(os.environ.get("DDWATCH_PROC") or "/proc")))


def chosen(rest: Sequence[str] = ()) -> "FoundServer":
    """The only server, or the one that the reader picks; raises CommandFailed with what to type instead.

    `rest` are further words of this command line, for the commands that are shown.
    """
    found = look()
    servers = found.servers
    if not servers:
        raise CommandFailed(
            f"ddwatch: no sidecar answers at {sidecar_url()}, and {found.none}: start SGLang, or type ddwatch --log "
            "PATH (its log), ddwatch --sglang-url URL (its port), ddwatch --url URL (a sidecar elsewhere) or ddwatch "
            "demo (a simulated one)"
        )
    if len(servers) == 1:
        server = servers[0]
    elif sys.stdin.isatty() and sys.stderr.isatty():
        server = picked(servers)
    else:
        name_one(servers, rest)
    need_source(server)
    tell(server, keyed="--sglang-key-file" in rest or bool(os.environ.get("DDWATCH_SGLANG_KEY")))
    return server


def need_source(server: "FoundServer") -> None:
    """Raises CommandFailed for a server of which nothing can be read."""
    if server.log.source is None and server.url is None:
        fix = f" (try: {server.log.fix})" if server.log.fix else ""
        why = "; ".join((f"{server.log.detail}{fix}", *server.notes))
        raise CommandFailed(
            f"ddwatch: {shown(server.name)} (pid {server.pid}) runs here, and neither its log nor its port can be "
            f"read: {shown(why)}"
        )


def tell(server: "FoundServer", *, keyed: bool) -> None:
    """Says on stderr what is watched, and what is missing; `keyed` where SGLang's key was given."""
    from ddwatch.core.servers.found import KEY_NOTE

    places = [place for place in (server.log.source, server.url) if place is not None]
    lines = [f"ddwatch: found {server.name} (pid {server.pid}), reading {' and '.join(places)}"]
    if server.log.source is None:
        lines.append(f"ddwatch: without its log: {server.log.detail} → {server.log.fix}")
    lines += [f"ddwatch: {note}" for note in server.notes if not (keyed and note == KEY_NOTE)]
    say(lines)


def picked(servers: "Sequence[FoundServer]") -> "FoundServer":
    """The server whose number the reader types."""
    from ddwatch.core.servers.found import list_lines

    columns = max(60, get_terminal_size().columns)
    lines = [f"{len(servers)} SGLang servers run here:", ""]
    for line in list_lines(servers):
        lines += textwrap.wrap(
            line, columns, subsequent_indent=HANGING, break_long_words=False, break_on_hyphens=False, tabsize=1
        )
    say(lines, bold=True)
    while True:
        sys.stderr.write(f"\nWhich one? 1-{len(servers)}, Enter for 1, q to leave: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        word = answer.strip().lower()
        if not answer or word in ("q", "quit", "exit"):
            sys.stderr.write("\n" if not answer else "")
            raise SystemExit(Exit.INTERRUPTED)
        if not word:
            return servers[0]
        if word.isdecimal() and 1 <= int(word) <= len(servers):
            return servers[int(word) - 1]
        say([f"{shown(word)[:20]} is none of them"])


def name_one(servers: "Sequence[FoundServer]", rest: Sequence[str]) -> NoReturn:
    """Prints the list with a command for each, and leaves: nobody is there to be asked."""
    import shlex

    from ddwatch.core.servers.found import list_lines, words_for

    lines = [f"ddwatch: {len(servers)} SGLang servers run here: type the command of one"]
    for number, server in enumerate(servers, 1):
        lines += ["", *list_lines([server], number)]
        words = words_for(server, FLAGS)
        command = shlex.join(["ddwatch", *words, *rest]) if words else "nothing of it can be read from here"
        lines.append(f"     $ {command}")
    say(lines)
    raise SystemExit(Exit.USAGE)


def say(lines: Sequence[str], *, bold: bool = False) -> None:
    """Writes lines on stderr as it can show them; with `bold` the head of each server stands out."""
    from ddwatch.core.expectation.wording import readable

    bold = bold and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")
    for line in lines:
        text = readable(shown(line), sys.stderr.encoding)
        is_head = text.lstrip()[:1].isdecimal() and text.startswith("  ") and not text.startswith(HANGING)
        sys.stderr.write(f"{BOLD}{text}{PLAIN}\n" if bold and is_head else f"{text}\n")
    sys.stderr.flush()


def shown(text: str) -> str:
    """Text as a terminal may show it."""
    return "".join(character if character.isprintable() else "?" for character in text)
