"""Tokens committed per step as bars: how often a step committed one token, two, three, and so on."""

from collections.abc import Sequence

from ddwatch.core.request_view import AcceptHistogram
from ddwatch.widgets.figures import exact, figure, percent
from ddwatch.widgets.rows import Role, Row, heading, merged

CELLS = 4
"""Cells that one bar and the blank behind it take."""
BARS_HIGH = 3
EIGHTHS = " ▁▂▃▄▅▆▇█"


def folded(steps: Sequence[int], most: int) -> list[int]:
    """The counts in at most so many bars; what lies deeper is summed up in the last."""
    if len(steps) <= most:
        return list(steps)
    return [*steps[: most - 1], sum(steps[most - 1 :])]


def bars(shares: Sequence[float], *, ascii_only: bool) -> list[str]:
    """Rows from top to bottom; the highest bar fills them, and what is not nothing is seen."""
    highest = max(shares, default=0.0)
    full = len(EIGHTHS) - 1
    heights = [max(1 if share else 0, round(share / highest * BARS_HIGH * full)) if highest else 0 for share in shares]
    if ascii_only:
        heights = [-(-height // full) * full for height in heights]
    rows = []
    for row in reversed(range(BARS_HIGH)):
        signs = (EIGHTHS[max(0, min(full, height - row * full))] for height in heights)
        rows.append("".join(sign * (CELLS - 1) + " " for sign in signs))
    return rows


def accept_rows(histogram: AcceptHistogram, width: int, *, ascii_only: bool) -> list[Row]:
    """Heading, bars, the number of tokens under each, its share."""
    total = sum(histogram.steps)
    counts = folded(histogram.steps, max(1, (width - 3) // CELLS))
    deeper = len(counts) < len(histogram.steps)
    mean = sum((place + 1) * count for place, count in enumerate(histogram.steps)) / total
    right = f"mean {figure(mean)} · {exact(total)} steps of {histogram.requests} requests"
    shares = [count / total for count in counts]
    look: Role = "measured"
    rows: list[Row] = [heading("accept length", "tokens/step", right, width)]
    rows += [merged((("   ", "text"), (row, look))) for row in bars(shares, ascii_only=ascii_only)]
    names = [f"{place + 1}" for place in range(len(counts))]
    if deeper:
        names[-1] += "+"
    rows.append(merged((("   ", "text"), ("".join(f"{name:^{CELLS - 1}} " for name in names), "label"))))
    told = [percent(share).replace(" ", "") if share else "" for share in shares]
    rows.append(merged((("   ", "text"), ("".join(f"{text:>{CELLS - 1}} " for text in told), "text"))))
    return rows
