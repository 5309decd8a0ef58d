"""Stands where the GPUs would be read when whoever started the sidecar knows why there are none."""

from ddwatch.core.records import SourceFault

PAUSE_SECONDS = 60.0


class AbsentCards:
    """Says one sentence, once; see `ddwatch_sidecar.service.Endpoint`."""

    name = "nvml"

    def __init__(self, sentence: str) -> None:
        self._sentence: str | None = sentence
        self.pause_seconds = PAUSE_SECONDS

    async def poll(self, now: float) -> list[SourceFault]:
        """The sentence, then nothing."""
        sentence, self._sentence = self._sentence, None
        if sentence is None:
            return []
        return [SourceFault(at=now, source=self.name, reason=sentence, waiting=True)]

    async def close(self) -> None:
        """Holds nothing."""
