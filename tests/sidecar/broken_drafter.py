"""A service whose drafter breaks when it is told to, watched by a real sidecar whose time runs twenty times as fast."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddwatch.core.snapshot import Snapshot
from ddwatch.core.wire import decode_snapshot
from tests.sidecar.running import Sidecar, running
from tests.sidecar.test_telling_process import LINE, PATIENCE, WRITE


class Broken:
    """A service with a drafter that breaks, and a sidecar that tells it to a command every 40 s of its time."""

    def __init__(self, sidecar: Sidecar, log: Path, told: Path) -> None:
        self.sidecar, self.log, self._told = sidecar, log, told
        self._lines = 0

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._told.read_text().splitlines()] if self._told.exists() else []

    def snapshot(self) -> Snapshot:
        return decode_snapshot(self.sidecar.get("/v1/snapshot").content)

    def state(self) -> str:
        return next((alert.state for alert in self.snapshot().alerts if alert.name == "low-accept"), "")

    def held(self, name: str) -> bool:
        """Whether this is the verdict, or noted beside it."""
        snapshot = self.snapshot()
        return name in [note.name for note in (snapshot.verdict, *snapshot.notes)]

    def work(self, accept: float, enough: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        with self.log.open("a", encoding="utf-8") as file:
            while not enough():
                assert time.monotonic() < deadline, f"{what}: {self.sidecar.said} {self.told()}"
                for _ in range(3):
                    self._lines += 1
                    file.write(LINE.format(tokens=1000 + self._lines, accept=accept, rate=accept / 0.05))
                file.flush()
                time.sleep(0.02)


@contextmanager
def broken(folder: Path, *more: str) -> Iterator[Broken]:
    """The service after a while of sound work, with everything that its sidecar keeps below a folder."""
    log, told = folder / "sglang.log", folder / "told"
    log.touch()
    command = [f"--notify-command={word}" for word in (sys.executable, "-c", WRITE, str(told))]
    words = ("--log", str(log), "--no-learn", "--no-nvml", "--time-scale", "20", "--notify-repeat", "40s")
    with running(*words, *command, *more) as sidecar:
        service = Broken(sidecar, log, told)
        until = service.snapshot().at + 80.0
        service.work(5.0, lambda: service.snapshot().at > until, "some traffic")
        yield service
        assert sidecar.end() == 0
