"""Asks docker or podman about a container: its name, and the port under which it is reached from here."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ddwatch.core.servers.cgroups import Container

PATIENCE_SECONDS = 3.0
ASKED = "{{.Name}}\t{{.HostConfig.LogConfig.Type}}\t{{json .NetworkSettings}}"
"""Nothing else is asked for: a container's environment and command hold secrets."""
POD_LOGS = Path("/var/log/containers")


class Ran(Struct, frozen=True):
    """How a command ended; `code` None for one that could not be run or did not end."""

    code: int | None
    out: str = ""
    err: str = ""


def ran(words: Sequence[str]) -> Ran:
    """Runs a command without a shell, for a few seconds at most."""
    try:
        done = subprocess.run(
            list(words), capture_output=True, timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Ran(None)
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


class Told(Struct, frozen=True, kw_only=True):
    """What is known of a container."""

    name: str | None = None
    tool: str | None = None
    problem: str | None = None
    """Why nothing is known, to follow on "and"."""
    published: dict[int, tuple[str, int]] = {}
    """Its ports with their address and port on this host."""
    host_network: bool = False
    """Whether its ports are this host's."""
    address: str | None = None
    """Its own address, which this host reaches."""
    file: str | None = None
    """A log that its runtime writes, readable by this user."""


class Runtimes:
    """The container tools of this host, with their parts handed in."""

    def __init__(
        self,
        *,
        which: Callable[[str], str | None] = shutil.which,
        run: Callable[[Sequence[str]], Ran] = ran,
        pod_logs: Path = POD_LOGS,
    ) -> None:
        self._which = which
        self._run = run
        self._pod_logs = pod_logs

    def ask(self, container: Container) -> Told:
        """What the tool of this container says."""
        if container.runtime == "kubernetes":
            logs = [one for one in sorted(self._pod_logs.glob(f"*-{container.id}.log")) if os.access(one, os.R_OK)]
            return Told(file=str(logs[0])) if logs else Told()
        tools = ("podman", "docker") if container.runtime == "podman" else ("docker", "podman")
        problem: str | None = None
        for tool in tools:
            if self._which(tool) is None:
                continue
            done = self._run([tool, "inspect", "--type", "container", "--format", ASKED, container.id])
            if done.code == 0 and done.out.count("\t") >= 2:
                return told(tool, done.out)
            problem = problem or refusal(tool, done)
        return Told(problem=problem)


def refusal(tool: str, done: Ran) -> str:
    """Why a tool did not answer, to follow on "and"."""
    words = done.err.lower()
    if done.code is None:
        return f"{tool} does not answer"
    if "permission denied" in words:
        return f"{tool} does not answer this user (sudo usermod -aG {tool} $USER)"
    if "cannot connect" in words or "is the docker daemon running" in words:
        return f"{tool}'s daemon is not reached from here"
    return f"{tool} does not know it"


def told(tool: str, text: str) -> Told:
    """The answer to ASKED."""
    name, driver, settings = text.strip().split("\t", 2)
    try:
        network = json.loads(settings)
    except (ValueError, RecursionError):
        network = None
    network = network if isinstance(network, dict) else {}
    name = name.strip().lstrip("/")
    usable = bool(name) and name.replace("-", "").replace("_", "").replace(".", "").isalnum() and name[0] != "-"
    known = usable and driver != "none"
    return Told(
        name=name if known else None,
        tool=tool if known else None,
        problem=None if known else f"{tool} keeps no log of it (log driver none)",
        host_network="host" in (network.get("Networks") or {}),
        published=_published(network.get("Ports")),
        address=_address(network),
    )


def _published(ports: Any) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for inner, outer in ports.items() if isinstance(ports, dict) else ():
        number, _, kind = str(inner).partition("/")
        first = outer[0] if isinstance(outer, list) and outer and isinstance(outer[0], dict) else {}
        port = str(first.get("HostPort", ""))
        if kind in ("tcp", "") and number.isdecimal() and port.isdecimal():
            found[int(number)] = (str(first.get("HostIp") or "0.0.0.0"), int(port))
    return found


def _address(network: dict[str, Any]) -> str | None:
    networks = network.get("Networks")
    places = [network, *(networks.values() if isinstance(networks, dict) else ())]
    found = [place.get("IPAddress") for place in places if isinstance(place, dict)]
    return next((one for one in found if isinstance(one, str) and one), None)
