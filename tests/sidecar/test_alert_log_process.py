"""The whole sidecar, killed while an incident lasts: the next one goes on with it, and nobody is told a second time."""

import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from ddwatch.core.alert_view import AlertView
from ddwatch.core.exits import CommandFailed
from ddwatch.core.wire import decode_snapshot
from ddwatch.feeds.recording import open_recording
from tests.e2e.waiting import until
from tests.fakes.sglang_port import SglangPort, sglang_port
from tests.sidecar.running import Sidecar, running
from tests.sidecar.test_telling_process import WRITE


def down(sidecar: Sidecar) -> AlertView | None:
    alerts = decode_snapshot(sidecar.get("/v1/snapshot").content).alerts
    return next((alert for alert in alerts if alert.name == "down"), None)


def kept(folder: Path) -> bool:
    """Whether the incident has reached the disk."""
    try:
        with open_recording(str(folder)) as recording:
            last = recording.snapshot(4e9)
            return last is not None and any(alert.name == "down" for alert in last.alerts)
    except CommandFailed:
        return False


def test_an_incident_outlives_its_sidecar(tmp_path: Path) -> None:
    told, folder = tmp_path / "told", tmp_path / "kept"

    def states() -> list[str]:
        return [json.loads(line)["state"] for line in told.read_text().splitlines()] if told.exists() else []

    port = SglangPort()
    port.run(30, 0.065)
    with ExitStack() as serving:
        serving.enter_context(sglang_port(port))
        words = ["--sglang-url", port.url, "--record", str(folder), "--no-nvml", "--no-learn"]
        words += [f"--notify-command={word}" for word in (sys.executable, "-c", WRITE, str(told))]
        with running(*words) as first:
            until(lambda: decode_snapshot(first.get("/v1/snapshot").content).server.version, "the port")
            serving.close()
            until(lambda: down(first), "the incident", seen=lambda: first.get("/v1/snapshot").text)
            until(lambda: states() == ["fired"] and kept(folder), "the message and the recording")
            before = down(first)
            first.end(signal.SIGKILL)
    with running(*words) as second:
        until(lambda: down(second), "the same incident", seen=lambda: second.get("/v1/snapshot").text)
        after = down(second)
        assert before is not None and after is not None
        assert (after.incident, after.state) == (before.incident, "firing")
        assert abs(after.began_at - before.began_at) < 0.01
        assert 'ddwatch_alerts_total{alert="down"}' not in second.get("/metrics").text
        assert second.end() == 0
    assert states() == ["fired"]
