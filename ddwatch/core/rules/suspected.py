"""Turns what a detector holds into a verdict: only what fires accuses; what is pending is no verdict."""

from ddwatch.core.detection.suspicion import Suspicion
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Severity, Verdict, VerdictName

PENDING: dict[str, tuple[VerdictName, Severity]] = {
    "stalled": ("stalled", "page"),
    "starved": ("starved", "notice"),
    "slow-step": ("slow-step", "page"),
    "low-accept": ("low-accept", "notice"),
    "high-accept": ("high-accept", "notice"),
}
"""What a suspicion of this name would be once it fires."""


def pending(situation: Situation) -> tuple[Verdict, ...]:
    """What is suspected and not sure, as the verdict that it would be; nobody is told."""
    found: list[Verdict] = []
    for suspicion in situation.suspicions:
        if suspicion.phase != "pending" or suspicion.name not in PENDING:
            continue
        name, severity = PENDING[suspicion.name]
        where = f", {suspicion.where}" if suspicion.where else ""
        found.append(
            Verdict(
                name=name,
                severity=severity,
                since=suspicion.since,
                sentence=f"{suspicion.what}{where}",
                evidence={**suspicion.evidence, "strength": suspicion.strength},
            )
        )
    return tuple(found)


def suspicion_of(situation: Situation, name: str) -> Suspicion | None:
    """The firing suspicion of that name; None when there is none."""
    return next((one for one in situation.suspicions if one.name == name and one.phase == "firing"), None)


def verdict_of(
    situation: Situation,
    name: VerdictName,
    severity: Severity,
    next_steps: tuple[str, ...],
    cause: str | None = None,
) -> Verdict | None:
    """The verdict of a firing suspicion of that name; None when there is none."""
    suspicion = suspicion_of(situation, name)
    if suspicion is None:
        return None
    where = f", {suspicion.where}" if suspicion.where else ""
    who = f" ({suspicion.group})" if suspicion.group else ""
    return Verdict(
        name=name,
        severity=severity,
        since=suspicion.since,
        sentence=f"{suspicion.what}{where}{who}",
        evidence={**suspicion.evidence, "strength": suspicion.strength},
        cause=cause,
        next_steps=next_steps,
    )
