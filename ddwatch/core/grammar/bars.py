"""Takes apart lines that progress bars were drawn on: carriage returns, and records glued to a bar's end."""

import re

BAR = re.compile(
    r"[^\[\]{}'\"|%\r]{0,120}?"
    r"(?:\d{1,3}%(?:\|[^|\r]{0,400}\|| Completed \|) *\S{1,20}/\S{1,20} \[[^\]\r]{0,100}\]"
    r"|\d{1,12}it \[[^\]\r]{0,100}\])"
)
"""One drawing of a bar, from the start of its description to its closing bracket."""


def segments(text: str) -> list[str]:
    """The pieces of one physical line that can each begin a record.

    A carriage return or a closing bracket only separates behind a bar: in any other line it is part of the message.
    """
    if "\r" not in text and "%|" not in text and "it [" not in text and "Completed |" not in text:
        return [text]
    pieces: list[str] = []
    rest = text
    while True:
        rest = rest.lstrip("\r")
        bar = BAR.match(rest)
        if bar is None:
            break
        pieces.append(bar[0])
        rest = rest[bar.end() :]
    # Bars cut short by the next drawing of themselves.
    head, found, tail = rest.partition("\r")
    if found and (not head.strip() or UNFINISHED.match(head)):
        return [*pieces, *segments(tail)]
    if rest.strip() or not pieces:
        pieces.append(rest.rstrip("\r"))
    return pieces


UNFINISHED = re.compile(r"[^\[\]{}'\"|%\r]{0,120}?\d{1,3}%[| ][^\r{}'\"]{0,600}$")
