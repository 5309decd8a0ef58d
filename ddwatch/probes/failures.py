"""What can go wrong between a probe and a server, each in one sentence that says what to do."""

from typing import Literal

import httpx

DEFAULT_URL = "http://127.0.0.1:30000"
CONNECT_SECONDS = 5.0

Kind = Literal["down", "hung", "refused", "foreign", "absent"]
"""Nothing listens; it listens and does not answer; it wants a key; it is something else; it lacks this page."""


class ProbeFailed(Exception):
    """The server did not do what was asked; `sentence` says what and what to do."""

    def __init__(self, kind: Kind, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence


def failure(url: str, error: Exception, patience: float, *, spoken: bool) -> ProbeFailed:
    """The sentence for what a connection can suffer; `spoken` says whether it has ever answered in HTTP."""
    text = str(error)
    low = text.lower()
    tls = any(word in low for word in ("certificate", "ssl", "tls", "wrong version"))
    if isinstance(error, httpx.ConnectTimeout):
        return ProbeFailed(
            "hung", f"{url} does not answer (nothing within {CONNECT_SECONDS:.0f} s): is the host reachable?"
        )
    if isinstance(error, httpx.TimeoutException):
        return ProbeFailed(
            "hung", f"{url} accepts the request but sends nothing within {patience:.0f} s: it hangs, look at its log"
        )
    if (tls and "wrong version" in low) or "record layer" in low:
        return ProbeFailed("foreign", f"{url} does not speak TLS: use http:// instead of https://")
    if tls:
        return ProbeFailed(
            "foreign", f"{url} shows a certificate that this host does not trust: {text.splitlines()[0]}"
        )
    if isinstance(error, httpx.ConnectError):
        if any(word in low for word in ("name or service", "nodename", "name resolution", "getaddrinfo", "no address")):
            return ProbeFailed("foreign", f"{url}: there is no host of this name")
        if "refused" in low or "all connection attempts failed" in low:
            return ProbeFailed(
                "down", f"nothing listens at {url} (connection refused): is SGLang running, and on this port?"
            )
        return ProbeFailed("down", f"{url} cannot be reached: {text.splitlines()[0] if text else 'no reason given'}")
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return ProbeFailed("foreign", f"{url} is not an address; it should look like {DEFAULT_URL}")
    if isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError)) and not spoken:
        return ProbeFailed(
            "foreign", f"{url} does not speak HTTP: if it wants TLS, use https://; else this is not its port"
        )
    return ProbeFailed(
        "down", f"{url} closed the connection in the middle of an answer: has SGLang ended? look at its log"
    )
