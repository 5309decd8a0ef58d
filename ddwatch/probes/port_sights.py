"""What SGLang's port lets ddwatch see, and which of SGLang's flags would give more."""

from ddwatch.core.arguments import Scalar
from ddwatch.probes.failures import ProbeFailed
from ddwatch.probes.server import Facts, Server
from ddwatch.probes.surroundings import Sight

SWITCHES = (
    (
        "Prometheus page",
        "enable_metrics",
        "--enable-metrics",
        "/metrics",
        "tokens, queue and context of SGLang's own (--sglang-url)",
    ),
    (
        "forward passes",
        "enable_forward_pass_metrics",
        "--enable-forward-pass-metrics",
        "ZMQ",
        "the GPU's share of each step, and contexts that count shared prefixes (--fpm NAME)",
    ),
)


def port_sights(server: Server) -> tuple[list[Sight], Facts | None, str | None]:
    """The sights, what the server says of itself, and the sentence where it says nothing."""
    try:
        facts = server.facts()
    except ProbeFailed as failed:
        sight = Sight(
            name="server",
            state="unseen",
            source=server.url,
            detail=failed.sentence,
            command="ddwatch doctor URL",
        )
        return [sight], None, failed.sentence
    version = facts.version or "–"
    sights = [Sight(name="server", state="seen", source=f"{server.url}/server_info", detail=f"SGLang {version}")]
    sights.append(moments_sight(server, version))
    sights += flag_sights(facts.arguments)
    return sights, facts, None


def moments_sight(server: Server, version: str) -> Sight:
    """Whether whole-step times come from the port."""
    name, source = "step times", f"{server.url}/v1/loads"
    try:
        loads = server.loads()
    except ProbeFailed as failed:
        return Sight(name=name, state="unseen", source=source, detail=failed.sentence)
    if loads is None:
        return Sight(
            name=name,
            state="unseen",
            source=source,
            detail=f"SGLang {version} has no /v1/loads (0.5.8 and later); step times come from the log alone",
            command="ddwatch sidecar --log PATH",
        )
    if not any(rank.moments is not None for rank in loads.ranks):
        return Sight(
            name=name,
            state="partly",
            source=source,
            detail=f"SGLang {version} gives the load and no decode moments (0.5.18 and later)",
            command="ddwatch sidecar --log PATH",
        )
    return Sight(
        name=name,
        state="seen",
        source=source,
        detail="decode moments: whole steps without prefill and idle time",
        command=f"ddwatch sidecar --sglang-url {server.url}",
    )


def flag_sights(arguments: dict[str, Scalar]) -> list[Sight]:
    """What SGLang's own flags allow."""
    found = []
    interval = arguments.get("decode_log_interval")
    if interval == 1:
        found.append(Sight(name="single steps", state="seen", source="log", detail="each decode line is one step"))
    elif isinstance(interval, int):
        detail = f"each decode line is the mean of {interval} steps: a single slow step is invisible"
        found.append(
            Sight(name="single steps", state="partly", source="log", detail=detail, command="--decode-log-interval 1")
        )
    for name, argument, flag, source, gives in SWITCHES:
        if argument not in arguments:
            continue
        if arguments[argument] is True:
            found.append(Sight(name=name, state="seen", source=source, detail=gives))
        else:
            found.append(
                Sight(name=name, state="partly", source=source, detail=f"off; it would give {gives}", command=flag)
            )
    return found
