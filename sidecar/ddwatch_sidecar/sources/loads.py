"""Asks SGLang's own port: `/v1/loads?include=all` for the decode moments, `/server_info` for the setup in force."""

import asyncio
import os
import socket
from collections.abc import Mapping

import aiohttp

from ddwatch.core.arguments import read_arguments
from ddwatch.core.loads import LoadsUnreadable, read_loads
from ddwatch.core.records import Loads, ServerInfo, SourceFault, SourceUp

Reading = Loads | ServerInfo | SourceFault | SourceUp
"""What a poll delivers, in order."""

POLL_SECONDS = 2.0
"""Each poll is a line in SGLang's access log, so it is not asked more often."""
GONE_SECONDS = 1.0
"""Time between polls of a port that refuses or broke off: that costs nobody anything, and tells soon."""
RETRY_SECONDS = 5.0
"""Time between polls while it does not answer."""
ABSENT_SECONDS = 60.0
"""Time between polls of a release that does not have the endpoint."""
INFO_SECONDS = 60.0
"""Arguments change only with a restart; this is for a restart that went unseen."""
TIMEOUT_SECONDS = 3.0
BODY_BYTES = 4 * 1024 * 1024
LOADS_PATH = "/v1/loads"
INFO_PATHS = ("/server_info", "/get_server_info")


class _Refused(Exception):
    """The answer cannot be used; the sentence says why and what would help."""

    def __init__(self, sentence: str, *, absent: bool = False, gone: bool = False, broken: bool = False) -> None:
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


class LoadsEndpoint:
    """One SGLang server, asked over HTTP; never follows a redirect, never reads more than a bounded body."""

    name = "loads"

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        digest_key: bytes = b"",
        poll_seconds: float = POLL_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Prepares to ask.

        Args:
            url: address of SGLang, without a path.
            api_key: SGLang's own key, sent as a bearer token.
            digest_key: random bytes of this process, for the digests of withheld arguments.
            poll_seconds: time between two polls while it answers.
            timeout_seconds: how long one answer may take.
        """
        self._url = url.rstrip("/")
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._digest_key = digest_key
        self._poll_seconds = poll_seconds
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None
        self._steps: dict[int | None, float] = {}
        self._info_at: float | None = None
        self._fault: str | None = None
        self._up = False
        self.pause_seconds = poll_seconds
        """How long to wait until the next poll."""

    async def poll(self, now: float) -> list[Reading]:
        """One reading; what the world does is a SourceFault, told once per change of reason."""
        try:
            body = await self._get(f"{LOADS_PATH}?include=all")
            loads = read_loads(body, now, self.name)
        except _Refused as refused:
            self.pause_seconds = RETRY_SECONDS
            if refused.absent:
                self.pause_seconds = ABSENT_SECONDS
            elif refused.gone or refused.broken:
                self.pause_seconds = GONE_SECONDS
            return self._lost(now, refused.sentence, gone=refused.gone)
        except LoadsUnreadable as unreadable:
            self.pause_seconds = RETRY_SECONDS
            return self._lost(now, str(unreadable))
        self.pause_seconds = self._poll_seconds
        found: list[Reading] = []
        if not self._up:
            self._up = True
            self._fault = None
            self._info_at = None
            has_moments = any(rank.moments is not None for rank in loads.ranks)
            detail = (
                "" if has_moments else "no decode moments here (SGLang before 0.5.18): step times come from the log"
            )
            found.append(SourceUp(at=now, source=self.name, detail=detail))
        if self._restarted(loads) or self._info_at is None or now - self._info_at >= INFO_SECONDS:
            info = await self._info(now)
            if info is not None:
                found.append(info)
        found.append(loads)
        return found

    async def close(self) -> None:
        """Lets go of the connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _lost(self, now: float, sentence: str, *, gone: bool = False) -> list[Reading]:
        told = self._fault == sentence
        self._fault, self._up = sentence, False
        return [] if told else [SourceFault(at=now, source=self.name, reason=sentence, gone=gone)]

    def _restarted(self, loads: Loads) -> bool:
        steps = {rank.dp_rank: rank.moments[0] for rank in loads.ranks if rank.moments is not None}
        fewer = any(count < self._steps.get(dp, 0.0) for dp, count in steps.items())
        self._steps = steps
        return fewer

    async def _info(self, now: float) -> ServerInfo | None:
        for path in INFO_PATHS:
            try:
                body = await self._get(path)
            except _Refused as refused:
                if refused.absent:
                    continue
                return None
            self._info_at = now
            allowed, withheld = read_arguments(body.decode("utf-8", "replace"), self._digest_key)
            if not allowed and not withheld:
                return None
            version = allowed.pop("version", None)
            return ServerInfo(
                at=now,
                source=self.name,
                arguments=allowed,
                withheld=withheld,
                version=version if isinstance(version, str) else None,
            )
        self._info_at = now
        return None

    async def _get(self, path: str) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._headers, trust_env=False)
        try:
            async with self._session.get(self._url + path, allow_redirects=False) as answer:
                self._refuse(answer, path)
                body = await answer.content.read(BODY_BYTES + 1)
                chunks = [body]
                while body and sum(map(len, chunks)) <= BODY_BYTES:
                    body = await answer.content.read(BODY_BYTES)
                    chunks.append(body)
                if sum(map(len, chunks)) > BODY_BYTES:
                    raise _Refused(f"{self._url}{path} sends more than 4 MiB; is this SGLang's port?")
                return b"".join(chunks)
        except asyncio.TimeoutError as error:
            seconds = self._timeout.total
            raise _Refused(f"{self._url} accepts but does not answer within {seconds:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise _Refused(f"{self._url} shows a certificate that this host does not trust") from error
        except aiohttp.ClientConnectorError as error:
            gone = isinstance(error.os_error, ConnectionRefusedError)
            raise _Refused(f"nothing answers at {self._url} ({_reason(error.os_error)})", gone=gone) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _Refused(
                f"{self._url} broke off its answer ({type(error).__name__}); is this SGLang's port?", broken=True
            ) from error

    def _refuse(self, answer: aiohttp.ClientResponse, path: str) -> None:
        status = answer.status
        if status in (401, 403):
            raise _Refused(f"{self._url} wants SGLang's key: give --sglang-key-file or DDWATCH_SGLANG_KEY")
        if status == 404 and path.startswith(LOADS_PATH):
            raise _Refused(
                f"{self._url} has no {LOADS_PATH} (SGLang before 0.5.8, or another server): values come from the log",
                absent=True,
            )
        if status == 404:
            raise _Refused(f"{self._url} has no {path}", absent=True)
        if 300 <= status < 400:
            raise _Refused(f"{self._url} redirects elsewhere, which is not followed: give SGLang's own address")
        if status != 200:
            raise _Refused(f"{self._url}{path} answers with status {status}")
