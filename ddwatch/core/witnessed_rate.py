"""Tokens per second of the witness that counts, over a stretch, so that a counter is compared with the same seconds."""

from collections import deque

from ddwatch.core.snapshot import Provenance, Sample

SECONDS_KEPT = 90
CLEAN_SHARE = 0.8
"""Share of the tokens of a stretch that clean samples must hold."""


class _Second:
    """The samples of one rank within one second."""

    __slots__ = ("at", "clean_seconds", "clean_tokens", "tokens")

    def __init__(self, at: int) -> None:
        self.at = at
        self.tokens = 0.0
        self.clean_tokens = 0.0
        self.clean_seconds = 0.0


class WitnessedRate:
    """The last minute and a half of one rank."""

    def __init__(self) -> None:
        """Begins without a sample."""
        self.provenance: Provenance | None = None
        """Who speaks."""
        self._since = 0.0
        self._seconds: deque[_Second] = deque(maxlen=SECONDS_KEPT)

    def see(self, sample: Sample) -> None:
        """Takes a sample; those of another witness than before begin anew."""
        if sample.provenance != self.provenance:
            self.provenance, self._since = sample.provenance, sample.at
            self._seconds.clear()
        batch = sample.mean_batch or sample.batch
        if not batch or not sample.throughput:
            return
        # A line of the log stands for an interval of so many steps that is always the same.
        tokens = batch * (sample.accept_length or 1.0) * (sample.steps or 1)
        if not self._seconds or self._seconds[-1].at < int(sample.at):
            self._seconds.append(_Second(int(sample.at)))
        second = self._seconds[-1]
        second.tokens += tokens
        if sample.clean:
            second.clean_tokens += tokens
            second.clean_seconds += tokens / sample.throughput

    def mean(self, since: float, until: float) -> float | None:
        """Its tokens per second between two times; None where it was not there throughout, or saw too little clean."""
        if self.provenance is None or since < self._since:
            return None
        within = [second for second in self._seconds if since < second.at <= until]
        clean = sum(second.clean_tokens for second in within)
        seconds = sum(second.clean_seconds for second in within)
        if not seconds or clean < CLEAN_SHARE * sum(second.tokens for second in within):
            return None
        return clean / seconds
