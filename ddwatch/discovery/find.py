"""Finds the SGLang servers of this machine, and for each its port, its log and what else it publishes."""

import getpass
import os
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.servers.cgroups import Container, container_of, unit_of
from ddwatch.core.servers.command_line import DEFAULT_PORT, Launch, base, read_command
from ddwatch.core.servers.found import FoundServer, Traces, describe, none_found, order
from ddwatch.core.servers.grouping import Engine, Process, grouped
from ddwatch.core.servers.outlets import LogTraces, Reader, best_file, outlet, stream_of, written_by_tee
from ddwatch.core.servers.sockets import Listener, Port, port_of, url_of
from ddwatch.discovery.asking import Answer, ask
from ddwatch.discovery.containers import Runtimes, Told
from ddwatch.discovery.machine import Machine, is_there
from ddwatch.discovery.versions import version_of

ENGINES_AT_MOST = 64
CHILDREN_AT_MOST = 32
"""Children whose sockets are looked at."""
PORTS_AT_MOST = 4
"""Ports of an engine without arguments that are asked."""
PIPES_AT_MOST = 4
"""Programs between a server and the file that they write."""
LOGGING_CONFIG = "SGLANG_LOGGING_CONFIG_PATH"
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket."""


class Found(Struct, frozen=True, kw_only=True):
    """What discovery found."""

    servers: tuple[FoundServer, ...] = ()
    """In order of port, then of pid."""
    looked_at: int = 0
    """Processes whose words were read."""
    leftovers: tuple[int, ...] = ()
    """Children of servers that are gone."""
    hidden: bool = False
    """Whether this host hides the processes of other users."""

    @property
    def none(self) -> str:
        """Why there is no server."""
        return none_found(self.looked_at, self.leftovers, hidden=self.hidden)


def find(
    machine: Machine | None = None,
    runtimes: Runtimes | None = None,
    asking: Callable[[str], Answer | None] = ask,
) -> Found:
    """All servers of this machine; never raises for what the machine does meanwhile."""
    machine = machine or Machine()
    processes = {one.pid: one for one in machine.processes()}
    groups = grouped(processes.values())
    look = Look(machine, runtimes or Runtimes(), asking, processes)
    servers = [one for engine in groups.engines[:ENGINES_AT_MOST] if (one := look.at(engine)) is not None]
    return Found(
        servers=tuple(sorted(servers, key=order)),
        looked_at=sum(bool(one.words) for one in processes.values()),
        leftovers=groups.leftovers,
        hidden=machine.hides_others(),
    )


class Look:
    """Looks at one engine after another."""

    def __init__(
        self,
        machine: Machine,
        runtimes: Runtimes,
        asking: Callable[[str], Answer | None],
        processes: Mapping[int, Process],
    ) -> None:
        self._machine = machine
        self._runtimes = runtimes
        self._ask = asking
        self._processes = processes
        self._own_container = container_of(machine.group_of_self())

    def at(self, engine: Engine) -> FoundServer | None:
        """What is known of an engine; None when it has left meanwhile."""
        pid, machine = engine.pid, self._machine
        words = self._processes[pid].words
        if engine.launch is not None and engine.launch.config is not None:
            config = machine.settings(pid, engine.launch.config)
            engine = replace(engine, launch=read_command(words, config) or engine.launch)
        container = container_of(machine.group(pid))
        if container is not None and self._own_container is not None and container.id == self._own_container.id:
            container = None
        told = self._runtimes.ask(container) if container is not None else Told()
        port, problem, answer = self._port(engine, container, told)
        version = version_of(machine, pid, words)
        if answer is None and version is None and port is not None and port.listening:
            answer = self._ask(url_of(port, tls=_tls(engine.launch)))
        arguments = {
            **(engine.launch.arguments if engine.launch is not None else {}),
            **(answer.arguments if answer is not None else {}),
        }
        traces = Traces(
            log=self._log(engine, container, told),
            port=port,
            port_problem=problem,
            forward_passes=self._forward_passes(engine) if arguments.get("enable_forward_pass_metrics") else None,
            request_records=self._request_records(engine),
            version=version or (answer.version if answer is not None else None),
            arguments=answer.arguments if answer is not None else None,
            closed=machine.inodes(pid) is None,
            notes=self._notes(engine),
        )
        return describe(engine, traces) if machine.exists(pid) else None

    def _notes(self, engine: Engine) -> tuple[str, ...]:
        notes = []
        launch = engine.launch
        if launch is not None and launch.config is not None and not self._machine.settings(engine.pid, launch.config):
            notes.append("its --config file cannot be read from here: arguments in it are not known")
        if launch is not None and launch.request_records is not None and self._request_records(engine) is None:
            notes.append("it writes request records to a folder that cannot be reached from here")
        return tuple(notes)

    def _listeners(self, engine: Engine) -> list[Listener] | None:
        """The sockets on which it takes connections, as far as this user may know."""
        machine, launch = self._machine, engine.launch
        own = machine.listening(engine.pid)
        port = launch.port if launch is not None else DEFAULT_PORT
        if own is None:
            # The owner of a socket is no secret: a socket of that user on the stated port is taken for the server's.
            user = machine.user_of(engine.pid)
            beside = [one for one in machine.listening_beside(engine.pid) if one.port == port and one.owner == user]
            return beside or None
        if launch is not None and not any(one.port == port for one in own):
            # With several HTTP workers the launcher itself may not listen.
            for child in engine.children[:CHILDREN_AT_MOST]:
                own += [one for one in machine.listening(child) or () if one.port == port]
        return own

    def _port(
        self, engine: Engine, container: Container | None, told: Told
    ) -> tuple[Port | None, str | None, Answer | None]:
        """Where this machine reaches it, or why that is not known, and its answer where it was asked."""
        seen = self._listeners(engine)
        port = port_of(engine.launch, seen)
        answer: Answer | None = None
        if port is None and seen and engine.launch is None:
            for one in _spread(seen):
                answer = self._ask(url_of(one, tls=False))
                if answer is not None:
                    port = one
                    break
        if port is None:
            return None, "its port is not known: its arguments are lost, and no socket of it answers as SGLang", None
        shared = self._machine.shares_network(engine.pid)
        if shared or (shared is None and container is None) or told.host_network:
            return port, None, answer
        outer = told.published.get(port.port)
        if outer is not None:
            return Port(host=outer[0], port=outer[1], listening=port.listening), None, answer
        if told.address is not None:
            return Port(host=told.address, port=port.port, listening=port.listening), None, answer
        if shared is None:
            return replace(port, listening=None), None, answer
        where = "inside its container" if container is not None else "in a network of its own"
        return (
            None,
            f"it listens on port {port.port} {where}, which this host does not reach: publish that port",
            answer,
        )

    def _log(self, engine: Engine, container: Container | None, told: Told) -> LogTraces:
        """Everything that decides where its log is read."""
        machine, pid = self._machine, engine.pid
        streams = {number: machine.stream(pid, number) for number in (1, 2)}
        own = machine.is_own(pid)
        found = LogTraces(
            stderr=outlet(streams[2].link, streams[2].mode, present=streams[2].present),
            stdout=outlet(streams[1].link, streams[1].mode, present=streams[1].present),
            own_logging=machine.setting(pid, LOGGING_CONFIG) is not None,
            unit=unit_of(machine.group(pid)),
            container=container,
            container_name=told.name,
            container_tool=told.tool,
            container_problem=told.problem,
            container_file=told.file,
            owner=None if own else machine.owner(pid) or "another user",
            user=_user(),
        )
        stream = stream_of(found)
        number = 1 if stream is found.stdout and stream is not found.stderr else 2
        if stream.kind in ("file", "deleted") and stream.path is not None:
            place = machine.reached(pid, number, stream.path, deleted=stream.kind == "deleted")
            return replace(found, place=place, readable=place is None or os.access(place, os.R_OK))
        if stream.kind == "pipe":
            reader = self._reader(streams[number].link or "", frozenset((pid, *engine.children)))
            readable = reader is None or reader.file is None or os.access(reader.file, os.R_OK)
            return replace(found, reader=reader, readable=readable)
        return replace(found, journal=machine.is_journal(pid, number)) if stream.kind == "socket" else found

    def _reader(self, link: str, without: frozenset[int]) -> Reader | None:
        """Who reads a pipe; through filters, to the program that writes a file."""
        machine = self._machine
        first: Reader | None = None
        for _ in range(PIPES_AT_MOST):
            pid = machine.reader_of(link, without)
            if pid is None:
                break
            words = self._processes[pid].words
            file = best_file(machine.written(pid))
            if file is None:
                named = written_by_tee(words, machine.folder(pid, "."))
                file = named if named is not None and is_there(named) else None
            reader = Reader(pid=pid, name=base(words[0])[:60] if words else "a process", file=file)
            if file is not None:
                return reader
            first = first or reader
            link = machine.stream(pid, 1).link or ""
            if not link.startswith("pipe:"):
                break
        return first

    def _forward_passes(self, engine: Engine) -> str | None:
        """The endpoint of its forward passes as this machine reaches it."""
        endpoint = self._machine.forward_passes(engine.children[:CHILDREN_AT_MOST])
        if endpoint is None:
            return None
        path = endpoint.removeprefix("ipc://")
        for candidate in (path, f"{self._machine.proc}/{engine.pid}/root{path}"):
            if len(candidate.encode()) < SOCKET_PATH_BYTES - 4 and any(
                is_there(f"{candidate}.{rank}") for rank in range(CHILDREN_AT_MOST)
            ):
                return f"ipc://{candidate}"
        return None

    def _request_records(self, engine: Engine) -> str | None:
        launch = engine.launch
        if launch is None or launch.request_records is None:
            return None
        return self._machine.folder(engine.pid, launch.request_records)


def _spread(seen: Iterable[Listener]) -> list[Port]:
    """The first few ports of an engine, each once."""
    ports = {one.port: Port(host=one.host, port=one.port, listening=True) for one in seen}
    return [ports[number] for number in sorted(ports)][:PORTS_AT_MOST]


def _tls(launch: Launch | None) -> bool:
    return launch is not None and launch.tls


def _user() -> str:
    """The name of this user, for commands."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "$USER"
