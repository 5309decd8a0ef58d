"""Reads the control group of a process: in which container it runs, and under which unit of systemd."""

import re
from typing import Literal

from msgspec import Struct

Runtime = Literal["docker", "podman", "kubernetes", "container"]

CONTAINER = re.compile(r"(?:^|[/:_-])([0-9a-f]{64})(?:\.scope)?(?=/|$)")
UNIT = re.compile(r"([\w@.:\\-]{1,240}\.service)$")
SESSIONS = re.compile(
    r"(?:user@\d+|docker|containerd|podman|crio|kubelet|k3s|sshd?(?:@.*)?|crond?|atd|slurmd|supervisor|tmux.*"
    r"|gnome-terminal-server|systemd-\w+|init)\.service$"
)
"""Units that start what others ask them to: a process below one of them is not that unit's own."""


class Container(Struct, frozen=True, kw_only=True):
    """The container of a process."""

    id: str
    runtime: Runtime = "container"


class Unit(Struct, frozen=True, kw_only=True):
    """The unit of a process."""

    name: str
    user: bool = False
    """Whether it is a unit of a user's own systemd."""


def _paths(text: str) -> list[str]:
    """The paths of /proc/PID/cgroup; that of systemd's own hierarchy first."""
    lines = [line.split(":", 2) for line in text.splitlines()[:64] if line.count(":") >= 2]
    return [path for _, _, path in sorted(lines, key=lambda line: line[1] not in ("", "name=systemd"))]


def container_of(text: str) -> Container | None:
    """The innermost container that the text of /proc/PID/cgroup names."""
    for path in _paths(text):
        ids = CONTAINER.findall(path)
        if ids:
            return Container(id=ids[-1], runtime=_runtime(path))
    return None


def _runtime(path: str) -> Runtime:
    if "kubepods" in path:
        return "kubernetes"
    if "libpod" in path:
        return "podman"
    return "docker" if "docker" in path else "container"


def unit_of(text: str) -> Unit | None:
    """The unit whose own process this is; None for a login session and for what a daemon started for somebody."""
    for path in _paths(text):
        parts = path.split("/")
        for part in reversed(parts):
            found = UNIT.match(part)
            if found is None:
                continue
            if SESSIONS.match(part):
                return None
            user = any(above.startswith("user@") for above in parts[: parts.index(part)])
            return Unit(name=found[1], user=user)
    return None
