"""The answer in the first lines: verdict, the numbers that it rests on, and what to do; loud only when not well."""

from collections.abc import Sequence

from ddwatch.core.snapshot import Frame, Snapshot, Verdict, VerdictName
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import ABSENT, age, count, figure, milliseconds, percent, tokens
from ddwatch.widgets.rows import Role, Row, Span, clean, faded, merged, spread, width_of, wrapped
from ddwatch.widgets.view import View

SIGNS: dict[VerdictName, str] = {
    "as-expected": "✓",
    "idle": "✓",
    "learning": "…",
    "warming": "…",
    "blind": "?",
    "low-accept": "!",
    "high-accept": "!",
    "starved": "!",
    "slow-step": "✗",
    "stalled": "✗",
    "down": "✗",
}
"""One sign per verdict, so that it can be read without colour."""

INDENT = 3
QUIET = ("as-expected", "idle", "learning", "warming")
"""Verdicts that need nobody: no coloured block."""


def is_loud(verdict: Verdict) -> bool:
    """Whether somebody should look."""
    return verdict.name not in QUIET


def verdict_words(verdict: Verdict) -> Row:
    """Sign and name: plain when all is well, a coloured block in capitals when not."""
    sign = SIGNS[verdict.name]
    name = verdict.name.replace("-", " ")
    if not is_loud(verdict):
        role: Role = "ok" if verdict.severity == "ok" else "unknown"
        return ((f" {sign} ", role), (name, "strong"))
    blocks: dict[str, Role] = {"page": "page-block", "notice": "notice-block"}
    return ((f" {sign} {name.upper()} ", blocks.get(verdict.severity, "unknown-block")),)


def headline(frame: Frame, view: View, width: int) -> Row:
    """Verdict, measured, and where the snapshot has them expected and ratio; the band gives way first."""
    snapshot = frame.snapshot
    words = verdict_words(snapshot.verdict)
    measured: Role = "tainted" if snapshot.now.flags or view.outdated(frame) else "measured"
    spans: list[Span] = [*words, (" " * max(2, 18 - width_of(words)), "text")]
    spans += [(f"{figure(snapshot.now.throughput):>5}", measured), (" tok/s", "label")]
    expected = snapshot.expected
    band = ""
    if expected is not None:
        band = f" ({figure(expected.low)} … {figure(expected.high)})"
        spans += [("     expected ", "label"), (figure(expected.tokens_per_second), "expected"), (band, "label")]
    if snapshot.ratio is not None:
        spans += [("     ratio ", "label"), (f"{snapshot.ratio:.2f}", "strong")]
    row = merged(spans)
    if width_of(row) > width:
        row = merged((text.replace("     ", "  "), role) for text, role in row)
    if width_of(row) > width and band:
        row = merged((text.replace(band, ""), role) for text, role in row)
    return row


def origin_texts(frame: Frame, view: View) -> list[str]:
    """Where the figures come from, how old they are and why they are not judged, if so: in full, and shorter."""
    now = frame.snapshot.now
    old = view.age_of(frame, now.at)
    if old is None:
        return [""]
    words = f"{now.provenance or 'log'} {age(old)} ago"
    if not now.flags:
        return [words]
    return [f"{', '.join(now.flags)} · {words}", f"mixed {now.provenance or 'log'} {age(old)}"]


def numbers(frame: Frame, view: View, width: int) -> Row:
    """Batch, context, accept, step and queue at fixed places, with their origin at the right.

    What does not fit is left out from the end, never cut.
    """
    now = frame.snapshot.now
    value_role: Role = "tainted" if view.outdated(frame) else "strong"
    cells = [
        ("batch", count(now.batch), "", 3),
        ("context", tokens(now.context_tokens), "", 5),
        ("accept", figure(now.accept_length), "", 4),
        (now.span, milliseconds(now.step_seconds), " ms", 4),
        ("queue", count(now.queued), "", 3),
        ("KV", percent(now.token_usage), "", 4),
    ]
    gap = 4 if width >= 100 else 2
    rows: list[Row] = []
    for origin in origin_texts(frame, view):
        right: Row = ((origin, "label"), (" ", "text"))
        spans: list[Span] = [(" " * INDENT, "text")]
        for name, value, unit, room in cells:
            part: Row = ((f"{name} ", "label"), (value, value_role), (unit, "label"))
            if width_of(tuple(spans)) + width_of(part) + width_of(right) >= width:
                break
            # What a short value leaves free is kept free, so that the next one never moves.
            spans += [*part, (" " * (gap + max(0, room - len(value))), "text")]
        rows.append(spread(merged(spans), right, width))
        if len(spans) > 4 * NEEDED:
            break
    return rows[-1]


NEEDED = 5
"""How many numbers must be there before the origin is told in full."""


def reasons(snapshot: Snapshot, width: int, room: int) -> list[Row]:
    """The sentence, the likely cause, what to do next and what else holds, in at most `room` rows."""
    verdict = snapshot.verdict
    loud = is_loud(verdict)
    tails: list[tuple[str, str, Role]] = []
    if verdict.cause:
        tails.append(("likely: ", clean(verdict.cause), "text"))
    if verdict.next_steps:
        tails.append(("next:   ", clean(" · ".join(verdict.next_steps)), "text"))
    tails += [
        ("also:   ", clean(f"{note.name.replace('-', ' ')}: {note.sentence}"), "label") for note in snapshot.notes
    ]
    across = max(8, width - INDENT - 1)
    lines = wrapped(clean(verdict.sentence), across, max(1, min(3, room - len(tails))))
    rows: list[Row] = [((" " * INDENT, "text"), (line, "strong" if loud else "text")) for line in lines]
    for name, text, role in tails:
        if len(rows) < room:
            line = wrapped(text, max(8, across - len(name)), 1)
            rows.append(((" " * INDENT, "text"), (name, "label"), (line[0] if line else ABSENT, role)))
    return rows[:room]


def trouble_rows(view: View, width: int) -> list[Row]:
    """What is wrong with the feed itself, loudly; nothing while data arrives."""
    heads: dict[str, tuple[str, Role]] = {
        "lost": (" ✗ NO DATA ", "page-block"),
        "ended": (" ✗ FEED ENDED ", "page-block"),
        "stale": (" ? STALE ", "unknown-block"),
    }
    if view.link not in heads or (view.link == "ended" and view.replay is not None):
        return []
    head, role = heads[view.link]
    said = view.trouble or f"nothing has arrived for {age(view.silence)}; the figures below are that old"
    lines = wrapped(clean(said), max(8, width - len(head) - 3), 2)
    rows: list[Row] = [((head, role), ("  ", "text"), (lines[0] if lines else "", "strong"))]
    rows += [((" " * (len(head) + 2), "text"), (line, "strong")) for line in lines[1:]]
    return rows


class VerdictBlock(Drawn):
    """What ddwatch holds of the service, and why."""

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """Headline, numbers, reasons; over them the feed's own trouble."""
        airy = height >= 5 + is_loud(frame.snapshot.verdict) and not trouble_rows(view, width)
        trouble = trouble_rows(view, width)
        rows: list[Row] = [headline(frame, view, width), numbers(frame, view, width)]
        if view.dimmed():
            rows = faded(rows)
        top: list[Row] = [()] if airy else []
        room = height - len(top) - len(trouble) - len(rows)
        rest = reasons(frame.snapshot, width, max(0, room))
        return [*top, *trouble, *rows, *(faded(rest) if view.dimmed() else rest)]
