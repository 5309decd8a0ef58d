"""Posts messages to a web address that is as secret as a password: never followed elsewhere, never written down."""

import asyncio
import os
import ssl

import aiohttp

from ddwatch_sidecar.exports.address import Address
from ddwatch_sidecar.exports.notify import Failed

NAME = "webhook"
TIMEOUT_SECONDS = 10.0
BUSY = frozenset({408, 425, 429})
"""Answers below 500 that ask to come again."""


class Webhook:
    """A channel over HTTP: a JSON document per message, any answer below 300 is delivery."""

    name = NAME

    def __init__(self, address: Address, *, version: str = "", timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._address = address
        self._timeout = timeout_seconds
        self._headers = {"Content-Type": "application/json", "User-Agent": f"ddwatch/{version}"}
        if address.token is not None:
            self._headers["Authorization"] = f"Bearer {address.token}"

    async def deliver(self, message: bytes) -> Failed | None:
        """Posts once; no answer is read beyond its head."""
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        try:
            async with (
                aiohttp.ClientSession(
                    timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), headers=self._headers
                ) as session,
                session.post(self._address.url, data=message, allow_redirects=False) as answer,
            ):
                return _judged(answer.status)
        except asyncio.TimeoutError:
            return Failed(f"no answer within {self._timeout:g} s", again=True)
        except aiohttp.ClientConnectorCertificateError:
            return Failed("its certificate cannot be verified", again=True)
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            return Failed(f"cannot be reached ({_kind(error)})", again=True)


def _kind(error: Exception) -> str:
    """What happened, without the words of the error: they may hold the address."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name is not known"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return "the connection ended early" if isinstance(error, aiohttp.ServerDisconnectedError) else type(error).__name__


def _judged(status: int) -> Failed | None:
    if status < 300:
        return None
    if status < 400:
        return Failed(f"answers {status}: redirects are not followed", again=False)
    return Failed(f"answers {status}", again=status >= 500 or status in BUSY)
