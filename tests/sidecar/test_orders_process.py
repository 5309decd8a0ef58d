"""The whole sidecar: what is acknowledged in the file is not told again until that ends, and a mute tells nobody."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddwatch.alert_desk import Desk, desk_of
from ddwatch.core.snapshot import Snapshot
from ddwatch.core.wire import decode_snapshot, epoch
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
def broken(folder: Path) -> Iterator[tuple[Broken, Desk]]:
    log, told = folder / "sglang.log", folder / "told"
    log.touch()
    command = [f"--notify-command={word}" for word in (sys.executable, "-c", WRITE, str(told))]
    words = ("--log", str(log), "--no-record", "--no-learn", "--no-nvml", "--time-scale", "20")
    with running(*words, "--alerts", str(folder / "alerts"), "--notify-repeat", "40s", *command) as sidecar:
        service = Broken(sidecar, log, told)
        until = service.snapshot().at + 80.0
        service.work(5.0, lambda: service.snapshot().at > until, "some traffic")
        keeping = service.snapshot().keeping
        assert keeping is not None and keeping.recording is None
        desk = desk_of(keeping.channel, folder / "alerts")
        assert desk is not None and desk.path.name.startswith("sglang.log-")
        yield service, desk
        assert sidecar.end() == 0
        assert desk.path.exists()


def test_an_acknowledgement_stops_the_repeats_until_it_ends(tmp_path: Path) -> None:
    with broken(tmp_path) as (service, desk):
        service.work(1.15, lambda: len(service.told()) >= 2, "a repeat")
        assert [one["again"] for one in service.told()[:2]] == [False, True]

        (alert,) = (alert for alert in service.snapshot().alerts if alert.name == "low-accept")
        until = service.snapshot().at + 160.0
        desk.change(lambda orders: orders.acknowledged([(alert.name, alert.incident)], until - 160.0, until, "seen"))
        service.work(1.15, lambda: service.state() == "acknowledged", "the acknowledgement")
        acknowledged_at = service.snapshot().at
        assert service.held("low-accept")
        assert 'ddwatch_alerts_total{alert="low-accept"} 1.0' in service.sidecar.get("/metrics").text

        service.work(1.15, lambda: epoch(service.told()[-1]["at"]) >= until, "what is told at the end of it")
        assert service.told()[-1]["again"] is True
        times = [epoch(one["at"]) for one in service.told()]
        assert [at for at in times if acknowledged_at < at < until] == []
        assert len({one["incident"] for one in service.told()}) == 1


def test_a_mute_tells_nobody_and_a_still_firing_incident_is_told_at_its_end(tmp_path: Path) -> None:
    with broken(tmp_path) as (service, desk):
        now = service.snapshot().at
        desk.change(lambda orders: orders.muted("low-accept", now, now + 3600.0))
        service.work(5.0, lambda: service.snapshot().mutes, "the mute")
        service.work(1.15, lambda: service.state() == "muted", "the incident")
        assert service.held("low-accept")
        assert service.told() == []

        desk.change(lambda orders: orders.unmuted("low-accept"))
        service.work(1.15, service.told, "what is told at its end")
        assert [(one["state"], one["alert"], one["again"]) for one in service.told()[:1]] == [
            ("fired", "low-accept", False)
        ]
