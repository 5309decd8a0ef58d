"""`ddwatch sidecar`: becomes the sidecar process, which reads all remaining words itself."""

import argparse
import os
import sys
from typing import NoReturn

PASSES_WORDS = True
"""The front door hands over all words unread as `arguments.words`, `--help` included."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing: the sidecar has its own flags."""


def run(arguments: argparse.Namespace) -> NoReturn:
    """Replaces this process by the sidecar."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "ddwatch_sidecar.cli", *arguments.words])
