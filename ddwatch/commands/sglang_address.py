"""The options of every command that asks SGLang's own port, and what they amount to."""

import argparse
import os
import sys
import time
from pathlib import Path

from ddwatch.core.exits import CommandFailed, Exit

LONGEST_KEY = 4096
QUIET_SECONDS = 10.0
"""Between two lines of progress where there is no terminal to write over one."""


def add_key_argument(parser: argparse.ArgumentParser) -> None:
    """Declares where SGLang's key comes from."""
    parser.add_argument("--sglang-key-file", metavar="FILE", help="SGLang's own key (else DDWATCH_SGLANG_KEY)")


def key_of(command: str, path: str | None) -> str | None:
    """SGLang's key from a file or the environment; None when there is none. Raises CommandFailed."""
    if path is None:
        return os.environ.get("DDWATCH_SGLANG_KEY") or None
    try:
        key = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "unreadable").lower() if isinstance(error, OSError) else "it is not text"
        raise CommandFailed(f"ddwatch {command}: cannot read the key file {path}: {reason}") from error
    if not key or len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise CommandFailed(f"ddwatch {command}: the key file {path} holds no key on a single line")
    return key


def url_of(command: str, given: str) -> str:
    """The address as it is asked; raises CommandFailed for what is none."""
    from ddwatch.probes.server import address

    try:
        return address(given)
    except ValueError as error:
        raise CommandFailed(f"ddwatch {command}: {error}", Exit.USAGE) from error


class Narrator:
    """Says on stderr what is being done: one line that is written over on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._told_at = -QUIET_SECONDS
        self._width = 0

    def say(self, text: str) -> None:
        """Replaces the present line."""
        if not self._live:
            now = time.monotonic()
            if now - self._told_at >= QUIET_SECONDS:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
                self._told_at = now
            return
        shown = text[:79]
        sys.stderr.write(f"\r{shown}{' ' * max(0, self._width - len(shown))}")
        sys.stderr.flush()
        self._width = len(shown)

    def clear(self) -> None:
        """Takes the line away."""
        if self._live and self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
            self._width = 0
