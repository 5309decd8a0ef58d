"""Asks SGLang's /metrics page every few seconds: counters and gauges that neither the log nor its load tells."""

import asyncio

from ddwatch.core.engine import EngineMetrics
from ddwatch.core.records import SourceFault, SourceUp
from ddwatch_sidecar.sources.metrics_page import PageUnreadable, read_page
from ddwatch_sidecar.sources.sglang_http import TIMEOUT_SECONDS, Refused, SglangHttp

Reading = EngineMetrics | SourceFault | SourceUp
"""What a poll delivers, in order."""

POLL_SECONDS = 5.0
"""The page changes once per log interval, and each poll is a line in SGLang's access log."""
ABSENT_SECONDS = 60.0
"""Time between polls of a server that runs without metrics."""
PATH = "/metrics"
PAGE_MIB = 16
"""A rank has about 90 kB on it."""
LONG = 256 * 1024
"""From this length on a page is read beside the loop: a short one takes a millisecond."""
NOT_ENABLED = "SGLang runs without --enable-metrics: nothing is missed while its log or its load is read"


class MetricsEndpoint:
    """The page of one SGLang server. Whether the port itself is gone is for the source `loads` to say."""

    name = "metrics"

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        poll_seconds: float = POLL_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Prepares to ask.

        Args:
            url: address of SGLang, without a path.
            api_key: SGLang's own key, sent as a bearer token.
            poll_seconds: time between two polls while it answers.
            timeout_seconds: how long one answer may take.
        """
        self._http = SglangHttp(url, api_key=api_key, timeout_seconds=timeout_seconds)
        self._poll_seconds = poll_seconds
        self._fault: str | None = None
        self._up = False
        self.pause_seconds = poll_seconds
        """How long to wait until the next poll."""

    async def poll(self, now: float) -> list[Reading]:
        """One reading; what the world does is a SourceFault, told once per change of reason."""
        self.pause_seconds = self._poll_seconds
        try:
            body = await self._http.get(PATH, most_mib=PAGE_MIB)
            reading = read_page(body, now) if len(body) < LONG else await asyncio.to_thread(read_page, body, now)
        except Refused as refused:
            if refused.absent:
                self.pause_seconds = ABSENT_SECONDS
            return self._lost(now, NOT_ENABLED if refused.absent else refused.sentence, waiting=refused.absent)
        except PageUnreadable as unreadable:
            return self._lost(now, str(unreadable))
        found: list[Reading] = [] if self._up else [SourceUp(at=now, source=self.name)]
        self._up, self._fault = True, None
        return [*found, reading]

    async def close(self) -> None:
        """Lets go of the connection."""
        await self._http.close()

    def _lost(self, now: float, sentence: str, *, waiting: bool = False) -> list[Reading]:
        told = self._fault == sentence
        self._fault, self._up = sentence, False
        return [] if told else [SourceFault(at=now, source=self.name, reason=sentence, waiting=waiting)]
