"""Verdicts over time become incidents: each begins once and is resolved once, whatever flickers in between."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ddwatch.core.snapshot import Verdict

CALM_SECONDS = 60.0
"""A verdict that has not held for this long is over; one that comes back earlier is the same incident."""


class Incident(Struct, frozen=True, kw_only=True):
    """One thing that is, or was, wrong."""

    verdict: Verdict
    """As it stood when the incident began."""
    resolved_at: float | None = None
    """When the verdict was last seen to hold; None while the incident lasts."""


class Incidents:
    """The incidents of one watch. A verdict begins one by being the first in order; as a note it keeps one alive."""

    def __init__(self, calm_seconds: float = CALM_SECONDS) -> None:
        self._calm_seconds = calm_seconds
        self._open: dict[str, tuple[Incident, float]] = {}

    def see(self, now: float, held: Sequence[Verdict], *, loud: bool) -> list[Incident]:
        """What has begun and what is over, in that order.

        Args:
            now: not earlier than the last time.
            held: all verdicts that hold now, in order of precedence.
            loud: whether the first of them is one to begin an incident with.
        """
        changes: list[Incident] = []
        if loud and held and held[0].name not in self._open:
            began = Incident(verdict=held[0])
            self._open[held[0].name] = (began, now)
            changes.append(began)
        names = {verdict.name for verdict in held}
        for name, (incident, seen_at) in list(self._open.items()):
            if name in names:
                self._open[name] = (incident, now)
            elif now - seen_at >= self._calm_seconds:
                del self._open[name]
                changes.append(replace(incident, resolved_at=seen_at))
        return changes
