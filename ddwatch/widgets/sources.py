"""Where the data comes from: is each source up, how old is its last word, what was lost; and what ddwatch costs."""

from collections.abc import Sequence

from ddwatch.core.snapshot import Frame, SourceView
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.engine import words_of
from ddwatch.widgets.figures import ABSENT, calm_age, exact, size
from ddwatch.widgets.rows import Role, Row, Span, clean, faded, heading, merged, spread, wrapped
from ddwatch.widgets.view import View

STATES: dict[str, tuple[str, Role]] = {"up": ("●", "text"), "waiting": ("○", "unknown"), "lost": ("✗", "page")}


ROOMY = 56
"""From this width on a source shows all its counts."""


def worth_a_look(source: SourceView) -> list[tuple[str, Role]]:
    """Lines and unread ones always, losses only where there were any."""
    lines, unread, gaps, rotations = losses(source)
    return [lines, unread, *([gaps] if source.gaps else []), *([rotations] if source.rotations else [])]


def losses(source: SourceView) -> list[tuple[str, Role]]:
    """What the source has counted, each with its unit; what needs a look stands out."""
    return [
        (f"{exact(source.lines)} lines", "label"),
        (f"{exact(source.unread)} unread", "notice" if source.unread else "label"),
        (f"{exact(source.gaps)} gaps", "notice" if source.gaps else "label"),
        (f"{exact(source.rotations)} rotations", "label"),
    ]


def counts_of(source: SourceView, width: int) -> list[tuple[str, Role]]:
    """What it has counted; a source that delivers and has no lines counts losses only."""
    if source.state == "up" and not (source.lines or source.unread or source.rotations):
        return losses(source)[2:3] if source.gaps else []
    return losses(source) if width >= ROOMY else worth_a_look(source)


def own_cost(frame: Frame) -> str:
    """What the sidecar costs: CPU as share of one core, resident memory."""
    watch = frame.snapshot.watch
    if watch.cpu_ratio is None:
        return f"sidecar {ABSENT}"
    return f"sidecar {watch.cpu_ratio * 100:.1f} % cpu, {size(watch.resident_bytes)}"


def one_line(frame: Frame, view: View, width: int) -> Row:
    """All sources in one row: the worst one with its figures, and how many there are besides."""
    sources = frame.snapshot.sources
    if not sources:
        return spread(((" no source yet", "label"),), ((own_cost(frame) + " ", "label"),), width)
    order = {"lost": 0, "waiting": 1, "up": 2}
    # Hardware that is simply not here is not the worst that can be said.
    source = min(sources, key=lambda each: order[each.state] if each.witness or each.state == "lost" else order["up"])
    sign, role = STATES[source.state]
    spans: list[Span] = [(f" {sign} ", role), (clean(source.name), "text")]
    if source.state == "up":
        spans.append((f"  {calm_age(view.age_of(frame, source.last_at))} ago", "label"))
        for text, look in worth_a_look(source):
            spans += [(" · ", "faint"), (text, look)]
    else:
        spans += [(f" {source.state}", role), (f"  {clean(source.detail)}", "text")]
    if len(sources) > 1:
        spans.append((f" · {len(sources) - 1} more", "label"))
    # A source in trouble needs the room for its words.
    right: Row = ((own_cost(frame) + " ", "label"),) if source.state == "up" else ()
    return spread(merged(spans), right, width)


def source_rows(source: SourceView, frame: Frame, view: View, width: int) -> list[Row]:
    """One source: state, name and age; below them its counts, what it says, and its detail."""
    sign, role = STATES[source.state]
    last = view.age_of(frame, source.last_at)
    heard = f"{calm_age(last)} ago" if last is not None else "never heard"
    first: list[Span] = [(f" {sign} ", role), (clean(source.name), "strong"), (f"  {source.state}", role)]
    first.append((f"  {heard}", "label"))
    second: list[Span] = [("   ", "text")]
    for place, (text, look) in enumerate(counts_of(source, width)):
        second += [(" · ", "faint")] if place else []
        second.append((text, look))
    rows: list[Row] = [merged(first), *([merged(second)] if len(second) > 1 else [])]
    told = words_of(source.name, frame.snapshot) if source.state == "up" else ""
    if told:
        rows += [(("   ", "text"), (line, "text")) for line in wrapped(told, max(8, width - 4), 3)]
    if source.detail:
        rows.append((("   ", "text"), (clean(source.detail), "text" if source.state == "up" else "strong")))
    return rows


def unread_rows(frame: Frame) -> list[Row]:
    """One row per shape of line that could not be read, values masked."""
    return [
        ((" ? ", "notice"), ("unread ", "notice"), (f"{clean(example.head)}: {clean(example.example)}", "label"))
        for example in frame.snapshot.unread_examples
    ]


class SourcePanel(Drawn, can_focus=True):
    """All sources; a single row when there is no room for more."""

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """One row, or heading and rows."""
        if height == 1:
            row = one_line(frame, view, width)
            return faded([row]) if view.dimmed() else [row]
        rows: list[Row] = [heading("sources", "", own_cost(frame), width, focused=self.has_focus)]
        for source in frame.snapshot.sources:
            rows += source_rows(source, frame, view, width)
        if not frame.snapshot.sources:
            rows.append((("   no source yet", "label"),))
        rows += unread_rows(frame)
        return faded(rows) if view.dimmed() else rows
