"""Asks a port that may be SGLang's for its arguments: one plain GET, briefly, following nothing."""

import http.client
from urllib.parse import urlsplit

from msgspec import Struct

from ddwatch.core.arguments import Scalar, read_arguments

PATIENCE_SECONDS = 1.0
PATHS = ("/server_info", "/get_server_info")
BODY_BYTES = 4 * 1024 * 1024


class Answer(Struct, frozen=True, kw_only=True):
    """What a server says of itself, allow-listed."""

    arguments: dict[str, Scalar]
    version: str | None = None


def ask(url: str) -> Answer | None:
    """The answer of an SGLang server; None for everything else: silence, a key that is wanted, another program."""
    place = urlsplit(url)
    if place.scheme != "http" or place.hostname is None:
        return None
    for path in PATHS:
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read(BODY_BYTES) if response.status == 200 else b""
            status = response.status
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        text = body.decode("utf-8", "replace")
        if text.lstrip().startswith("{"):
            allowed, _ = read_arguments(text, b"")
            version = allowed.pop("version", None)
            if "model_path" in allowed:
                return Answer(arguments=allowed, version=version if isinstance(version, str) else None)
        if status != 404:
            return None
    return None
