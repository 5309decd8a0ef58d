"""The alert log as it is shown: what is wrong or was, who has seen it, and what is to stay quiet."""

from typing import Literal

from msgspec import Struct

from ddwatch.core.verdict import NoteName, Severity

AlertState = Literal["pending", "firing", "acknowledged", "muted", "resolved"]
"""Suspected and not sure; wrong; wrong and known to somebody; wrong and told to nobody; over."""


AlertAction = Literal["acknowledge", "mute", "undo"]
"""What can be asked of an incident."""

BEFORE_SECONDS = 60.0
"""How long before an incident its past is shown from."""


class AlertView(Struct, frozen=True, kw_only=True):
    """One incident, or one suspicion that may become one."""

    incident: str
    """What messages call it; it stays the same from begin to end, over restarts of the sidecar too."""
    name: NoteName
    severity: Severity
    state: AlertState
    since: float
    """When what is wrong began, as far as that can be told."""
    began_at: float
    """When ddwatch was sure of it; for a suspicion when that began."""
    resolved_at: float | None = None
    """When it was last seen to hold; null while it lasts."""
    until: float | None = None
    """When the acknowledgement or the mute ends; null for the end of the incident."""
    note: str = ""
    """What was noted with the acknowledgement or the mute."""
    sentence: str
    """What is wrong, as it was last seen."""
    cause: str | None = None
    next_steps: tuple[str, ...] = ()
    evidence: dict[str, float | int | str | None] = {}

    @property
    def open(self) -> bool:
        """Whether it is wrong now."""
        return self.state not in ("pending", "resolved")


class MuteView(Struct, frozen=True, kw_only=True):
    """What tells nobody for a while."""

    name: NoteName
    until: float
    note: str = ""


class KeepingView(Struct, frozen=True, kw_only=True):
    """What lies on the sidecar's own host, for those who sit there."""

    channel: str | None = None
    """By this mark the file for acknowledgements and mutes is known; null where there is none."""
    recording: str | None = None
    """The recording's file, `~` for the home of the sidecar's user; null where nothing is recorded."""
    quiet_hours: bool | None = None
    """Whether the sidecar's quiet hours hold now; null where it has none."""
