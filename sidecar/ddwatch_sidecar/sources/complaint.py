"""What a child process says on stderr: a bounded memory of it, for the sentence that tells why it ended."""

import re

KEPT = 40
"""Lines that are remembered."""
LONGEST = 200
"""Characters of one line that are remembered."""
LOG_LINE = re.compile(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|(?:INFO|WARNING|ERROR|DEBUG)[: ]")
"""A line of some log: it may hold what a user wrote, so it is never repeated."""


class Complaint:
    """The last lines of one run."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.log_like = False
        """Whether lines of a log came this way."""

    def hear(self, line: bytes) -> None:
        """Takes a line."""
        text = "".join(mark if mark.isprintable() else " " for mark in line[: 4 * LONGEST].decode("utf-8", "replace"))
        text = " ".join(text.split())
        if LOG_LINE.match(text):
            self.log_like = True
        elif text:
            self._lines = [*self._lines[1 - KEPT :], text[:LONGEST]]

    def says(self, *words: str) -> bool:
        """Whether any of these words, in lower case, was heard."""
        heard = "\n".join(self._lines).lower()
        return any(word in heard for word in words)

    @property
    def last(self) -> str:
        """Its last line, without a full stop; empty when it said nothing."""
        return self._lines[-1].rstrip(".") if self._lines else ""

    def after(self, words: str) -> str:
        """These words, with the last line behind them if there is one."""
        return f"{words}: {self.last}" if self._lines else words
