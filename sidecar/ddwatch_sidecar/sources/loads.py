"""Asks SGLang's own port: `/v1/loads?include=all` for the decode moments, `/server_info` for the setup in force."""

from ddwatch.core.arguments import read_arguments
from ddwatch.core.loads import LoadsUnreadable, read_loads
from ddwatch.core.records import Loads, ServerInfo, SourceFault, SourceUp
from ddwatch_sidecar.sources.sglang_http import TIMEOUT_SECONDS, Refused, SglangHttp

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
LOADS_PATH = "/v1/loads"
INFO_PATHS = ("/server_info", "/get_server_info")


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
        self._http = SglangHttp(url, api_key=api_key, timeout_seconds=timeout_seconds)
        self._digest_key = digest_key
        self._poll_seconds = poll_seconds
        self._steps: dict[int | None, float] = {}
        self._info_at: float | None = None
        self._fault: str | None = None
        self._has_moments = False
        self._up = False
        self.pause_seconds = poll_seconds
        """How long to wait until the next poll."""

    async def poll(self, now: float) -> list[Reading]:
        """One reading; what the world does is a SourceFault, told once per change of reason."""
        try:
            body = await self._http.get(f"{LOADS_PATH}?include=all")
            loads = read_loads(body, now, self.name)
        except Refused as refused:
            self.pause_seconds = RETRY_SECONDS
            if refused.absent:
                self.pause_seconds = ABSENT_SECONDS
            elif refused.gone or refused.broken:
                self.pause_seconds = GONE_SECONDS
            absent = f"{refused.sentence} (SGLang before 0.5.8, or another server): values come from the log"
            return self._lost(now, absent if refused.absent else refused.sentence, gone=refused.gone)
        except LoadsUnreadable as unreadable:
            self.pause_seconds = RETRY_SECONDS
            return self._lost(now, str(unreadable))
        self.pause_seconds = self._poll_seconds
        found: list[Reading] = []
        has_moments = any(rank.moments is not None for rank in loads.ranks)
        if not self._up:
            self._info_at = None
        if not self._up or has_moments != self._has_moments:
            # A server that has only just started counts no steps yet.
            self._up, self._fault, self._has_moments = True, None, has_moments
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
        await self._http.close()

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
                body = await self._http.get(path)
            except Refused as refused:
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
