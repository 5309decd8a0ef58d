"""One log, its writer and its follower, with the clock in hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.contract import Item
from ddwatch_sidecar.sources.log_file import LogFile

from tests.fakes.clock import Clock
from tests.fakes.log_writer import LogWriter
from tests.sidecar.sources.reading import read_on


class Followed:
    """A log at `path`, written by `writer`, read by `source`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = LogWriter(path)
        self.source = LogFile(path)
        self.clock = Clock()

    def read(self, seconds: float = 0.2) -> list[Item]:
        """Lets time pass and reads all that is ready."""
        return read_on(self.source, self.clock.advance(seconds))

    def close(self) -> None:
        self.writer.close()
        self.source.close()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path / "server.log")
    yield made
    made.close()
