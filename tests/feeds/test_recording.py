"""A recording plays what was seen while it was made: points, events and verdicts, from any place, at any speed."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ddwatch.core.engine import ForwardPass
from ddwatch.core.exits import CommandFailed
from ddwatch.core.recording import SCHEMA_VERSION
from ddwatch.core.records import Gap, SourceFault, SourceUp
from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.feeds.contract import Feed
from ddwatch.feeds.recording import ROWS_AT_ONCE, gap_at, is_recording, open_recording, recording_in
from ddwatch.feeds.recording_tape import FRAME_SECONDS, RecordingFeed, Tape
from tests.fakes.clock import Clock
from tests.sidecar.exports.recordings import START, Watch, decode

AWAY = 600.0
"""Seconds between the first and the second run."""
SECONDS = 120


class Made:
    """A recording of two runs, and what the watches showed while it was made."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "service.sqlite"
        self.shown: list[Snapshot] = []
        first = Watch(folder)
        first.start()
        self._run(first)
        first.see([Gap(at=first.now, source="log", reason="truncated", detail="the log was truncated")])
        first.end()
        self.first = first.monitor.history()
        self.ended_at = first.now
        second = Watch(folder, now=first.now + AWAY)
        second.start()
        self._run(second)
        second.end()
        self.second = second.monitor.history()
        self.last_at = second.now

    def _run(self, watch: Watch) -> None:
        start = watch.now
        watch.see([SourceUp(at=start, source="log")])
        for second in range(SECONDS):
            watch.see([decode(start + second + 0.1 * number, 4000 + 10 * second) for number in range(5)])
            self.shown.append(watch.monitor.at(watch.now))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("recordings"))


class Player:
    """Takes one frame after another while the test moves the clock between them."""

    def __init__(self, path: Path, speed: float = 10.0, start: float = 0.0) -> None:
        self.clock = Clock()
        with open_recording(str(path)) as recording:
            bounds = recording.bounds()
        assert bounds is not None
        self.began_at, self.ended_at = bounds
        self.feed = RecordingFeed(
            lambda: open_recording(str(path)),
            origin="service.sqlite",
            bounds=bounds,
            speed=speed,
            start=start,
            clock=self.clock.monotonic,
            rest=lambda seconds: None,
        )
        self.items: Iterator[Frame | SourceFault] = self.feed.frames()

    def frame(self, after: float = 0.0) -> Frame:
        self.clock.advance(after)
        item = next(self.items)
        assert isinstance(item, Frame)
        return item

    def frames(self, step: float = FRAME_SECONDS) -> list[Frame]:
        """All frames up to the end."""
        found = [self.frame()]
        while found[-1].snapshot.at < self.ended_at:
            assert len(found) < 10_000
            found.append(self.frame(step))
        return found


class TestReading:
    def test_every_sample_comes_back_in_order_a_page_at_a_time(self, tmp_path: Path) -> None:
        watch = Watch(tmp_path, commit_seconds=0.001)
        watch.start()
        total = 2 * ROWS_AT_ONCE + 17
        for start in range(0, total, 500):
            watch.see([decode(START + 0.001 * n, 100 + n) for n in range(start, min(start + 500, total))])
        watch.end()
        with open_recording(str(tmp_path / "service.sqlite")) as recording:
            tokens = [sample.total_context_tokens for sample in recording.samples()]
        assert tokens == list(range(100, 100 + total))

    def test_points_and_events_are_those_of_the_watches(self, made: Made) -> None:
        with open_recording(str(made.path)) as recording:
            points = list(recording.points())
            events = list(recording.events())
        data = [point for point in points if point.state == "data"]
        seen = [point for point in (*made.first.points, *made.second.points) if point.state == "data"]
        expected = sorted({(p.at, p.total_context_tokens) for p in seen})
        assert [(p.at, p.total_context_tokens) for p in data] == expected
        assert [p.throughput for p in data] == pytest.approx([100.0] * len(data))
        assert "the log was truncated" in [event.text for event in events]

    def test_bounds_are_open_below_and_closed_above(self, made: Made) -> None:
        with open_recording(str(made.path)) as recording:
            found = [sample.at for sample in recording.samples(START + 1.0, START + 2.0)]
        assert found == pytest.approx([START + 1.1, START + 1.2, START + 1.3, START + 1.4, START + 2.0])

    def test_runs_tell_when_nobody_was_there(self, made: Made) -> None:
        with open_recording(str(made.path)) as recording:
            runs = recording.runs()
        times = [at for run in runs for at in (run.began_at, run.ended_at)]
        assert times == pytest.approx([START, made.ended_at, made.ended_at + AWAY, made.last_at])
        assert all(run.closed for run in runs)
        assert gap_at(runs, made.ended_at + 5) == (runs[0].ended_at, runs[1].began_at)
        assert gap_at(runs, START + 5) is gap_at(runs, made.last_at + 5) is gap_at(runs, START - 5) is None

    def test_a_folder_means_its_newest_recording(self, made: Made) -> None:
        assert recording_in(str(made.path.parent)) == made.path
        assert is_recording(str(made.path.parent)) and is_recording(str(made.path))

    def test_a_recording_that_is_being_written_can_be_read(self, tmp_path: Path) -> None:
        watch = Watch(tmp_path)
        watch.start()
        watch.run(10)
        with open_recording(str(tmp_path / "service.sqlite")) as recording:
            first = recording.bounds()
            watch.run(10)
            watch.end()
            assert first is None or first[1] <= START + 10
            last = recording.bounds()
            assert last is not None and last == pytest.approx((START, START + 19.5))


