"""Gives a sidecar that was told nothing to read the SGLang server that runs here."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ddwatch.core.exits import CommandFailed, Exit
from ddwatch_sidecar.config import Settings

if TYPE_CHECKING:
    from ddwatch.core.servers.found import FoundServer

FLAGS = ("--log", "--sglang-url", "--request-metrics", "--fpm")
"""What these settings can say of a server."""
SHOWN = 4
"""Servers that are named in a sentence."""


def with_found(settings: Settings, environment: Mapping[str, str], tell: Callable[[str], None]) -> Settings:
    """The settings, with the sources of the only server that runs here where they name none.

    Raises:
        CommandFailed: with one sentence that says what to type, where there is no server or more than one.
    """
    if settings.log or settings.sglang_url is not None or settings.simulated:
        return settings
    from ddwatch.core.servers.found import command_for
    from ddwatch.discovery.find import find
    from ddwatch.discovery.machine import Machine

    found = find(Machine(Path(environment.get("DDWATCH_PROC") or "/proc")))
    readable = [server for server in found.servers if server.log.source is not None or server.url is not None]
    if not readable:
        raise CommandFailed(
            "there is nothing to read: give --log PATH (or journal:UNIT, docker:NAME, command:CMD, - for standard "
            f"input), or --sglang-url URL; {_unreadable(found.servers) or found.none}",
            Exit.USAGE,
        )
    if len(readable) > 1:
        for server in readable:
            tell(f"{server.name} (pid {server.pid}): {command_for(server, FLAGS, 'ddwatch-sidecar')}")
        raise CommandFailed(f"{len(readable)} SGLang servers run here: name one, as above", Exit.USAGE)
    server = readable[0]
    places = [place for place in (server.log.source, server.url) if place is not None]
    tell(f"found {server.name} (pid {server.pid}): {' and '.join(places)}")
    if server.log.source is None:
        tell(f"without its log: {server.log.detail} → {server.log.fix}")
    for note in server.notes:
        tell(note)
    return replace(
        settings,
        log=() if server.log.source is None else (server.log.source,),
        sglang_url=server.url,
        request_metrics=settings.request_metrics or server.request_records,
        fpm=settings.fpm or server.forward_passes,
    )


def _unreadable(servers: "tuple[FoundServer, ...]") -> str:
    """Why servers that do run cannot be read; empty where none runs."""
    return "; ".join(
        "; ".join((f"{one.name} (pid {one.pid}) runs here: {one.log.detail}", *one.notes)) for one in servers[:SHOWN]
    )
