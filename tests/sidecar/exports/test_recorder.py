"""What the watch saw is on disk soon after, once, private, and comes back after a restart."""

import json
import stat
import zlib
from pathlib import Path

import pytest
from ddwatch_sidecar.exports.recorder import SNAPSHOT_SECONDS, recording_name
from msgspec.structs import replace

from ddwatch.core.hardware import GpuCard, GpuReading
from ddwatch.core.records import Gap, RequestDone, ServerInfo, ServerStart
from ddwatch.core.snapshot import Sample
from ddwatch.core.wire import decode_snapshot
from tests.sidecar.exports.recordings import START, Watch, count, decode, rows, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "service.sqlite"


def test_samples_points_and_verdicts_are_recorded_while_it_runs(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    watch.run(30)
    until(lambda: count(path, "samples") == 60, "the samples")

    assert count(path, "points") == 29, "the second that runs has no point yet"
    first, *others = rows(path, "SELECT flags, clean, throughput, step_seconds, provenance FROM samples")
    assert first == ("first", 0, 100.0, 0.05, "log")
    assert set(others) == {("", 1, 100.0, 0.05, "log")}
    held = rows(path, "SELECT verdict FROM verdicts ORDER BY at")
    assert ("learning",) in held and held[-1] == (watch.monitor.at(watch.now).verdict.name,)
    watch.end()


def test_files_and_folder_are_private(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    watch.run(3)
    until(lambda: count(path, "samples") == 6, "the samples")

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(modes) == 4 and set(modes.values()) == {0o600}, modes
    watch.end()


def test_a_restart_gives_the_screen_its_history_back(folder: Path) -> None:
    first = Watch(folder)
    first.start()
    first.run(60)
    first.see([Gap(at=first.now, source="log", reason="truncated", detail="the log was truncated")])
    first.end()
    kept = first.monitor.history()

    second = Watch(folder, now=first.now + 120)
    past = second.start()

    assert past is not None and past.ended_at == first.now and past.closed
    back = second.monitor.history()
    assert [event.text for event in back.events] == [event.text for event in kept.events] != []
    assert [(p.at, p.state, p.throughput) for p in back.points][: len(kept.points)] == [
        (p.at, p.state, p.throughput) for p in kept.points
    ]
    assert back.points[-1].state == "gap", "the time between is marked"
    seqs = sorted([point.seq for point in back.points] + [event.seq for event in back.events])
    assert seqs == list(range(1, len(seqs) + 1))
    assert "which ended 2026-" in second.told[-1]
    second.end()


def test_a_restart_gives_the_alert_log_back(folder: Path) -> None:
    first = Watch(folder)
    first.start()
    first.run(20)
    for silence in (100, 101):
        first.now += silence
        first.see([])
    before = first.monitor.at(first.now).alerts
    assert [(alert.name, alert.state) for alert in before] == [("blind", "firing")]
    first.end()

    second = Watch(folder, now=first.now + 600)
    past = second.start()
    assert past is not None and past.alerts == before
    assert second.monitor.at(second.now).alerts[0].incident == before[0].incident
    assert second.monitor.tallies().alerts == {}
    second.end()


def test_a_log_that_is_read_again_is_not_recorded_twice(folder: Path, path: Path) -> None:
    lines = [decode(START + 0.5 * number) for number in range(120)]
    first = Watch(folder)
    first.start()
    first.see(lines[:80])
    first.end()
    before = first.monitor.history().points

    second = Watch(folder, now=START + 300)
    second.start()
    second.see(lines)
    second.end()

    assert count(path, "samples") == 120, (
        "what happened while the sidecar was away was in the log, and only that is new"
    )
    ats = [at for (at,) in rows(path, "SELECT at FROM points WHERE state = 'data'")]
    assert len(ats) == len(set(ats)) == 60 - 2, "without the second that was cut in two, and the one that runs"
    shown = [point.at for point in second.monitor.history().points if point.state == "data"]
    assert shown == sorted(set(shown)) and len(shown) > len(before)


def test_guesses_about_the_past_are_not_recorded(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    watch.see([decode(START - 10 + number) for number in range(5)], estimated=True)
    watch.see([decode(START + number) for number in range(5)])
    watch.end()

    assert count(path, "samples") == 5


def test_a_newer_wording_of_an_event_replaces_the_older(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    for number in range(3):
        watch.see([Gap(at=START + number, source="log", reason="lost", detail="lines were lost")])
    event = watch.monitor.history().events[-1]
    watch.end()

    texts = rows(path, "SELECT text, count FROM events ORDER BY at")
    assert texts == [(each.text, each.count) for each in watch.monitor.history().events]
    assert event.text == "lines were lost"


def test_the_setup_is_recorded_by_allow_list_only(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    start = ServerStart(at=START, arguments={"model_path": "a/model", "tp_size": 8}, withheld={"api_key": "3f9a"})
    info = ServerInfo(at=START + 1, source="sglang", arguments={"tp_size": 8}, version="0.5.18")
    watch.see([start, info, ServerInfo(at=START + 2, source="sglang", arguments={"tp_size": 8}, version="0.5.18")])
    watch.end()

    said = rows(path, "SELECT kind, version, arguments, withheld FROM server")
    assert [(kind, version, json.loads(a), json.loads(w)) for kind, version, a, w in said] == [
        ("start", None, {"model_path": "a/model", "tp_size": 8}, ["api_key"]),
        ("info", "0.5.18", {"tp_size": 8}, []),
    ]
    assert b"3f9a" not in path.read_bytes()


def test_finished_requests_are_recorded_by_their_numbers(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    done = RequestDone(at=START, prompt_tokens=10, completion_tokens=20, latency_seconds=1.5, finish_reason="stop")
    watch.see([done, done])
    watch.see([RequestDone(at=START + 1, prompt_tokens=9, completion_tokens=40, first_token_seconds=0.5)])
    watch.end()

    told = "prompt_tokens, completion_tokens, cached_tokens, latency_seconds, throughput, whole, verdict, reason"
    assert rows(path, f"SELECT {told} FROM requests") == [
        (10, 20, None, 1.5, pytest.approx(13.333), 1, "unjudged", "with queue and prefill"),
        (9, 40, None, None, None, 0, "unjudged", "its time is not told"),
    ]


def test_finished_requests_are_there_again_after_a_restart(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    done = RequestDone(at=START, prompt_tokens=10, completion_tokens=20, latency_seconds=1.5, finish_reason="stop")
    watch.see([done])
    before = watch.monitor.history().requests
    watch.end()

    again = Watch(folder)
    again.start()
    again.see([done])
    (request,) = again.monitor.history().requests
    again.end()
    assert request.throughput == pytest.approx(before[0].throughput, abs=0.001)
    assert request == replace(before[0], seq=request.seq, throughput=request.throughput)
    assert rows(path, "SELECT count(*) FROM requests") == [(1,)]


def test_cards_are_recorded_every_five_seconds(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    cards = (
        GpuCard(index=0, uuid="GPU-a", power_watts=412.5, sm_clock_hertz=2.4e9, reasons=4, memory_used_bytes=2**36),
        GpuCard(index=1, lost="fell off the bus"),
    )
    watch.see([GpuReading(at=START + second, cards=cards) for second in range(11)])
    watch.end()

    seen = rows(path, "SELECT gpu, uuid, lost, power_watts, sm_clock_hertz, reasons, memory_used_bytes FROM gpu")
    assert (
        seen
        == [
            (0, "GPU-a", None, 412.5, 2_400_000_000, 4, 2**36),
            (1, None, "fell off the bus", None, None, None, None),
        ]
        * 3
    )


def test_a_snapshot_is_kept_now_and_then_and_whenever_something_changes(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    watch.run(60)
    watch.end()

    kept = rows(path, "SELECT at, document FROM snapshots ORDER BY at")
    shown = [decode_snapshot(zlib.decompress(document)) for _, document in kept]
    assert 60 / SNAPSHOT_SECONDS <= len(shown) <= 60 / SNAPSHOT_SECONDS + 4
    assert [snapshot.at for snapshot in shown] == [pytest.approx(at, abs=0.001) for at, _ in kept]
    assert shown[-1].now.throughput == 100.0


def test_equal_times_get_a_microsecond_each_and_stay_in_order(folder: Path, path: Path) -> None:
    watch = Watch(folder)
    watch.start()
    watch.see([decode(START, 100 + number) for number in range(5)])
    until(lambda: count(path, "samples") == 5, "the first five")
    watch.see([decode(START, 200 + number) for number in range(5)])
    watch.end()

    tokens = [each for (each,) in rows(path, "SELECT total_context_tokens FROM samples ORDER BY at")]
    assert tokens == [100, 101, 102, 103, 104, 200, 201, 202, 203, 204]


def test_every_sample_is_drained_once() -> None:
    from ddwatch.core.monitor import Monitor
    from ddwatch.core.traffic import DRAIN_SAMPLES

    monitor = Monitor(started_at=START)
    for number in range(10):
        monitor.accept(decode(START + number))

    drained: list[Sample] = monitor.drain()
    assert [each.at - START for each in drained] == list(range(10))
    assert monitor.drain() == []
    for number in range(DRAIN_SAMPLES + 10):
        monitor.accept(decode(START + 10 + number))
    assert len(monitor.drain()) == DRAIN_SAMPLES, "bounded where nobody drains"


class TestNames:
    def test_the_same_log_has_the_same_name_whatever_the_port(self, tmp_path: Path) -> None:
        log = str(tmp_path / "a log.txt")
        assert recording_name([log], None, 1) == recording_name([log], None, 2)
        assert recording_name([log], None, 1).startswith("a-log.txt-")

    def test_other_logs_of_the_same_name_have_other_names(self, tmp_path: Path) -> None:
        one, other = (recording_name([str(tmp_path / part / "x.log")], None, 1) for part in "ab")
        assert one != other

    def test_standard_input_goes_by_its_port(self) -> None:
        assert recording_name(["-"], None, 9477).startswith("standard-input-9477-")
        assert recording_name(["-"], None, 1) != recording_name(["-"], None, 2)

    def test_an_address_alone_is_a_name(self) -> None:
        assert recording_name([], "http://127.0.0.1:30000", 1).startswith("127.0.0.1-30000-")

    def test_no_name_leaves_the_folder_or_hides(self) -> None:
        for odd in ("../../etc/passwd", "/tmp/.hidden", "/", "/tmp/" + "x" * 300, "/tmp/\udcff"):
            name = recording_name([odd], None, 1)
            assert "/" not in name and not name.startswith(".") and len(name) < 80 and name.isascii()
