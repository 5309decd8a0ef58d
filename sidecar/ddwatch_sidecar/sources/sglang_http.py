"""Asks SGLang's own port over HTTP: bounded, with its key, never redirected; each trouble is one sentence."""

import asyncio
import os
import socket
from collections.abc import Mapping

import aiohttp

TIMEOUT_SECONDS = 3.0
BODY_MIB = 4
MIB = 1024 * 1024


class Refused(Exception):
    """The answer cannot be used; the sentence says why and what would help."""

    def __init__(self, sentence: str, *, absent: bool = False, gone: bool = False, broken: bool = False) -> None:
        """Says why.

        Args:
            sentence: why, and what would help.
            absent: whether the server answers and does not have this path.
            gone: whether the port refuses.
            broken: whether the answer broke off.
        """
        super().__init__(sentence)
        self.sentence = sentence
        self.absent = absent
        self.gone = gone
        self.broken = broken


def _reason(error: OSError) -> str:
    """What the operating system says, without the address that the library adds."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return "the name is not known here"
    return os.strerror(error.errno).lower()


class SglangHttp:
    """One SGLang server; never follows a redirect, never reads more than a bounded body."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Prepares to ask.

        Args:
            url: address of SGLang, without a path.
            api_key: SGLang's own key, sent as a bearer token.
            timeout_seconds: how long one answer may take.
        """
        self.url = url.rstrip("/")
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Lets go of the connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, *, most_mib: int = BODY_MIB) -> bytes:
        """The body of a good answer, at most so long; raises Refused."""
        most = most_mib * MIB
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._headers, trust_env=False)
        try:
            async with self._session.get(self.url + path, allow_redirects=False) as answer:
                self._refuse(answer, path)
                body = await answer.content.read(most + 1)
                chunks = [body]
                while body and sum(map(len, chunks)) <= most:
                    body = await answer.content.read(most)
                    chunks.append(body)
                if sum(map(len, chunks)) > most:
                    raise Refused(f"{self.url}{path} sends more than {most_mib} MiB; is this SGLang's port?")
                return b"".join(chunks)
        except asyncio.TimeoutError as error:
            seconds = self._timeout.total
            raise Refused(f"{self.url} accepts but does not answer within {seconds:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise Refused(f"{self.url} shows a certificate that this host does not trust") from error
        except aiohttp.ClientConnectorError as error:
            gone = isinstance(error.os_error, ConnectionRefusedError)
            raise Refused(f"nothing answers at {self.url} ({_reason(error.os_error)})", gone=gone) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Refused(
                f"{self.url} broke off its answer ({type(error).__name__}); is this SGLang's port?", broken=True
            ) from error

    def _refuse(self, answer: aiohttp.ClientResponse, path: str) -> None:
        status = answer.status
        if status in (401, 403):
            raise Refused(f"{self.url} wants SGLang's key: give --sglang-key-file or DDWATCH_SGLANG_KEY")
        if status == 404:
            raise Refused(f"{self.url} has no {path.partition('?')[0]}", absent=True)
        if 300 <= status < 400:
            raise Refused(f"{self.url} redirects elsewhere, which is not followed: give SGLang's own address")
        if status != 200:
            raise Refused(f"{self.url}{path} answers with status {status}")
