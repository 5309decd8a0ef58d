"""The state file follows the service while it runs, is never half written, and goes at the end."""

import time
from collections.abc import Callable
from pathlib import Path

from ddwatch.demo.gpus.cards import Cards
from ddwatch.demo.gpus.state_file import SAMPLES, StateFile, works
from ddwatch.demo.rank import RankLoad
from ddwatch.demo.stage import View

NOTHING = RankLoad(0, 0, 0, 0, 1, 0.0, None, (0.0,) * 6, 0, 0, 0.0)
IDLE = View(True, (NOTHING,), {})
BUSY = View(True, (NOTHING, NOTHING._replace(running=2)), {})
WAITING = View(True, (NOTHING._replace(queued=1),), {})


class Service:
    """What can be seen of a service, and when."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.now = 1000.0


def state_file(path: Path, service: Service) -> StateFile:
    return StateFile(path, Cards("seed"), 900.0, lambda: service.now, lambda: service.view)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def test_a_service_works_while_something_runs_or_waits() -> None:
    assert [works(view) for view in (IDLE, BUSY, WAITING, View(False, (), {}))] == [False, True, True, False]


def test_the_utilization_is_that_of_the_last_second(tmp_path: Path) -> None:
    service = Service(IDLE)
    file = state_file(tmp_path / "cards", service)
    for _ in range(SAMPLES):
        file.write()
    assert "gpu 0 utilization 0\n" in (tmp_path / "cards").read_text()
    service.view = BUSY
    shares = []
    for _ in range(SAMPLES):
        service.now += 0.25
        file.write()
        line = next(line for line in (tmp_path / "cards").read_text().splitlines() if "gpu 0 utilization" in line)
        shares.append(int(line.rpartition(" ")[2]))
    assert shares == sorted(shares) and shares[0] < 30 and shares[-1] > 90


def test_it_is_there_at_once_follows_and_goes_at_the_end(tmp_path: Path) -> None:
    path, service = tmp_path / "cards", Service(IDLE)
    with state_file(path, service).kept():
        assert "sys count 8\n" in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
        service.view = BUSY

        def boosts() -> bool:
            service.now += 1.0
            return "gpu 0 pstate 0\n" in path.read_text()

        until(boosts)
        assert path.read_text().endswith("\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_taken_away_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    path, service = folder / "cards", Service(BUSY)
    with state_file(path, service).kept():
        path.unlink()
        until(path.exists)
        path.unlink()
        folder.rename(tmp_path / "elsewhere")
