"""Runs a command line in this process: its exit code, its output, and what it said on stderr."""

from typing import NamedTuple

import pytest

from ddwatch.cli import run


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs the words; a wrong usage is an exit code like any other."""
    try:
        code = run(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    captured = capsys.readouterr()
    return Said(code, captured.out, captured.err)
