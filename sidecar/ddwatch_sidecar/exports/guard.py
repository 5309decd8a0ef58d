"""Who may read: the Host header against DNS rebinding, the token on every request (DESIGN.md section 9)."""

import hmac
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    sentence: str


def host_of(header: str) -> str | None:
    """The host of a Host header in lower case, without port and brackets; None when it is not one."""
    text = header.strip().lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket or not (rest == "" or _is_port(rest)):
            return None
    else:
        name, colon, port = text.partition(":")
        if colon and not _is_port(colon + port):
            return None
    name = name.removesuffix(".")
    if not name or any(mark.isspace() or mark in "/@[]\\" for mark in name):
        return None
    return _same_spelling(name)


def _is_port(text: str) -> bool:
    digits = text[1:]
    return text.startswith(":") and len(digits) <= 5 and digits.isascii() and digits.isdigit()


def _same_spelling(name: str) -> str:
    """One spelling per IP address."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name


class Guard:
    """Decides on each request before anything else looks at it."""

    def __init__(self, *, token: str | None = None, hosts: Iterable[str] = ()) -> None:
        """Sets the rules.

        Args:
            token: what readers must show; None asks for nothing and is for loopback only.
            hosts: further names (no ports) that readers may use for this server.
        """
        self._token = None if token is None else token.encode()
        self._hosts = LOOPBACK_NAMES | {found for host in hosts if (found := host_of(host)) is not None}

    def refusal(self, hosts: Sequence[str], authorization: str | None, local_address: str | None) -> Refusal | None:
        """Why a request is refused; None lets it in.

        Args:
            hosts: all Host headers of the request.
            authorization: its Authorization header.
            local_address: address of ours that the connection arrived at; a reader may always use it as host, because
                a rebound name never equals it.
        """
        if len(hosts) != 1:
            return Refusal(400, "a request must carry exactly one Host header")
        host = host_of(hosts[0])
        if host is None:
            return Refusal(400, "the Host header is not a host name")
        own = None if local_address is None else _same_spelling(local_address.lower())
        if host not in self._hosts and host != own:
            return Refusal(
                403, "this server does not go by the name in the Host header; allow it with --allow-host NAME"
            )
        if self._token is not None and not self._shown(authorization):
            return Refusal(401, "this sidecar asks for its token: send `Authorization: Bearer TOKEN`")
        return None

    def _shown(self, authorization: str | None) -> bool:
        scheme, _, shown = (authorization or "").partition(" ")
        given = shown.strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._token or b"") and scheme.lower() == "bearer"
