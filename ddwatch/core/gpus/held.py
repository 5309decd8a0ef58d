"""Keeps findings over time: one begins once, lasts through short breaks, and ends aloud."""

from collections.abc import Iterable

from msgspec.structs import replace

from ddwatch.core.hardware_view import Finding, FindingKind

LASTING_SECONDS = 15.0
"""A condition that is gone for longer than this is over."""
UNJUDGED_SECONDS = 300.0
"""A condition that cannot be looked at (the card rests) is kept for this long."""

Key = tuple[str, FindingKind]
"""Card (or host) and kind of finding."""


class Held:
    """The findings that hold, by card and kind."""

    def __init__(self) -> None:
        self._held: dict[Key, Finding] = {}
        self._seen_at: dict[Key, float] = {}
        self._judged_at: dict[Key, float] = {}

    def see(self, at: float, owner: str, found: dict[FindingKind, Finding], unjudged: frozenset[FindingKind]) -> None:
        """Takes what holds of one owner now.

        Args:
            at: when.
            owner: card or host.
            found: at most one finding per kind.
            unjudged: kinds that could not be looked at, so that nothing follows from their absence.
        """
        for kind, finding in found.items():
            key = (owner, kind)
            known = self._held.get(key)
            since = finding.since if known is None else min(known.since, finding.since)
            self._held[key] = replace(finding, since=since)
            self._seen_at[key] = self._judged_at[key] = at
        for key in [key for key in self._held if key[0] == owner and key[1] not in found]:
            if key[1] not in unjudged:
                self._judged_at[key] = at
                if at - self._seen_at[key] > LASTING_SECONDS:
                    self._drop(key)
            elif at - self._judged_at[key] > UNJUDGED_SECONDS:
                self._drop(key)

    def of(self, owner: str) -> tuple[Finding, ...]:
        """What holds of one owner, gravest first."""
        return in_order(finding for (name, _), finding in self._held.items() if name == owner)

    def keys(self) -> frozenset[Key]:
        """Everything that holds."""
        return frozenset(self._held)

    def get(self, key: Key) -> Finding | None:
        """One finding."""
        return self._held.get(key)

    def _drop(self, key: Key) -> None:
        del self._held[key], self._seen_at[key], self._judged_at[key]


GRADES = ("critical", "warning", "information")


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Gravest first, those that slow before others, older before newer."""
    return tuple(sorted(findings, key=lambda item: (GRADES.index(item.grade), not item.slows, item.since)))
