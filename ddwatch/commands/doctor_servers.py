"""What `ddwatch doctor` says of the SGLang servers that run here: where each is read, and what is missing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddwatch.core.servers.found import FoundServer
    from ddwatch.discovery.find import Found
    from ddwatch.probes.surroundings import Sight, State


def looked_into(running: "Found", url: str | None) -> "FoundServer | None":
    """The server that is examined: the one at this address, or without an address the first that listens."""
    if url is not None:
        return next((server for server in running.servers if server.url == url), None)
    return next((server for server in running.servers if server.listening), next(iter(running.servers), None))


def server_sights(running: "Found", examined: "FoundServer | None") -> "list[Sight]":
    """A line per server, or one that says that there is none."""
    from ddwatch.core.servers.found import left_over
    from ddwatch.probes.surroundings import Sight

    if not running.servers:
        return [Sight(name="processes", state="absent", source="processes", detail=running.none)]
    found: list[Sight] = []
    if running.leftovers:
        kill = " ".join(["kill", *(str(pid) for pid in running.leftovers)])
        detail = left_over(running.leftovers)
        found.append(Sight(name="processes", state="partly", source="processes", detail=detail, command=kill))
    for server in running.servers:
        found.append(server_sight(server))
        if server is not examined and server.url is not None:
            found.append(
                Sight(
                    name=f"pid {server.pid}",
                    state="partly",
                    source=server.url,
                    detail="its port was not looked into",
                    command=f"ddwatch doctor {server.url}",
                )
            )
    return found


def server_sight(server: "FoundServer") -> "Sight":
    """Where one server is read."""
    from ddwatch.commands.discovering import FLAGS
    from ddwatch.core.servers.found import command_for, place_of
    from ddwatch.probes.surroundings import Sight

    log = server.log
    words = f"log {log.source} ({log.detail})" if log.source is not None else f"no log: {log.detail}"
    state: State = "partly"
    if log.source is not None and server.listening:
        state = "seen"
    elif log.source is None and server.url is None:
        state = "unseen"
    return Sight(
        name=f"pid {server.pid}",
        state=state,
        source=server.url or log.source or "processes",
        detail="; ".join((server.name, place_of(server), words, *server.notes)),
        command=log.fix or command_for(server, FLAGS),
    )


def sidecar_command(server: "FoundServer") -> str | None:
    """What starts a sidecar for a server."""
    from ddwatch.commands.discovering import FLAGS
    from ddwatch.core.servers.found import command_for

    return command_for(server, FLAGS, "ddwatch", "sidecar")
