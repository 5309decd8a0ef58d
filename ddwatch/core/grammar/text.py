"""Makes text from a log safe to show: no control bytes, no escape sequences, bounded length."""

import re

LINE_LIMIT = 65_536
"""Bytes of a line that are looked at; the rest is dropped."""

ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]?)")
"""ANSI sequences: CSI, OSC and two-byte ones."""

UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""Control characters, and those that turn the direction of text around."""


def decoded(line: bytes) -> str:
    """The line as text without escape sequences and null bytes; undecodable bytes become U+FFFD."""
    text = line[:LINE_LIMIT].decode("utf-8", "replace")
    if "\x1b" in text:
        text = ESCAPE.sub("", text)
    return text.replace("\x00", "") if "\x00" in text else text


def clean(text: str, limit: int) -> str:
    """Text that may reach a terminal: one line, at most `limit` characters."""
    if len(text) <= limit and text.isprintable():
        return text.strip()
    safe = UNSAFE.sub(" ", text[: 4 * limit]).strip()
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
