"""One row per live rank, for services that run several data-parallel ranks."""

from collections.abc import Sequence

from ddwatch.core.snapshot import Frame, RankView
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import age, count, figure, milliseconds, percent, tokens
from ddwatch.widgets.rows import Role, Row, Span, clean, faded, heading, merged
from ddwatch.widgets.view import View

COLUMNS = (("rank", 5), ("batch", 6), ("context", 8), ("accept", 7), ("ms", 6), ("tok/s", 6), ("KV", 6), ("queue", 6))
NARROW = 66
"""Below this width the last column is left out."""


def columns(width: int) -> tuple[tuple[str, int], ...]:
    """The columns that a table of this width has."""
    return COLUMNS if width >= NARROW else COLUMNS[:-1]


def rank_name(rank: RankView) -> str:
    """`DP3`, with the engine's name before it where several engines speak."""
    name = f"DP{rank.sample.dp_rank}" if rank.sample.dp_rank is not None else "all"
    return f"{clean(rank.sample.engine)} {name}" if rank.sample.engine else name


def rank_row(rank: RankView, frame: Frame, view: View, width: int) -> Row:
    """The newest sample of one rank; dim when it is contaminated or the rank has gone silent."""
    sample = rank.sample
    value: Role = "text" if sample.clean and rank.live else "tainted"
    fields = (
        rank_name(rank),
        count(sample.batch),
        tokens(sample.context_tokens),
        figure(sample.accept_length),
        milliseconds(sample.step_seconds),
        figure(sample.throughput),
        percent(rank.token_usage),
        count(rank.queued),
    )
    spans: list[Span] = [(" ", "text")]
    for place, (text, (_, across)) in enumerate(zip(fields, columns(width), strict=False)):
        spans.append((f"{text:<{across}}" if place == 0 else f"{text:>{across}}", value if place else "label"))
    old = view.age_of(frame, sample.at)
    remark = ", ".join(sample.flags) if rank.live else f"silent {age(old)}"
    spans.append((f"  {remark}", "label"))
    return merged(spans)


class RankPanel(Drawn, can_focus=True):
    """The ranks side by side."""

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """Heading, column names, rows; says how many did not fit."""
        ranks = frame.snapshot.ranks
        live = sum(1 for rank in ranks if rank.live)
        title = heading("ranks", "", f"{live} of {len(ranks)} live", width, focused=self.has_focus)
        names: list[Span] = [(" ", "label")]
        for place, (name, across) in enumerate(columns(width)):
            names.append((f"{name:<{across}}" if place == 0 else f"{name:>{across}}", "label"))
        room = height - 2
        shown = ranks if len(ranks) <= room else ranks[: max(0, room - 1)]
        rows: list[Row] = [title, merged(names), *(rank_row(rank, frame, view, width) for rank in shown)]
        if len(shown) < len(ranks):
            rows.append(((f" … {len(ranks) - len(shown)} more: tab to this panel, then enter", "label"),))
        return faded(rows) if view.dimmed() else rows
