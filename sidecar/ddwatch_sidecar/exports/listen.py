"""Opens the listening socket and says in one sentence why it cannot."""

import errno
import socket
from ipaddress import ip_address
from typing import NamedTuple

BACKLOG = 128
HIGHEST_PORT = 65535


class Unusable(Exception):
    """The address cannot be listened on; the message is one sentence."""


class Address(NamedTuple):
    """Where to listen, as the operator wrote it."""

    host: str
    port: int


class Resolved(NamedTuple):
    """What the operating system makes of an address."""

    family: socket.AddressFamily
    sockaddr: tuple[str, int] | tuple[str, int, int, int]

    @property
    def loopback(self) -> bool:
        """Whether only this host can reach it."""
        return ip_address(self.sockaddr[0].partition("%")[0]).is_loopback


def parse_address(text: str, default_port: int) -> Address:
    """Reads HOST, HOST:PORT or [IPV6]:PORT; raises Unusable."""
    wrong = Unusable(f"{text!r} is not an address to listen on; write HOST:PORT, for example 127.0.0.1:9477")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise wrong
        port = rest[1:] if rest else None
    elif text.count(":") > 1:
        host, port = text, None
    else:
        host, colon, after = text.partition(":")
        port = after if colon else None
    if not host or any(mark.isspace() or mark in "/@" for mark in host):
        raise wrong
    if port is None:
        return Address(host, default_port)
    if not (port.isascii() and port.isdigit() and int(port) <= HIGHEST_PORT):
        raise wrong
    return Address(host, int(port))


def resolve(address: Address) -> Resolved:
    """The first socket address of a host; raises Unusable."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Unusable(f"the host {address.host!r} to listen on is not known here") from error
    family, _, _, _, sockaddr = min(found, key=lambda item: item[0] != socket.AF_INET)
    return Resolved(family, sockaddr)  # type: ignore[arg-type]  # TCP addresses only


def open_listener(address: Address, resolved: Resolved) -> socket.socket:
    """A listening socket; raises Unusable when the port is taken, privileged or not of this host."""
    listener = socket.socket(resolved.family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(resolved.sockaddr)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Unusable(_why(address, error)) from error
    return listener


def _why(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} on {address.host} is in use; is another sidecar running? (choose one with --port)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {address.port} needs privileges that this process lacks; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address.host} is not an address of this host"
    return f"cannot listen on {address.host} port {address.port}: {error.strerror}"


def url_of(listener: socket.socket) -> str:
    """The URL that a reader on this host can use."""
    host, port = listener.getsockname()[:2]
    found = ip_address(host.partition("%")[0])
    if found.is_unspecified:
        host = "127.0.0.1" if found.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
