"""Runs a command line that fails, in this process: its exit code and what it said."""

import pytest

from ddwatch.cli import run


def in_process(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and stderr; fails when anything went to stdout."""
    try:
        code = run(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    said = capsys.readouterr()
    assert said.out == ""
    return code, said.err
