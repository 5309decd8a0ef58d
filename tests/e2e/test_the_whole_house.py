"""A real SGLang log is written, rotated and truncated; a real sidecar serves it; readers of every kind get the same."""

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import httpx
import pytest

from ddwatch.core import wire
from ddwatch.core.snapshot import Frame, Snapshot
from tests.conftest import ROOT
from tests.e2e.live_log import LiveLog
from tests.e2e.waiting import until
from tests.sidecar.running import Sidecar, running

REAL = ROOT / "tests" / "golden" / "logs" / "real-0.5.23-standalone.log"
"""What a real SGLang 0.5.23 with a draft model wrote."""


def snapshot_of(sidecar: Sidecar) -> Snapshot:
    return wire.decode_snapshot(sidecar.get("/v1/snapshot").content)


def lines_read(sidecar: Sidecar) -> int:
    return sum(source.lines for source in snapshot_of(sidecar).sources)


def reads(sidecar: Sidecar, throughput: float) -> bool:
    """Whether the present reading is this many tokens per second."""
    return snapshot_of(sidecar).now.throughput == pytest.approx(throughput)


def states(sidecar: Sidecar) -> list[str]:
    return [source.state for source in snapshot_of(sidecar).sources]


def metric(sidecar: Sidecar, series: str) -> float | None:
    """The value of one series on the page, None where it has none."""
    for line in sidecar.get("/metrics").text.splitlines():
        name, _, value = line.rpartition(" ")
        if name == series:
            return float(value)
    return None


def events_of(response: httpx.Response) -> Iterator[tuple[int, Frame]]:
    """The frames of a stream with their ids."""
    number = -1
    for line in response.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            yield number, wire.decode_stream(line[6:])


def test_a_real_log_reaches_every_reader_through_rotation_and_truncation(
    tmp_path: Path, needs_command: Callable[[str], Path]
) -> None:
    promtool = needs_command("promtool")
    written = [line + b"\n" for line in REAL.read_bytes().split(b"\n")[:-1]]
    third = len(written) // 3
    with LiveLog(tmp_path / "server.log") as log, running("--log", str(log.path), "--tz", "UTC") as sidecar:
        until(lambda: states(sidecar) == ["waiting"], "the source to wait for its file")
        log.dribble(b"".join(written[:third]), 1000)
        until(lambda: lines_read(sidecar) == third, "the first third")

        log.rename()
        log.write(written[third])
        log.reopen()
        log.dribble(b"".join(written[third + 1 : 2 * third]), 777)
        until(lambda: lines_read(sidecar) == 2 * third, "the second third, one line of it late in the old file")
        assert metric(sidecar, 'ddwatch_log_rotations_total{source="log"}') == 1
        assert metric(sidecar, 'ddwatch_log_gaps_total{source="log"}') in (None, 0)

        log.copytruncate()
        until(lambda: metric(sidecar, 'ddwatch_log_gaps_total{source="log"}') == 1, "the truncation to be a gap")
        log.write(b"".join(written[2 * third :]))
        until(lambda: lines_read(sidecar) == len(written), "the last third")
        until(
            lambda: log.work(32.2) and reads(sidecar, 32.2),
            "the newest reading",
            seen=lambda: str(snapshot_of(sidecar).now),
        )
        until(lambda: lines_read(sidecar) == len(written) + log.count, "the last line")

        page = sidecar.get("/metrics").text
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=30, check=False
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
        assert metric(sidecar, 'ddwatch_lines_read_total{source="log"}') == len(written) + log.count
        assert metric(sidecar, 'ddwatch_source_up{source="log"}') == 1
        assert metric(sidecar, 'ddwatch_throughput_tokens_per_second{dp_rank=""}') == pytest.approx(32.2)

        snapshot = snapshot_of(sidecar)
        assert snapshot.server.state == "ready"
        assert snapshot.server.model is not None
        (source,) = snapshot.sources
        assert (source.state, source.unread, source.rotations, source.gaps) == ("up", 0, 1, 1)

        history, seq = wire.decode_history(sidecar.get("/v1/history").content)
        assert {"start", "ready", "rotation", "gap"} <= {event.kind for event in history.events}
        assert [point.state for point in history.points].count("gap") >= 1
        later, _ = wire.decode_history(sidecar.get(f"/v1/history?since={seq}").content)
        assert min([point.seq for point in later.points] + [event.seq for event in later.events], default=seq + 1) > seq
        assert sidecar.end() == 0
    assert not [line for line in sidecar.said if "Traceback" in line]


def test_a_stream_is_resumed_where_it_was_left(tmp_path: Path) -> None:
    with LiveLog(tmp_path / "server.log") as log, running("--log", str(log.path), "--tz", "UTC") as sidecar:
        until(lambda: log.work() and reads(sidecar, 32.2), "the first reading")
        with httpx.stream("GET", f"{sidecar.url}/v1/stream", timeout=20, trust_env=False) as response:
            told = islice(events_of(response), 30)
            last = next(number for number, frame in told if frame.history.points or frame.history.events)
        log.work(lines=7)
        log.rotate()
        log.work()
        until(lambda: snapshot_of(sidecar).sources[0].rotations == 1, "the rotation")
        until(lambda: lines_read(sidecar) == log.count, "the next lines")
        headers = {"Last-Event-ID": str(last)}
        with httpx.stream("GET", f"{sidecar.url}/v1/stream", headers=headers, timeout=20, trust_env=False) as response:
            number, frame = next(events_of(response))
        seqs = [point.seq for point in frame.history.points] + [event.seq for event in frame.history.events]
        assert seqs
        assert last < min(seqs) <= max(seqs) <= number
        assert "rotation" in {event.kind for event in frame.history.events}
        assert frame.history.complete


def test_history_that_stood_in_the_log_before_is_served_at_its_own_time(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(REAL.read_bytes())
    with running("--log", str(path), "--tz", "UTC") as sidecar:
        until(lambda: lines_read(sidecar) == REAL.read_bytes().count(b"\n"), "the whole log")
        history, _ = wire.decode_history(sidecar.get("/v1/history").content)
        starts = [wire.iso(event.at) for event in history.events if event.kind == "start"]
        line = next(line for line in REAL.read_text(encoding="utf-8").splitlines() if "server_args=" in line)
        assert [start[:19] for start in starts] == [line[1:20].replace(" ", "T")]
        assert json.loads(sidecar.get("/v1/snapshot").content)["stamped"] is True


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/v1/snapshot", "/v1/history"])
def test_a_directory_for_a_log_is_told_by_every_page_and_ends_nothing(tmp_path: Path, path: str) -> None:
    with running("--log", str(tmp_path)) as sidecar:
        until(lambda: states(sidecar) == ["lost"], "the source to be lost")
        assert sidecar.get(path).status_code in (200, 503)
        assert "is a directory; name the log file in it" in snapshot_of(sidecar).sources[0].detail
        assert metric(sidecar, 'ddwatch_source_up{source="log"}') == 0
        assert sidecar.process.poll() is None
