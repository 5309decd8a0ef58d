"""What a detector holds of the service: the one shape in which all of them report."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

Phase = Literal["pending", "firing", "resolved"]
Scalar = float | int | str | None

SHOWN_SECONDS = 60.0
"""A resolved suspicion is still reported for this long."""


class Suspicion(Struct, frozen=True, kw_only=True):
    """One thing that a detector suspects, at one instant."""

    name: str
    """What: `slow-step`, `low-accept`, `high-accept`, `starved`, `stalled`, `silent`, `gone`, `restarts`,
    `retractions`."""
    phase: Phase
    since: float
    """Estimated onset: the time of the last sample before the change."""
    reached: float
    """When this phase was reached."""
    strength: float
    """Evidence over what is needed to fire."""
    what: str
    """What is wrong, without time and place: `+31 ms on every step`."""
    where: str = ""
    """Where it holds: `at all contexts`; empty when that says nothing."""
    because: str = ""
    """Why it is resolved: `back to expected`, `restart`, `no traffic`."""
    evidence: dict[str, Scalar] = {}
    group: str | None = None
    """The coupled rank group that it is about (`engine`, `DP3`); None when there is only one."""

    def sentence(self, since: str) -> str:
        """`+31 ms on every step since 14:02, at all contexts`; `since` is the onset in words."""
        place = f", {self.where}" if self.where else ""
        return f"{self.what} since {since}{place}"


class Phases:
    """Pending, firing, resolved: the course of one incident. It never fires without having been pending."""

    __slots__ = ("because", "phase", "reached", "since")

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.since = 0.0
        self.reached = 0.0
        self.because = ""

    @property
    def open(self) -> bool:
        """Whether something is suspected now."""
        return self.phase in ("pending", "firing")

    def pend(self, at: float, since: float) -> None:
        """Something is suspected; nothing happens when it is already."""
        if not self.open:
            self.phase, self.reached, self.since, self.because = "pending", at, since, ""

    def fire(self, at: float) -> bool:
        """A pending suspicion is confirmed; says whether it was pending."""
        if self.phase != "pending":
            return False
        self.phase, self.reached = "firing", at
        return True

    def end(self, at: float, because: str) -> None:
        """It is over: a firing one is resolved, a pending one is forgotten."""
        if self.phase == "firing":
            self.phase, self.reached, self.because = "resolved", at, because
        elif self.phase == "pending":
            self.phase = None

    def fade(self, at: float) -> None:
        """Forgets what was resolved a while ago."""
        if self.phase == "resolved" and self.shown(at) is None:
            self.phase = None

    def shown(self, now: float) -> Phase | None:
        """The phase to report: a resolved one only for a while."""
        if self.phase == "resolved" and now - self.reached > SHOWN_SECONDS:
            return None
        return self.phase


def merged(suspicions: Iterable[Suspicion]) -> tuple[Suspicion, ...]:
    """One suspicion per name: groups that fail alike are one incident, told by the strongest of the furthest phase.

    The onset is the earliest; evidence `groups` counts those that share the phase, `of_groups` is left to the caller.
    """
    order: Mapping[Phase, int] = {"firing": 2, "pending": 1, "resolved": 0}
    by_name: dict[str, list[Suspicion]] = {}
    for one in suspicions:
        by_name.setdefault(one.name, []).append(one)
    told: list[Suspicion] = []
    for same in by_name.values():
        phase = max((one.phase for one in same), key=lambda phase: order[phase])
        alike = [one for one in same if one.phase == phase]
        first = max(alike, key=lambda one: one.strength)
        told.append(
            Suspicion(
                name=first.name,
                phase=phase,
                since=min(one.since for one in alike),
                reached=min(one.reached for one in alike),
                strength=first.strength,
                what=first.what,
                where=first.where,
                because=first.because,
                evidence=first.evidence if len(alike) == 1 else {**first.evidence, "groups": len(alike)},
                group=first.group if len(alike) == 1 else None,
            )
        )
    return tuple(told)
