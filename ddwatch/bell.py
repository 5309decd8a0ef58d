"""When the terminal's bell rings: once for an incident that begins to fire, never for one that is to stay quiet."""

from typing import Literal

from ddwatch.core.snapshot import Snapshot

KEPT = 200
"""Incidents that are remembered as told."""

Least = Literal["page", "notice"]


class Bell:
    """Sees every newest snapshot of a live feed."""

    def __init__(self, least: Least = "page") -> None:
        self._severities = ("page",) if least == "page" else ("page", "notice")
        self._told: dict[str, None] = {}
        self._first = True

    def see(self, snapshot: Snapshot) -> bool:
        """Whether to ring now. What fires already when the screen opens is on the screen, so it does not ring."""
        due = [
            alert.incident
            for alert in snapshot.alerts
            if alert.state == "firing" and alert.severity in self._severities and alert.incident not in self._told
        ]
        first, self._first = self._first, False
        quiet = snapshot.keeping is not None and snapshot.keeping.quiet_hours is True
        if quiet and not first:
            # It rings when they are over, if that still fires.
            return False
        for incident in due:
            self._told[incident] = None
        while len(self._told) > KEPT:
            del self._told[next(iter(self._told))]
        return bool(due) and not first
