"""One server as discovery hands it out: how to reach it, where its log is, what it publishes, and what is not known."""

import re
import shlex
from collections.abc import Collection, Sequence

from msgspec import Struct

from ddwatch.core.arguments import Scalar, plain
from ddwatch.core.servers.grouping import Engine
from ddwatch.core.servers.outlets import Log, LogTraces, log_of
from ddwatch.core.servers.sockets import Port, url_of

ENDPOINT = re.compile(r"tcp://(?P<host>[\w.*-]{1,255}):(?P<port>\d{1,5})$|ipc:///[^\0]{1,90}$")
"""Names of sockets that can be listened to."""
LOOPBACK = "127.0.0.1"
KEY_NOTE = "it wants its key: give --sglang-key-file FILE or set DDWATCH_SGLANG_KEY"
SHORT = 40
"""Characters of a model's name in a list."""


class Traces(Struct, frozen=True, kw_only=True):
    """All that was seen of one server beside its command line."""

    log: LogTraces = LogTraces()
    port: Port | None = None
    """Where this machine reaches it."""
    port_problem: str | None = None
    """Why that is not known."""
    forward_passes: str | None = None
    """Where the socket of its forward passes was seen."""
    request_records: str | None = None
    """Where this machine reaches the folder of its request records."""
    version: str | None = None
    arguments: dict[str, Scalar] | None = None
    """What the server itself said of its arguments, allow-listed, where it was asked."""
    closed: bool = False
    """Whether this user may not look into its processes."""
    notes: tuple[str, ...] = ()


class FoundServer(Struct, frozen=True, kw_only=True):
    """A running server, without any secret of its command line."""

    pid: int
    name: str
    """The model as it is served, or what is known instead."""
    url: str | None = None
    """Where it is reached from this machine."""
    listening: bool | None = None
    """Whether something listens there; None where this could not be seen."""
    log: Log
    metrics: bool | None = None
    """Whether it serves /metrics; None where its arguments are not known."""
    forward_passes: str | None = None
    """The endpoint of its forward passes, where they are on and it is known."""
    request_records: str | None = None
    """The folder of its request records, where they are on."""
    log_requests: bool | None = None
    wants_key: bool = False
    version: str | None = None
    schedulers: int = 0
    owner: str | None = None
    """The user that runs it, where it is another one."""
    arguments: dict[str, Scalar] = {}
    """Allow-listed."""
    notes: tuple[str, ...] = ()
    """What is not known and why, and what helps."""


def order(server: FoundServer) -> tuple[bool, int, int]:
    """Where it stands in a list: by port, those without one last."""
    port = (server.url or "").rpartition(":")[2]
    return not port.isdecimal(), int(port) if port.isdecimal() else 0, server.pid


def name_of(engine: Engine, arguments: dict[str, Scalar]) -> str:
    """What a reader calls it."""
    for key in ("served_model_name", "model_path"):
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return value
    return "SGLang inside another program" if engine.launch is None else "SGLang"


def describe(engine: Engine, traces: Traces) -> FoundServer:
    """What is known of a server, in one piece."""
    launch = engine.launch
    told = traces.arguments
    arguments = {**(launch.arguments if launch is not None else {}), **(told or {})}
    known = launch is not None or told is not None
    notes = list(traces.notes)
    url: str | None = None
    listening: bool | None = None
    if launch is not None and not launch.http:
        notes.append(
            f"it computes for node 0 (--node-rank {arguments['node_rank']}): its port is on that host"
            if arguments.get("node_rank") not in (None, 0)
            else "it speaks gRPC only (--grpc-mode): ddwatch has its log alone"
        )
    elif traces.port is not None:
        url = url_of(traces.port, tls=launch is not None and launch.tls)
        listening = traces.port.listening
        if listening is False:
            notes.append(f"nothing listens on port {traces.port.port} yet: it is loading, or has just ended")
    elif traces.port_problem is not None:
        notes.append(traces.port_problem)
    if launch is not None and launch.wants_key:
        notes.append(KEY_NOTE)
    level = arguments.get("log_level")
    if isinstance(level, str) and level.lower() in ("warning", "warn", "error", "critical"):
        notes.append(f"it writes no decode lines at --log-level {level.lower()}: restart it with --log-level info")
    log = log_of(traces.log)
    if traces.closed and (log.source is None or (url is not None and listening is None)):
        owner = traces.log.owner or "another user"
        who = "root" if owner == "root" else "that user and root"
        notes.append(f"it runs as {owner}: only {who} may see its sockets and its output")
    passes = _passes(arguments, launch.forward_passes if launch is not None else None, traces)
    if passes is None and arguments.get("enable_forward_pass_metrics") is True:
        notes.append("its forward passes are on, and where they are published cannot be seen from here")
    return FoundServer(
        pid=engine.pid,
        name=name_of(engine, arguments),
        url=url,
        listening=listening,
        log=log,
        metrics=arguments.get("enable_metrics") is True if known else None,
        forward_passes=passes,
        request_records=traces.request_records,
        log_requests=arguments.get("log_requests") is True if known else None,
        wants_key=launch is not None and launch.wants_key,
        version=traces.version,
        schedulers=engine.schedulers,
        owner=traces.log.owner,
        arguments=dict(sorted(arguments.items())),
        notes=tuple(dict.fromkeys(notes)),
    )


