"""Takes apart lines that progress bars were drawn on: carriage returns, and records glued to a bar's end."""

import re

BAR = re.compile(
    r"[^\[\]{}'\"|%\r]{0,120}?"
    r"(?:\d{1,3}%(?:\|[^|\r]{0,400}\|| Completed \|) *\S{1,20}/\S{1,20} \[[^\]\r]{0,100}\]"
    r"|\d{1,12}it \[[^\]\r]{0,100}\])"
)
"""One drawing of a bar, from the start of its description to its closing bracket."""
UNFINISHED = re.compile(r"(?:[ \t]*|[^\[\]{}'\"|%\r]{0,120}?\d{1,3}%[| ][^\r{}'\"]{0,600})\r")
"""A drawing that the next one cut short, or nothing, before a carriage return."""


def segments(text: str) -> list[str]:
    """The pieces of one physical line that can each begin a record.

    A carriage return or a closing bracket only separates behind a bar: in any other line it is part of the message.
    """
    if "\r" not in text and "%|" not in text and "it [" not in text and "Completed |" not in text:
        return [text]
    pieces: list[str] = []
    at = 0
    while at < len(text):
        if (bar := BAR.match(text, at)) is not None:
            pieces.append(bar[0])
            at = bar.end()
        elif (unfinished := UNFINISHED.match(text, at)) is not None:
            at = unfinished.end()
        else:
            pieces.append(text[at:].rstrip("\r"))
            break
    return pieces or [""]
