"""Turns what a detector holds into a verdict: only what fires accuses; what is pending is no verdict."""

from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Severity, Verdict, VerdictName


def verdict_of(
    situation: Situation,
    name: VerdictName,
    severity: Severity,
    next_steps: tuple[str, ...],
    cause: str | None = None,
) -> Verdict | None:
    """The verdict of a firing suspicion of that name; None when there is none."""
    for suspicion in situation.suspicions:
        if suspicion.name == name and suspicion.phase == "firing":
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
    return None
