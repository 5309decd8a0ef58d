"""Styled text as plain values, so that everything that is drawn can be read and tested without a terminal."""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from rich.cells import cell_len, set_cell_size

from ddwatch.widgets.canvas import BRAILLE, FULL, stroke

Role = Literal[
    "text",
    "strong",
    "label",
    "faint",
    "bar",
    "bar-strong",
    "bar-label",
    "measured",
    "measured-on-band",
    "expected",
    "expected-on-band",
    "band",
    "band-full",
    "outside",
    "here",
    "tainted",
    "ok",
    "notice",
    "page",
    "unknown",
    "notice-block",
    "page-block",
    "unknown-block",
    "simulated",
    "focus",
]
"""What a piece of text is, never how it looks; app.tcss gives each role its look.

`band` is the expected range behind what was measured, `outside` the region where no evidence is, `here` the present
reading among others, `bar` the lines at top and bottom, `-block` the loud form
of a verdict.
"""

ROLES: tuple[Role, ...] = get_args(Role)

Span = tuple[str, Role]
Row = tuple[Span, ...]

ASCII = {
    ord(sign): plain
    for sign, plain in {
        "✓": "+",
        "✗": "X",
        "…": "~",
        "–": "-",
        "−": "-",
        "·": "-",
        "●": "*",
        "○": "o",
        "×": "x",
        "─": "-",
        "│": "|",
        "┤": "|",
        "┊": ":",
        "┆": ":",
        "╌": "-",
        "▸": ">",
        "▲": "^",
        "▶": ">",
        "‖": "=",
        "←": "<",
        "→": ">",
        "↑": "^",
        "↓": "v",
        "±": "~",
        "█": "#",
        "░": ":",
        "°": " ",
        "’": "'",
        "▁": "_",
        "≥": ">",
        "▔": "-",
        "▎": "|",
        "━": "=",
        "⏎": ">",
        "◆": "@",
        "╱": "/",
    }.items()
}
"""A one-cell ASCII stand-in for each sign that the screen uses; a letter of the world's becomes `?`."""
ASCII |= {BRAILLE + bits: stroke(bits) for bits in range(FULL + 1)}


def to_ascii(text: str) -> str:
    """The text in ASCII and at the same width: each wide character becomes as many `?` as it had cells."""
    if text.isascii():
        return text
    return "".join(sign if sign.isascii() else "?" * cell_len(sign) for sign in text.translate(ASCII))


def clean(text: str) -> str:
    """Text of the world without control characters, which must never reach a terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def width_of(row: Row) -> int:
    """Cells that a row takes."""
    return sum(cell_len(text) for text, _ in row)


def plain(row: Row) -> str:
    """The row's text alone."""
    return "".join(text for text, _ in row)


def merged(row: Iterable[Span]) -> Row:
    """Neighbouring spans of one role joined, empty ones dropped: fewer bytes for the terminal."""
    spans: list[Span] = []
    for text, role in row:
        if not text:
            continue
        if spans and spans[-1][1] == role:
            spans[-1] = (spans[-1][0] + text, role)
        else:
            spans.append((text, role))
    return tuple(spans)


def fit(row: Row, width: int, fill: Role = "text") -> Row:
    """The row at exactly `width` cells: cut with `…`, or padded on the right with the role `fill`."""
    have = width_of(row)
    if have == width:
        return merged(row)
    if have < width:
        return merged((*row, (" " * (width - have), fill)))
    if width <= 0:
        return ()
    trimmed = _without_blanks(row, have - width)
    if trimmed is not None:
        return merged(trimmed)
    spans: list[Span] = []
    left = width - 1
    for text, role in row:
        cells = cell_len(text)
        if cells > left:
            spans.append((set_cell_size(text, left), role))
            spans.append(("…", role))
            break
        spans.append((text, role))
        left -= cells
    return merged(spans)


def _without_blanks(row: Row, cells: int) -> Row | None:
    """The row without so many blanks at its end; None when it does not end in that many."""
    spans = list(row)
    while cells > 0 and spans:
        text, role = spans.pop()
        kept = text.rstrip(" ")
        blanks = len(text) - len(kept)
        if blanks < len(text) and blanks < cells:
            return None
        spans.append((text[: len(text) - min(blanks, cells)], role))
        cells -= min(blanks, cells)
        if not spans[-1][0]:
            spans.pop()
    return tuple(spans)


def spread(left: Row, right: Row, width: int, fill: Role = "text") -> Row:
    """`left` and `right` at the two ends of one row; `left` gives way when both do not fit."""
    room = width - width_of(right) - 1
    if room < 4:
        return fit(left, width, fill)
    return merged((*fit(left, room, fill), (" ", fill), *right))


def block(rows: Sequence[Row], width: int, height: int, fill: Role = "text") -> tuple[Row, ...]:
    """Exactly `height` rows of exactly `width` cells."""
    shown = [fit(row, width, fill) for row in rows[:height]]
    shown.extend(fit((), width, fill) for _ in range(height - len(shown)))
    return tuple(shown)


def heading(title: str, unit: str, right: str, width: int, *, focused: bool = False) -> Row:
    """The rule over a panel: what it shows, in which unit, and one remark at its right end."""
    mark: Span = ("─▸ ", "focus") if focused else ("── ", "faint")
    left: list[Span] = [mark, (title, "focus" if focused else "strong")]
    if unit:
        left += [("  ", "faint"), (unit, "label")]
    left.append((" ", "faint"))
    end: list[Span] = [(" ", "faint"), (right, "label"), (" ──", "faint")] if right else []
    room = width - width_of(tuple(left)) - width_of(tuple(end))
    if room < 0 and unit:
        return heading(title, "", right, width, focused=focused)
    if room < 0:
        return fit((*left, ("─" * width, "faint")), width, "faint")
    return merged((*left, ("─" * room, "faint"), *end))


def wrapped(text: str, width: int, limit: int) -> list[str]:
    """The text in at most `limit` lines of `width` cells, broken at blanks; what does not fit ends in `…`."""
    lines: list[str] = []
    line = ""
    words = text.split()
    for position, word in enumerate(words):
        candidate = f"{line} {word}" if line else word
        if cell_len(candidate) <= width or not line:
            line = candidate
            continue
        if len(lines) == limit - 1:
            rest = " ".join([line, *words[position:]])
            return [*lines, plain(fit(((rest, "text"),), width))]
        lines.append(line)
        line = word
    if line:
        lines.append(plain(fit(((line, "text"),), width)) if cell_len(line) > width else line)
    return lines


def faded(rows: Sequence[Row]) -> list[Row]:
    """The same rows without any colour: old data must not look like the present."""
    return [merged((text, role if role == "faint" else "tainted") for text, role in row) for row in rows]
