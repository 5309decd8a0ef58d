"""Turns what a detector holds into a verdict: only what fires accuses; what is pending is no verdict."""

from ddwatch.core.detection.suspicion import Suspicion
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Severity, Verdict, VerdictName


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
