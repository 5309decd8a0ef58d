"""What was found of cards and host: what is seen, since when and what to do; the same of several cards is said once."""

from collections.abc import Sequence
from datetime import tzinfo

from ddwatch.core.hardware_view import Finding
from ddwatch.core.snapshot import Snapshot
from ddwatch.widgets.events import when
from ddwatch.widgets.gpu_words import GRADE_ORDER, GRADES
from ddwatch.widgets.rows import Role, Row, clean, wrapped


def all_findings(snapshot: Snapshot) -> list[Finding]:
    """Of all cards and the host, gravest first; of one card a reason before what follows from it."""
    found = [finding for gpu in snapshot.gpus for finding in gpu.findings]
    found += snapshot.host.findings if snapshot.host is not None else ()
    return sorted(found, key=lambda each: (GRADE_ORDER.index(each.grade), each.kind == "straggler", each.index is None))


def together(findings: Sequence[Finding]) -> list[tuple[Finding, tuple[int, ...]]]:
    """One of each kind and grade, with the numbers of the other cards that have it too.

    Of what lowers a card, each card is told by itself: its figures are its own.
    """
    first: dict[object, tuple[Finding, tuple[int, ...]]] = {}
    for finding in findings:
        key = (finding.kind, finding.grade) if finding.severity == "ok" else (finding.kind, finding.index)
        known = first.get(key)
        if known is None:
            first[key] = (finding, ())
        elif finding.index is not None:
            first[key] = (known[0], (*known[1], finding.index))
    return list(first.values())


def told(snapshot: Snapshot) -> list[tuple[Finding, tuple[int, ...]]]:
    """What needs somebody, the same on several cards once; a card that is behind for a known reason only by that."""
    grave = [pair for pair in together(all_findings(snapshot)) if pair[0].severity == "notice"]
    explained = {finding.index for finding, _ in grave if finding.kind in EXPLAINING}
    return [pair for pair in grave if pair[0].kind != "straggler" or pair[0].index not in explained]


EXPLAINING = ("lost", "thermal", "hw-slowdown", "power-brake")
"""Findings that a low clock follows from."""


def finding_rows(
    finding: Finding,
    at: float,
    zone: tzinfo,
    width: int,
    *,
    more: tuple[int, ...] = (),
    most: int = 9,
    step: bool = True,
) -> list[Row]:
    """Sign, time and sentence; below it the next step.

    Args:
        finding: what is told.
        at: the present, so that another day is named.
        zone: zone of the times.
        width: cells.
        more: other cards of which the same holds.
        most: rows of the sentence.
        step: whether what to do is told too.
    """
    sign, role = GRADES[finding.grade]
    look: Role = "strong" if finding.severity == "notice" else "text"
    sentence = clean(finding.sentence)
    if more:
        sentence += f"; the same on GPU {', '.join(map(str, more))}"
    if finding.severity == "notice":
        sentence = f"{when(finding.since, at, zone).strip()} {sentence}"
    lines = wrapped(sentence, max(8, width - 4), most) or [""]
    rows: list[Row] = [
        (((f" {sign} ", role) if place == 0 else ("   ", "text")), (line, look)) for place, line in enumerate(lines)
    ]
    if step:
        words = wrapped(clean(finding.next_step), max(8, width - 12), most)
        rows += [
            (("   next:   " if place == 0 else " " * 11, "label"), (line, "text")) for place, line in enumerate(words)
        ]
    return rows
