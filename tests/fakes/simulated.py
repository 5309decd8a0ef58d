"""The simulated service as a process with its port open, for tests of whoever speaks to SGLang's port."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ddwatch.demo.service import LIVE


class Simulated(NamedTuple):
    """A running service."""

    url: str
    log: Path
    process: "subprocess.Popen[bytes]"


@contextmanager
def simulated(
    log: Path, scenario: str = "server", *, speed: float = 1.0, more: tuple[str, ...] = ()
) -> Iterator[Simulated]:
    """The service, live, and gone afterwards."""
    words = ["--scenario", scenario, "--log", str(log), "--port", "0", "--speed", str(speed), *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "ddwatch.demo.service", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline().decode().split()
        assert said[:1] == [LIVE]
        yield Simulated(said[1], log, process)
    finally:
        process.kill()
        process.communicate()
