"""Exit codes of every command, and the one exception that ends a command with a sentence."""

from enum import IntEnum

from ddwatch.core.snapshot import VerdictName


class Exit(IntEnum):
    """DESIGN.md sections 6 and 7."""

    OK = 0
    """As expected, or idle."""
    NOTICE = 1
    """Something is worth a look; nothing pages."""
    PAGE = 2
    """The service is slow, stalled or down."""
    UNJUDGED = 3
    """ddwatch cannot judge (blind, warming, learning)."""
    USAGE = 64
    """Wrong usage."""
    INPUT = 66
    """An input is missing or unreadable, or a port or address cannot be used."""
    INTERRUPTED = 130


VERDICT_EXITS: dict[VerdictName, Exit] = {
    "down": Exit.PAGE,
    "stalled": Exit.PAGE,
    "starved": Exit.NOTICE,
    "blind": Exit.UNJUDGED,
    "warming": Exit.UNJUDGED,
    "idle": Exit.OK,
    "learning": Exit.UNJUDGED,
    "slow-step": Exit.PAGE,
    "low-accept": Exit.NOTICE,
    "high-accept": Exit.NOTICE,
    "as-expected": Exit.OK,
}


class CommandFailed(Exception):
    """Ends a command: `sentence` goes to stderr as one line, `code` is the exit code."""

    def __init__(self, sentence: str, code: Exit = Exit.INPUT) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
