"""Reads the kernel's lists of sockets: where a server listens, and where its forward passes are published."""

import re
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct

from ddwatch.core.servers.command_line import Launch

LISTENS = "0A"
UNNAMED = re.compile(r"[^\w.-]", re.ASCII)
"""Characters that no name of a host holds."""
ACCEPTS = 0x10000
"""The flag of a Unix socket that takes connections."""
RANKED = re.compile(r"(/.{1,100})\.(\d{1,4})$")
"""The publisher of forward passes binds one socket per rank, with the rank at its end."""
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Listener(Struct, frozen=True, kw_only=True):
    """One socket that takes connections."""

    host: str
    port: int
    inode: int = 0
    owner: int | None = None
    """Id of the user that opened it."""


def listeners(text: str) -> list[Listener]:
    """The listening sockets in the text of /proc/net/tcp or /proc/net/tcp6."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 10 or words[3] != LISTENS:
            continue
        place, _, port = words[1].partition(":")
        try:
            found.append(Listener(host=_host(place), port=int(port, 16), inode=int(words[9]), owner=int(words[7])))
        except ValueError:
            continue
    return found


def _host(place: str) -> str:
    """An address that the kernel wrote as words of four bytes in the order of this machine (little-endian)."""
    data = bytes.fromhex(place)
    turned = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return str(IPv4Address(turned)) if len(turned) == 4 else _plain(IPv6Address(turned))


def _plain(address: IPv6Address) -> str:
    return str(address) if address.ipv4_mapped is None else str(address.ipv4_mapped)


def forward_passes(text: str, inodes: Collection[int]) -> str | None:
    """The endpoint of the forward passes among these sockets of /proc/net/unix, as SGLang names it; None for none."""
    found: set[str] = set()
    for line in text.splitlines():
        words = line.split(maxsplit=7)
        if len(words) < 8:
            continue
        ranked = RANKED.match(words[7])
        try:
            accepts = int(words[3], 16) & ACCEPTS and int(words[6]) in inodes
        except ValueError:
            continue
        if ranked is not None and accepts:
            found.add(ranked[1])
    return f"ipc://{found.pop()}" if len(found) == 1 else None


class Port(Struct, frozen=True, kw_only=True):
    """Where a server is reached."""

    host: str
    port: int
    listening: bool | None = None
    """Whether something listens there; None where it could not be looked at."""


def port_of(launch: Launch | None, seen: Iterable[Listener] | None) -> Port | None:
    """The port of a server: as its arguments say, held against the sockets that it listens on.

    `seen` is None where the sockets could not be looked at. Without arguments the only socket is taken; with several
    nobody knows which it is.
    """
    own = None if seen is None else sorted(seen, key=lambda one: (one.port, ":" in one.host))
    if launch is not None:
        match = next((one for one in own or () if one.port == launch.port), None)
        if match is not None:
            return Port(host=match.host, port=match.port, listening=True)
        others = {one.port for one in own or ()}
        if launch.port_given or len(others) != 1:
            return Port(host=launch.host, port=launch.port, listening=None if own is None else False)
    if own and len({one.port for one in own}) == 1:
        return Port(host=own[0].host, port=own[0].port, listening=True)
    return None


def url_of(port: Port, *, tls: bool) -> str:
    """The address as this machine reaches it."""
    host = ANY.get(port.host, port.host)
    host = f"[{host}]" if ":" in host else UNNAMED.sub("", host)
    return f"{'https' if tls else 'http'}://{host}:{port.port}"
