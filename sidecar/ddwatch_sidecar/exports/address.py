"""The address of a webhook: as secret as a password, so it is shown nowhere."""

from typing import NamedTuple
from urllib.parse import urlsplit


class Address(NamedTuple):
    """Where to post."""

    url: str
    token: str | None = None

    def __repr__(self) -> str:
        """Neither is shown, wherever this may be printed."""
        return "Address(…)"


def address_of(words: str) -> Address:
    """Reads a URL and, behind it, an optional token; raises ValueError with a phrase that shows neither."""
    url, _, token = words.strip().partition("\n")
    url, token = url.strip(), token.strip()
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or not all("!" <= mark <= "~" for mark in url + token):
        raise ValueError("must hold an address like https://hooks.example.org/…, and a token in its second line if any")
    return Address(url, token or None)