def _passes(arguments: dict[str, Scalar], asked: str | None, traces: Traces) -> str | None:
    """The endpoint, only where the passes are on: what was seen before what was asked for."""
    if arguments.get("enable_forward_pass_metrics") is not True:
        return None
    if traces.forward_passes is not None or asked is None:
        return traces.forward_passes
    bound = ENDPOINT.match(asked)
    if bound is None:
        return None
    if bound["host"] is not None:
        return f"tcp://{LOOPBACK if bound['host'] in ('*', '0.0.0.0') else bound['host']}:{bound['port']}"
    # What a container calls it is nothing here.
    return asked if traces.log.container is None else None


def words_for(server: FoundServer, flags: Collection[str]) -> list[str]:
    """The words that make a sidecar watch this server; only those of `flags` that it understands."""
    values = {
        "--log": server.log.source,
        "--sglang-url": server.url,
        "--fpm": server.forward_passes,
        "--request-metrics": server.request_records,
    }
    return [word for flag, value in values.items() if value is not None and flag in flags for word in (flag, value)]


def command_for(server: FoundServer, flags: Collection[str], *program: str) -> str | None:
    """What to type to watch this server (with `ddwatch`, or the words given); None where nothing of it can be read."""
    words = words_for(server, flags)
    return shlex.join([*(program or ("ddwatch",)), *words]) if words else None


def traits(server: FoundServer) -> list[str]:
    """What distinguishes it, in a few words each."""
    arguments = server.arguments
    found = []
    if server.version is not None:
        found.append(f"SGLang {server.version}")
    algorithm = arguments.get("speculative_algorithm")
    if isinstance(algorithm, str):
        found.append(plain(algorithm, 20))
    for key, label in (("tp_size", "TP"), ("dp_size", "DP"), ("pp_size", "PP"), ("ep_size", "EP")):
        size = arguments.get(key)
        if isinstance(size, int) and not isinstance(size, bool) and size > 1:
            found.append(f"{label}{size}")
    found += [
        word
        for word, holds in (
            ("/metrics", server.metrics),
            ("forward passes", server.forward_passes is not None),
            ("request records", server.request_records is not None),
            ("logs requests", server.log_requests),
        )
        if holds
    ]
    return found


def place_of(server: FoundServer) -> str:
    """Where it is reached, and how sure that is."""
    if server.url is None:
        return "no port known"
    # That nothing listens there is a note of its own.
    return server.url if server.listening is not None else f"{server.url} (not verified)"


def list_lines(servers: Sequence[FoundServer], first: int = 1) -> list[str]:
    """A numbered list: a head line per server, and below it where it is reached and read."""
    lines: list[str] = []
    width = len(str(len(servers)))
    for number, server in enumerate(servers, first):
        owner = f", user {server.owner}" if server.owner else ""
        lines.append(f"  {number:>{width}}  {plain(server.name, SHORT)}   pid {server.pid}{owner}")
        lines += [f"  {'':>{width}}    {label:<5} {text}" for label, text in rows_of(server)]
    return lines


def rows_of(server: FoundServer) -> list[tuple[str, str]]:
    """Each line below a server's head, with its label."""
    rows = [("port", place_of(server))]
    log = server.log
    rows.append(("log", f"{log.source}  ({log.detail})" if log.source is not None else f"none: {log.detail}"))
    if log.fix is not None:
        rows.append(("", f"→ {log.fix}"))
    what = traits(server)
    if what:
        rows.append(("", " · ".join(what)))
    return rows + [("", f"! {note}") for note in server.notes]


def none_found(looked_at: int, leftovers: Sequence[int], *, hidden: bool) -> str:
    """Why there is no server, in one sentence without its end."""
    text = (
        f"none of the {looked_at} processes here is an SGLang server (python -m sglang.launch_server, sglang serve, "
        "or a child named sglang::scheduler)"
    )
    if hidden:
        text += "; this host hides the processes of other users (hidepid), root would see them"
    if leftovers:
        text += f"; {left_over(leftovers)}"
    return text


def left_over(pids: Sequence[int]) -> str:
    """What is said of children whose server is gone."""
    told = ", ".join(str(pid) for pid in pids[:4]) + (" …" if len(pids) > 4 else "")
    verb = "is" if len(pids) == 1 else "are"
    return f"pid {told} {verb} left over from a server that is gone, and may still hold its GPUs"
