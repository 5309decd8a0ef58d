"""Checks the name under which SGLang publishes its forward passes, before anything listens there."""

import os

SOCKET_BYTES = 104
"""Longest name of a socket, the number of its rank left out."""
HIGHEST_PORT = 65535


def fpm_name(name: str) -> str:
    """The name as it was given; raises ValueError with a phrase for what can be none."""
    kind, mark, place = name.rpartition("://")
    usable = (kind == "ipc" or not mark) and 0 < len(os.fsencode(place)) <= SOCKET_BYTES and "\0" not in place
    if kind == "tcp":
        host, _, port = place.rpartition(":")
        usable = bool(host) and port.isascii() and port.isdigit() and 0 < int(port[:6]) <= HIGHEST_PORT
    if not usable:
        raise ValueError(
            "must be SGLang's --forward-pass-metrics-ipc-name: ipc:///run/fpm (without .0), a path, or tcp://host:port"
        )
    return name
