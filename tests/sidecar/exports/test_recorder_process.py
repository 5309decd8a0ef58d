"""The recording of a real sidecar process: through kill -9, a limit on file sizes, restarts, and switched off."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.live_log import LiveLog
from tests.e2e.waiting import until
from tests.sidecar.exports.recordings import count, rows
from tests.sidecar.running import Sidecar, decode_line, run, running


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LiveLog]:
    with LiveLog(tmp_path / "server.log") as live:
        yield live


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


def recording_of(folder: Path) -> Path:
    """The one recording in a folder, or what would be one."""
    return next(iter(folder.glob("*.sqlite")), folder / "none.sqlite")


def recorded(folder: Path) -> int:
    return count(recording_of(folder), "samples")


def points(sidecar: Sidecar) -> list[dict[str, object]]:
    found: list[dict[str, object]] = sidecar.get("/v1/history?since=0").json()["points"]
    return found


def test_kill_9_loses_no_committed_batch_and_the_next_start_has_the_history(log: LiveLog, folder: Path) -> None:
    words = ("--log", str(log.path), "--tz", "UTC", "--record", str(folder))
    with running(*words) as first:
        until(lambda: log.work() and recorded(folder) >= 50 and len(points(first)) >= 6, "some seconds on disk")
        safe = recorded(folder)
        shown = points(first)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
    with running(*words) as second:
        back = points(second)
        assert recorded(folder) >= safe
        firm = len(shown) - 3
        assert [(point["at"], point["total_context_tokens"]) for point in back][:firm] == [
            (point["at"], point["total_context_tokens"]) for point in shown
        ][:firm], "all but the last seconds, which were not on disk"
        assert any("which ended 20" in said and "where it was cut off" in said for said in second.said)
        until(lambda: log.work() and recorded(folder) > safe + 20, "further samples in the same recording")
        assert second.end() == 0
    path = recording_of(folder)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "SELECT closed FROM runs ORDER BY run") == [(0,), (1,)]
    lines = [line for (line,) in rows(path, "SELECT source_line FROM samples WHERE source_line > 1 ORDER BY at")]
    assert len(lines) == len(set(lines)), "a line that is read again is not recorded again"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_a_limit_on_file_sizes_is_told_and_everything_else_goes_on(log: LiveLog, folder: Path) -> None:
    with running("--log", str(log.path), "--tz", "UTC", "--record", str(folder)) as sidecar:
        until(lambda: log.work() and recorded(folder) >= 5, "the first samples on disk")
        limit = resource.prlimit(sidecar.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(sidecar.process.pid, resource.RLIMIT_FSIZE, (4096, limit[1]))
        until(lambda: log.work() and any("cannot record" in said for said in sidecar.said), "the sentence")

        def state() -> str | None:
            sources = sidecar.get("/v1/snapshot").json()["sources"]
            return next((each["state"] for each in sources if each["name"] == "recording"), None)

        until(lambda: log.work() and state() == "lost", "the fault among the sources")
        assert 'ddwatch_source_up{source="recording"} 0.0' in sidecar.get("/metrics").text
        assert sidecar.get("/v1/snapshot").json()["now"]["throughput"] == pytest.approx(32.2)
        assert sidecar.get("/readyz").status_code == 200
        resource.prlimit(sidecar.process.pid, resource.RLIMIT_FSIZE, limit)
        until(lambda: log.work() and state() == "up", "the end of the fault")
        assert sidecar.end() == 0
    assert sum("cannot record" in said for said in sidecar.said) == 1
    ats = [at for (at,) in rows(recording_of(folder), "SELECT at FROM samples ORDER BY at")]
    assert max(later - earlier for earlier, later in pairwise(ats)) < 2.0, "the queue held it all"


def test_it_records_by_itself_into_the_state_folder(log: LiveLog, home: Path) -> None:
    folder = Path(os.environ["XDG_STATE_HOME"]) / "ddwatch" / "recordings"
    with running("--log", str(log.path), "--tz", "UTC") as sidecar:
        until(lambda: log.work() and recorded(folder) >= 5, "samples in the state folder")
        assert sidecar.end() == 0
    assert folder.is_relative_to(home)


@pytest.mark.parametrize("words", [("--no-record",), ("--record", "off"), ("--simulated",)])
def test_it_records_nothing_where_it_is_told_not_to_or_nothing_is_real(
    words: tuple[str, ...], log: LiveLog, home: Path
) -> None:
    with running("--log", str(log.path), "--tz", "UTC", *words) as sidecar:
        until(lambda: log.work() and points(sidecar), "a point")
        assert sidecar.end() == 0
    assert list(home.rglob("*.sqlite*")) == []
    assert not any("recording" in said for said in sidecar.said)


def test_a_pipe_without_a_port_of_its_own_is_not_recorded(home: Path) -> None:
    with running("--log", "-", stdin=subprocess.PIPE) as sidecar:
        assert sidecar.process.stdin is not None
        sidecar.process.stdin.write(f"{decode_line(1)}\n")
        sidecar.process.stdin.flush()
        until(lambda: sidecar.get("/v1/snapshot").json()["now"]["at"], "the line")
        assert sidecar.end() == 0
    assert list(home.rglob("*.sqlite*")) == []


def test_one_reading_leaves_no_recording(log: LiveLog, home: Path) -> None:
    log.work(lines=10)
    command = [sys.executable, "-m", "ddwatch.cli", "--log", str(log.path), "--once"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 3
    assert [path for kind in ("*.sqlite*", "alerts") for path in home.rglob(kind)] == []


def test_a_simulation_records_where_it_is_told_to(log: LiveLog, folder: Path) -> None:
    with running("--log", str(log.path), "--simulated", "--record", str(folder)) as sidecar:
        until(lambda: log.work() and recorded(folder) >= 5, "samples")
        assert sidecar.end() == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--record-size", "1"), "--record-size must be a number of MiB from 32 up"),
        (("--record-days", "0"), "--record-days must be a number of days above 0"),
        (("--record", ""), "--record must be a text that is not empty"),
    ],
)
def test_wrong_settings_are_one_sentence(words: tuple[str, ...], says: str, log: LiveLog) -> None:
    result = run("--log", str(log.path), *words)
    assert (result.returncode, says in result.stderr) == (64, True)
