"""Standard streams as a process finds them: closed ones are filled, and a stdout that takes no more is one sentence."""

import io
import os
import sys
from typing import TYPE_CHECKING

from ddwatch.core.exits import CommandFailed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """Bytes for stdout; a full disk behind it is the world's failure, and told apart from a reader that has left."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """As FileIO; raises BrokenPipeError without a reader, CommandFailed once for any other reason."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            # What is still buffered would fail again, and again at the end of Python.
            give_up_output()
            sentence = f"cannot write to standard output: {error.strerror or error}"
            raise CommandFailed(sentence) from error


def settle() -> None:
    """Called first by a front door.

    A standard stream that the caller closed becomes the null device: whoever closed stdout has left, as behind a broken
    pipe, and a socket or log must never be opened in its place and written to by accident.
    """
    # The lowest free descriptor is handed out: while one of the three is closed, that one.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    # A sign that the locale cannot write is a question mark; pages that can do better write their own.
    if sys.stdout is None or not sys.stdout.isatty():
        encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
        raw = _Output(1, "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="replace")
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def give_up_output() -> None:
    """Sends all further output to the null device, what is still buffered included; Python flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
