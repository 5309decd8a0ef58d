"""The answer in the first lines: verdict, the numbers that it rests on, and what to do; loud only when not well."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from ddwatch.core.snapshot import Frame, Snapshot, Verdict, VerdictName
from ddwatch.widgets.alert_words import quiet_words
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.events import when
from ddwatch.widgets.factor_row import caveats, difference_words, factor_row, model_words, reference_words
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
        # Beyond the evidence the model predicts, and says that it does.
        name = "guessed  " if expected.extrapolated else "expected "
        spans += [(f"     {name}", "label"), (figure(expected.tokens_per_second), "expected"), (band, "label")]
        ratio = ABSENT if snapshot.ratio is None else f"{snapshot.ratio:.2f}"
        spans += [("     ratio ", "label"), (ratio, "strong")]
    row = merged(spans)
    if width_of(row) > width:
        row = merged((text.replace("     ", "  "), role) for text, role in row)
    if width_of(row) > width and band:
        row = merged((text.replace(band, ""), role) for text, role in row)
    return row


YOUNG = 10.0
"""Seconds up to which the age of a reading may be left out where there is no room for it."""


def origin_texts(frame: Frame, view: View) -> list[str]:
    """Where the figures come from, how old they are and why they are not judged, if so: in full, and shorter."""
    now = frame.snapshot.now
    old = view.age_of(frame, now.at)
    if old is None:
        return [""]
    name = now.provenance or "log"
    short = f"{name} {age(old)}"
    if now.flags:
        return [f"{', '.join(now.flags)} · {short} ago", f"mixed {short}"]
    return [f"{short} ago", short, *([name] if old < YOUNG else [])]


def numbers(frame: Frame, view: View, width: int) -> Row:
    """Batch, context, accept, step beside the expected one, and queue, with their origin at the right.

    What does not fit is left out from the end, never cut; the origin is shortened first.
    """
    now, expected = frame.snapshot.now, frame.snapshot.expected
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
        shown = 0
        for name, value, unit, room in cells:
            part: list[Span] = [(f"{name} ", "label"), (value, value_role), (unit, "label")]
            pad = max(0, room - len(value))
            if name == now.span and expected is not None:
                # What follows a figure must not move with its length: the blanks stand before it.
                part[0] = (f"{name} " + " " * pad, "label")
                said = milliseconds(expected.step_seconds)
                part += [(", expected ", "label"), (said, "expected")]
                pad = max(0, room - len(said))
            if width_of(tuple(spans)) + width_of(tuple(part)) + width_of(right) > width:
                break
            # What a short value leaves free is kept free, so that the next one never moves.
            spans += [*part, (" " * (gap + pad), "text")]
            shown += 1
        rows.append(spread(merged(spans), right, width))
        if shown >= NEEDED:
            break
    return rows[-1]


NEEDED = 4
"""How many numbers must be there before the origin is told in full."""

LABEL = 9
"""Cells of the name before a reason."""


class Reason(NamedTuple):
    """One row of the answer to `why`."""

    rank: int
    """What is left out first where there is no room: the highest."""
    name: str
    pieces: tuple[str, ...]
    """What is said; where there is no room for all, the later pieces are left out."""
    role: Role

    def text(self, width: int) -> str:
        """As many pieces as fit, one at least."""
        shown = self.pieces[0]
        for piece in self.pieces[1:]:
            if cell_len(shown) + 3 + cell_len(piece) <= width:
                shown += f" · {piece}"
        return shown


def is_plain(snapshot: Snapshot) -> bool:
    """Whether the headline and the factors say it all."""
    well = snapshot.verdict.name == "as-expected" and snapshot.ratio is not None
    return well and snapshot.reference is not None


def reasons(snapshot: Snapshot) -> list[Reason]:
    """Everything that can be said beside headline, numbers and factors, in order of place."""
    verdict, model = snapshot.verdict, snapshot.model
    loud = is_loud(verdict)
    found: list[Reason] = []
    if not is_plain(snapshot):
        found.append(Reason(0, "", (clean(verdict.sentence),), "strong" if loud else "text"))
    if verdict.cause:
        found.append(Reason(2, "likely:", (clean(verdict.cause),), "text"))
    if verdict.next_steps:
        found.append(Reason(3, "next:", tuple(map(clean, verdict.next_steps)), "text"))
    if snapshot.reference is not None:
        found.append(Reason(5 if loud else 2, "from:", (reference_words(snapshot.reference),), "label"))
    if model is not None:
        # Until there is something to judge by, how far learning has come is part of the answer.
        needed = not model.calibrated or verdict.name == "learning"
        found.append(Reason(4 if needed else 8, "model:", (*caveats(snapshot), *model_words(model)), "label"))
        if model.differences:
            found.append(Reason(5, "differs:", (difference_words(model),), "text"))
    for note in snapshot.notes:
        said = clean(f"{note.name.replace('-', ' ')}: {note.sentence}")
        found.append(Reason(6, "also:", (said,), "label"))
    return found


def wanted_rows(snapshot: Snapshot, width: int) -> int:
    """Rows that the block needs to say what matters; changes only with the verdict, its cause or the model."""
    said = [reason for reason in reasons(snapshot) if reason.rank < LEAST_WANTED]
    # Counted a little too long, so that a sentence whose figures grow does not move the panels.
    lines = sum(len(wrapped(reason.pieces[0] + "~~~~", width - INDENT - 1, 2)) for reason in said if not reason.name)
    named = sum(1 for reason in said if reason.name)
    return 2 + (snapshot.reference is not None) + lines + named


LEAST_WANTED = 6
"""Reasons of this rank and above do not ask for rows of their own."""


def reason_rows(snapshot: Snapshot, width: int, room: int) -> list[Row]:
    """Factors, sentence, cause, what to do, what it rests on: as many as fit in `room` rows, in a fixed order."""
    said = reasons(snapshot)
    factors = factor_row(snapshot, width - 1)
    kept = room - (factors is not None and (room > 1 or is_plain(snapshot)))
    rows: list[Row] = [factors] if factors is not None and kept < room else []
    across = max(8, width - INDENT - 1)
    if not said or kept < 1:
        return rows[:room]
    if not said[0].name:
        sentence, said = said[0], said[1:]
        needed = sum(1 for reason in said if reason.rank < IMPORTANT)
        lines = wrapped(sentence.text(across), across, max(1, min(3, kept - needed))) or [ABSENT]
        rows += [((" " * INDENT, "text"), (line, sentence.role)) for line in lines]
        kept -= len(lines)
    by_rank = sorted(range(len(said)), key=lambda place: (said[place].rank, place))
    for place in sorted(by_rank[: max(0, kept)]):
        reason = said[place]
        named = f"{reason.name:<{LABEL}}"
        lines = wrapped(reason.text(across - LABEL), across - LABEL, 1) or [ABSENT]
        rows.append(((" " * INDENT, "text"), (named, "label"), (lines[0], reason.role)))
    return rows


IMPORTANT = 5
"""Reasons below this rank come before the further lines of a long sentence."""


def with_since(rows: list[Row], frame: Frame, view: View, width: int) -> list[Row]:
    """The time since which the verdict holds, at the right end of the last row that has room for it."""
    snapshot = frame.snapshot
    at = when(snapshot.verdict.since, snapshot.at, view.zone).strip()
    brief = at.rsplit(":", 1)[0]
    quiet = quiet_words(snapshot, view.zone)
    known = [f"{words} · " for words in dict.fromkeys((quiet, quiet.split(" until ")[0])) if words]
    ends: list[Row] = [
        ((words, "strong"), (f"since {text}", "label"), (" ", "text"))
        for words in known or [""]
        for text in (at, brief)
    ]
    for said in ends:
        for place in reversed(range(len(rows))):
            if width_of(rows[place]) + width_of(said) + 2 <= width:
                return [*rows[:place], spread(rows[place], merged(said), width), *rows[place + 1 :]]
    # That somebody knows is not left out: the end of the last row gives way.
    return [*rows[:-1], spread(rows[-1], merged(ends[-1]), width)] if quiet and rows else rows


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
        trouble = trouble_rows(view, width)
        airy = height > wanted_rows(frame.snapshot, width) and height > 4 and not trouble
        rows: list[Row] = [headline(frame, view, width), numbers(frame, view, width)]
        if view.dimmed():
            rows = faded(rows)
        top: list[Row] = [()] if airy else []
        room = height - len(top) - len(trouble) - len(rows)
        rest = with_since(reason_rows(frame.snapshot, width, max(0, room)), frame, view, width)
        return [*top, *trouble, *rows, *(faded(rest) if view.dimmed() else rest)]
