"""One log, its writer and its follower, with the clock in hand; and worlds of simulated cards."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.sources.contract import Item
from ddwatch_sidecar.sources.log_file import LogFile

from tests.fakes.clock import Clock
from tests.fakes.log_writer import LogWriter
from tests.fakes.nvml_stub.library import Machine, build
from tests.sidecar.sources.nvml_world import Stub, World
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


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles each variant of the library once."""
    built: dict[tuple[str, ...], Path] = {}

    def of(*without: str) -> Path:
        if without not in built:
            built[without] = build(tmp_path_factory.mktemp("nvml"), without=without)
        return built[without]

    return of


@pytest.fixture
def stub(needs_command: Callable[[str], Path], libraries: Callable[..., Path], tmp_path: Path) -> Iterator[Stub]:
    """Makes worlds of simulated cards, and ends their children."""
    needs_command("gcc")
    worlds: list[World] = []

    def make(*rules: str, cards: int = 2, without: tuple[str, ...] = (), **options: Any) -> World:
        machine = Machine(tmp_path / "scenario", cards)
        machine.set(*rules)
        world = World(machine.environment(libraries(*without)), machine, **options)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()
