"""The one tokeniser for `key: value` bodies.

Order is free, unknown keys are kept, and the oddities of ten releases and several forks are undone here:
trailing commas, ellipses, `4. gen throughput`, values with `%`, words after numbers, repeated-line notes.
"""

import re

from ddwatch.core.grammar.text import clean

KEY_LIMIT = 64
VALUE_LIMIT = 64
EXTRA_LIMIT = 24

REPEATED = re.compile(r"\[repeated (\d{1,9}x)[^\]]{0,40}\]$")
"""Ray's note that equal lines of other ranks are hidden."""
INNER_STOP = re.compile(r"\. {1,4}(?=[^:]{1,80}: )")
"""The full stop between two fields: `#running-req: 4. gen throughput (token/s): 212.40`."""
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")

Fields = list[tuple[str, str]]


def tokenise(body: str) -> Fields:
    """The fields of a body in order, keys and values as printed but trimmed."""
    fields: Fields = []
    if body.endswith("]") and (repeated := REPEATED.match(body, body.rfind("["))) is not None:
        body = body[: repeated.start()]
        fields.append(("repeated", repeated[1]))
    for piece in body.split(","):
        key, colon, value = piece.partition(": ")
        if not colon:
            key, colon, value = piece.rstrip().partition(":")
            if not colon or value:
                continue
        if ": " in value and (stop := INNER_STOP.search(value)) is not None:
            fields.append((key.strip(" .…"), value[: stop.start()].strip()))
            key, _, value = value[stop.end() :].partition(": ")
        fields.append((key.strip(" .…"), value.strip(" \t…")))
    return fields


def number(value: str) -> float | None:
    """The number that a value begins with; None for `nan`, infinities and other stated absences.

    Raises ValueError when the value is neither a number nor a stated absence of one.
    """
    found = NUMBER.match(value)
    if found is None:
        if value.rstrip("%").lower() in ABSENT:
            return None
        raise ValueError(value)
    end = found.end()
    if end < len(value) and value[end] not in "% …":
        raise ValueError(value)
    result = float(found[0])
    return result if -1e18 < result < 1e18 else None


ABSENT = frozenset({"nan", "inf", "-inf", "none", "n/a", "-"})


def whole(value: str) -> int | None:
    """Like `number`, for counts."""
    if len(value) < 16 and value.isdecimal() and value.isascii():
        return int(value)
    result = number(value)
    return None if result is None else int(result)


def truth(value: str) -> bool | None:
    """`True` or `False`; raises ValueError on anything else."""
    if value == "True":
        return True
    if value == "False":
        return False
    raise ValueError(value)


def extra(pairs: Fields) -> tuple[tuple[str, str], ...]:
    """Unknown fields as a record keeps them: clean and bounded."""
    return tuple((clean(key, KEY_LIMIT), clean(value, VALUE_LIMIT)) for key, value in pairs[:EXTRA_LIMIT] if key)


def shape(value: str) -> str:
    """What a value looks like, without saying it."""
    if not value:
        return "<nothing>"
    if NUMBER.fullmatch(value):
        return "<number>"
    return "<number and text>" if NUMBER.match(value) else "<text>"