class TestRefusals:
    def sentence(self, path: Path) -> str:
        with pytest.raises(CommandFailed) as failed:
            open_recording(str(path)).close()
        assert failed.value.code == 66
        return failed.value.sentence

    def test_what_is_no_recording(self, tmp_path: Path) -> None:
        log = tmp_path / "a.log"
        log.write_text("a line\n" * 300)
        empty = tmp_path / "empty"
        empty.write_text("")
        other = tmp_path / "other.db"
        with closing(sqlite3.connect(other)) as database:
            database.execute("CREATE TABLE theirs (x)")

        assert not is_recording(str(log)) and not is_recording(str(tmp_path / "nothing")) and not is_recording("\0")
        assert self.sentence(tmp_path / "nothing").startswith("there is no file ")
        assert self.sentence(empty).endswith("empty is empty")
        assert self.sentence(log).endswith("a.log is damaged: file is not a database")
        assert self.sentence(other).endswith("other.db is a database, but no recording of ddwatch")
        assert self.sentence(tmp_path).startswith("there is no recording (*.sqlite) in ")

    @pytest.mark.parametrize(("change", "advice"), [(3, "update ddwatch"), (-1, "let a sidecar of this version")])
    def test_another_schema_is_named(self, tmp_path: Path, change: int, advice: str) -> None:
        watch = Watch(tmp_path)
        watch.start()
        watch.end()
        path = tmp_path / "service.sqlite"
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + change}")
        said = self.sentence(path)
        assert f"recording schema {SCHEMA_VERSION + change} and this ddwatch reads {SCHEMA_VERSION}: {advice}" in said

    def test_damage_further_on_ends_with_a_sentence_after_what_could_be_read(self, made: Made, tmp_path: Path) -> None:
        data = bytearray(made.path.read_bytes())
        half = len(data) // 2
        data[half:] = bytes(byte ^ 0x5A for byte in data[half:])
        broken = tmp_path / "broken.sqlite"
        broken.write_bytes(data)
        with pytest.raises(CommandFailed, match="damaged"), open_recording(str(broken)) as recording:
            for table in (recording.samples, recording.points, recording.events, recording.verdicts):
                list(table())
            recording.snapshot(math.inf)


