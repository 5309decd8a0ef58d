"""The whole sidecar: a drafter that breaks is told once to a command, and once more when it is well again."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.sidecar.running import running

WRITE = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
LINE = (
    "[2026-05-01 12:00:00 TP0] Decode batch, #running-req: 1, #token: {tokens}, token usage: 0.01, "
    "accept len: {accept:.2f}, accept rate: 0.12, cuda graph: True, "
    "gen throughput (token/s): {rate:.2f}, #queue-req: 0\n"
)
PATIENCE = 30.0


def test_an_incident_of_a_real_watch_reaches_a_real_command(tmp_path: Path) -> None:
    log, told = tmp_path / "sglang.log", tmp_path / "told"
    log.touch()
    command = [part for word in (sys.executable, "-c", WRITE, str(told)) for part in (f"--notify-command={word}",)]

    def written() -> list[str]:
        return [json.loads(line)["state"] for line in told.read_text().splitlines()] if told.exists() else []

    words = ("--log", str(log), "--no-record", "--no-learn", "--no-nvml", "--time-scale", "20", *command)
    with running(*words) as sidecar, log.open("a", encoding="utf-8") as file:

        def decode(accept: float, enough: Callable[[], bool], what: str) -> None:
            deadline, number = time.monotonic() + PATIENCE, 0
            while not enough():
                assert time.monotonic() < deadline, f"{what}: {sidecar.said}"
                for _ in range(3):
                    number += 1
                    file.write(LINE.format(tokens=1000 + number, accept=accept, rate=accept / 0.05))
                file.flush()
                time.sleep(0.02)

        started = time.monotonic()
        decode(5.0, lambda: time.monotonic() > started + 4.0, "some traffic")
        decode(1.15, lambda: written() == ["fired"], "the incident")
        assert 'ddwatch_alerts_total{alert="low-accept"} 1.0' in sidecar.get("/metrics").text
        decode(5.0, lambda: written() == ["fired", "resolved"], "its end")
        assert sidecar.end() == 0