class TestPlaying:
    def test_it_is_a_feed(self, made: Made) -> None:
        feed: Feed = Player(made.path).feed
        assert feed.origin == "service.sqlite" and feed.controls is not None
        feed.close()
        assert list(feed.frames()) == []

    def test_the_frames_show_what_the_watch_showed(self, made: Made) -> None:
        with open_recording(str(made.path)) as recording:
            tape = Tape(recording)
            for shown in made.shown[::7]:
                played = tape.frame(shown.at).snapshot
                assert played.verdict.name == shown.verdict.name
                assert played.server == shown.server and played.sources == shown.sources
                assert played.now.throughput == pytest.approx(shown.now.throughput, rel=0.01)
                assert played.now.batch == shown.now.batch
                assert played.ranks[0].sample.total_context_tokens == pytest.approx(
                    shown.ranks[0].sample.total_context_tokens, abs=30
                )

    def test_history_grows_with_rising_numbers_and_holds_the_past_of_both_runs(self, made: Made) -> None:
        frames = Player(made.path, speed=20).frames()
        ats = [frame.snapshot.at for frame in frames]
        assert ats == sorted(ats) and ats[0] == START and ats[-1] == pytest.approx(made.last_at)
        last = frames[-1].history
        seqs = sorted([point.seq for point in last.points] + [event.seq for event in last.events])
        assert seqs == sorted(set(seqs)) and seqs[-1] == frames[-1].snapshot.seq
        assert len([point for point in last.points if point.state == "data"]) >= 2 * (SECONDS - 2)
        assert [len(frame.history.points) for frame in frames] == sorted(len(f.history.points) for f in frames)

    def test_any_way_to_a_moment_shows_the_same(self, made: Made) -> None:
        def content(frame: Frame) -> object:
            return frame.snapshot, frame.history.points, frame.history.events

        moments = [START + 30.3, START + 90.7, made.ended_at + 10, made.last_at - 20.2, START + 5.0]
        for moment in moments:
            with open_recording(str(made.path)) as recording:
                jumped, crept = Tape(recording), Tape(recording)
                at = START
                while at < moment:
                    crept.frame(at)
                    at += 3.7
                assert content(crept.frame(moment)) == content(jumped.frame(moment)), moment - START

    def test_the_time_without_a_sidecar_is_blind_and_hurried_through(self, made: Made) -> None:
        player = Player(made.path, speed=1.0, start=SECONDS)
        frames = [player.frame()]
        while frames[-1].snapshot.at < made.ended_at + AWAY:
            frames.append(player.frame(FRAME_SECONDS))
        assert len(frames) < 40, "ten minutes in a second or two"
        away = [frame.snapshot for frame in frames if 30 < frame.snapshot.at - made.ended_at < AWAY - 1]
        assert {snapshot.verdict.name for snapshot in away} == {"blind"}
        assert [point.at for point in frames[-1].history.points if point.state == "gap"][-1] >= made.ended_at
        assert "nothing was recorded for 10 min" in away[0].verdict.sentence
        assert away[0].now.throughput is None and away[0].ratio is None

    def test_speed_pause_and_seek(self, made: Made) -> None:
        player = Player(made.path, speed=10.0)
        controls = player.feed.controls
        assert player.frame().snapshot.at == START
        assert player.frame(1.0).snapshot.at == START + 10
        controls.toggle_pause()
        assert player.frame(5.0).snapshot.at == START + 10
        controls.seek(40)
        assert player.frame(0.1).snapshot.at == START + 50
        controls.seek(-1e9)
        back = player.frame(0.1)
        assert back.snapshot.at == START and len(back.history.points) <= 1
        controls.seek(1e9)
        assert player.frame().snapshot.at == pytest.approx(made.last_at)
        assert controls.duration == pytest.approx(made.last_at - START)

    def test_flat_out_ends_soon(self, made: Made) -> None:
        assert len(Player(made.path, speed=math.inf).frames()) <= 3

    def test_figures_from_before_the_watch_have_no_verdict(self, tmp_path: Path) -> None:
        watch = Watch(tmp_path, now=START + 1000)
        watch.start()
        watch.see([decode(START + second) for second in range(60)])
        watch.end()
        player = Player(tmp_path / "service.sqlite", start=30.0)
        frame = player.frame()
        assert frame.snapshot.at == START + 30 and frame.snapshot.verdict.name == "blind"
        assert "read from the log later" in frame.snapshot.verdict.sentence
        assert frame.history.points[-1].at == START + 30

    def test_a_file_that_is_gone_is_a_fault(self, made: Made) -> None:
        player = Player(made.path)
        lost = RecordingFeed(lambda: open_recording("nowhere.sqlite"), origin="x", bounds=(0.0, 1.0))
        (fault,) = lost.frames()
        assert isinstance(fault, SourceFault) and fault.reason == "there is no file nowhere.sqlite"
        player.feed.close()


def test_forward_passes_are_kept_and_are_no_steps(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.start()
    start = watch.now
    passes = [
        ForwardPass(
            at=start + 0.1 * n, dp_rank=0, counter=n, seconds=0.02, decode_requests=1, decode_context_tokens=900
        )
        for n in range(10)
    ]
    watch.see([decode(start, 4000), *passes, decode(start + 1.0, 4010)])
    watch.end()
    with open_recording(str(tmp_path)) as recording:
        every = list(recording.samples(spans=True))
        assert [sample.span for sample in every].count("forward") == 10
        assert [sample.provenance for sample in recording.samples()] == ["log", "log"]
        assert sum(count for _, count in recording.flag_counts(start - 1)) == 2
        passed = next(sample for sample in every if sample.span == "forward")
        assert (passed.provenance, passed.step_seconds, passed.total_context_tokens) == ("fpm", 0.02, 900)
