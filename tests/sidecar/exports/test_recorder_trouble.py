"""A recording in a bad world (full, damaged, foreign, newer, locked, read-only, gone, held open): the watch goes on."""

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ddwatch_sidecar.exports.recording_file import Limits, RecordingFile
from ddwatch_sidecar.exports.recording_opening import ASIDE_KEPT, Unrecordable, connected, put_aside

from ddwatch.core.monitor import Monitor
from ddwatch.core.recording import APPLICATION_ID, SCHEMA_VERSION
from ddwatch.core.records import SourceFault, SourceUp
from tests.sidecar.exports.recordings import PATIENCE, START, Watch, count, decode, opened, rows, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "service.sqlite"


def filled(folder: Path, seconds: int = 30) -> None:
    """A recording that ended in order."""
    watch = Watch(folder)
    watch.start()
    watch.run(seconds)
    watch.end()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 384 KiB; only root may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = shutil.which("mount") is not None and os.geteuid() == 0
    command = ["mount", "-t", "tmpfs", "-o", "size=384k", "tmpfs", str(place)]
    if not mounted or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk; the limit on file sizes is tested beside it")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


class TestAFullDisk:
    def test_it_is_one_sentence_and_recording_goes_on_when_there_is_room(self, small_disk: Path) -> None:
        ballast = small_disk / "ballast"
        watch = Watch(small_disk)
        watch.start()
        watch.run(5)
        path = small_disk / "service.sqlite"
        until(lambda: count(path, "samples") == 10, "the first samples")
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 512)

        told = len(watch.told)
        watch.run(100, per_second=10)
        until(lambda: any("full" in each for each in watch.told[told:]), "the sentence")
        (fault,) = watch.recorder.faults()
        assert isinstance(fault, SourceFault) and fault.source == "recording"
        assert fault.reason == "cannot record: the disk is full; ddwatch goes on trying"
        assert watch.monitor.at(watch.now).now.throughput == pytest.approx(100.0), "nothing else suffers"

        ballast.unlink()
        until(lambda: "records again" in watch.told[-1], "room")
        assert sum("full" in each for each in watch.told) == 1, "told once"
        (back,) = watch.recorder.faults()
        assert isinstance(back, SourceUp)
        watch.end()
        assert count(path, "samples") == 10 + 1000, "the queue held what the disk did not"

    def test_what_does_not_fit_into_the_queue_is_counted(self, small_disk: Path) -> None:
        watch = Watch(small_disk, queue_items=50)
        watch.start()
        (small_disk / "ballast").write_bytes(b"x" * 200_000)
        until(lambda: watch.told, "the start")
        watch.run(500, per_second=10)
        until(lambda: watch.recorder.dropped > 0, "the queue to run over")
        (small_disk / "ballast").unlink()
        watch.end()
        assert watch.recorder.dropped > 0


class TestADamagedFile:
    def damage(self, path: Path) -> None:
        """Flips bytes in every page but the first, as a failing disk does."""
        data = bytearray(path.read_bytes())
        for place in range(4096, len(data), 512):
            data[place : place + 64] = bytes(byte ^ 0xA5 for byte in data[place : place + 64])
        path.write_bytes(data)

    def test_it_is_kept_aside_and_told_and_a_new_one_begins(self, folder: Path, path: Path) -> None:
        filled(folder)
        self.damage(path)
        broken = path.read_bytes()

        watch = Watch(folder, now=START + 100)
        watch.start()
        watch.run(5)
        watch.end()

        (aside,) = [file for file in folder.iterdir() if ".damaged-" in file.name]
        assert aside.read_bytes() == broken
        assert any(aside.name in sentence for sentence in watch.told)
        assert count(path, "samples") == 10

    @pytest.mark.parametrize("content", [b"no database at all" * 400, b"SQLite format 3\0" + b"\xff" * 4080])
    def test_a_file_that_is_no_database_is_kept_aside(self, folder: Path, path: Path, content: bytes) -> None:
        folder.mkdir()
        path.write_bytes(content)
        watch = Watch(folder)
        watch.start()
        watch.run(2)
        watch.end()

        assert [file.read_bytes() for file in folder.glob("*.damaged-*")] == [content]
        assert count(path, "samples") == 4

    def test_damage_that_shows_while_it_runs_costs_nothing_new(self, folder: Path, path: Path) -> None:
        watch = Watch(folder)
        watch.start()
        watch.run(60, per_second=20)
        until(lambda: count(path, "samples") == 1200, "the samples")
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.damage(path)
        watch.run(20)
        until(lambda: list(folder.glob("*.damaged-*")), "the damage to be seen")
        until(lambda: count(path, "samples") >= 20, "the new recording")
        watch.end()
        assert any("damaged" in sentence for sentence in watch.told)


class TestOtherVersions:
    def test_a_newer_schema_is_refused_with_its_version_and_left_alone(self, folder: Path, path: Path) -> None:
        filled(folder)
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 7}")
        before = path.read_bytes()

        watch = Watch(folder)
        assert watch.start() is None
        watch.run(2)
        (fault,) = watch.recorder.faults()
        watch.end()

        assert isinstance(fault, SourceFault)
        assert fault.reason == (
            f"service.sqlite has recording schema {SCHEMA_VERSION + 7} and this ddwatch writes {SCHEMA_VERSION}: "
            "update ddwatch, or move the file away"
        )
        assert path.read_bytes() == before

    def test_an_older_schema_is_migrated(self, folder: Path, path: Path) -> None:
        filled(folder)
        with closing(sqlite3.connect(path)) as database:
            database.execute("DROP VIEW gpu")
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        told: list[str] = []
        way = {SCHEMA_VERSION - 1: "CREATE VIEW gpu AS SELECT gpu FROM stored_gpu"}

        with closing(connected(path, START, told.append, way)) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
            assert database.execute("SELECT count(*) FROM gpu").fetchone() == (0,)
            assert database.execute("SELECT count(*) FROM samples").fetchone() == (60,)
        assert told == []

    def test_a_migration_that_fails_changes_nothing(self, folder: Path, path: Path) -> None:
        filled(folder)
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        way = {SCHEMA_VERSION - 1: "DROP VIEW samples;\nSELECT * FROM nowhere"}

        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            connected(path, START, lambda _: None, way)
        assert rows(path, "PRAGMA user_version") == [(SCHEMA_VERSION - 1,)]
        assert count(path, "samples") == 60

    def test_an_older_schema_without_a_way_is_kept_aside(self, folder: Path, path: Path) -> None:
        filled(folder)
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        watch = Watch(folder)
        watch.start()
        watch.end()

        assert len(list(folder.glob(f"*.schema-{SCHEMA_VERSION - 1}-*"))) == 1
        assert "a new one begins" in watch.told[0]

    def test_a_database_of_another_program_is_kept_aside(self, folder: Path, path: Path) -> None:
        folder.mkdir()
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE theirs (x)")
        watch = Watch(folder)
        watch.start()
        watch.end()

        (aside,) = folder.glob("*.foreign-*")
        assert rows(aside, "SELECT name FROM sqlite_master") == [("theirs",)]
        assert rows(path, "PRAGMA application_id") == [(APPLICATION_ID,)]

    def test_only_a_few_of_those_are_kept(self, folder: Path, path: Path) -> None:
        folder.mkdir()
        for number in range(5):
            path.write_bytes(b"x")
            put_aside(path, "damaged", START + number)
        assert len(list(folder.iterdir())) == ASIDE_KEPT


class TestSeveralAtOnce:
    def test_a_second_sidecar_records_elsewhere_and_says_so(self, folder: Path) -> None:
        first, second = Watch(folder), Watch(folder)
        first.start()
        second.start()
        first.run(2)
        second.run(3)
        first.end()
        second.end()

        assert second.told[0] == "another sidecar records this service, so this one records to service.2.sqlite"
        assert (count(folder / "service.sqlite", "samples"), count(folder / "service.2.sqlite", "samples")) == (4, 6)

    def test_more_than_anybody_needs_is_refused(self, folder: Path) -> None:
        files = [opened(folder, []) for _ in range(9)]
        with pytest.raises(Unrecordable, match="9 sidecars record this service already"):
            opened(folder, [])
        for file in files:
            file.abandon()

    def test_a_reader_that_never_ends_does_not_let_the_log_grow_for_ever(self, folder: Path, path: Path) -> None:
        watch = Watch(folder, limits=Limits(wal_bytes=300_000))
        watch.start()
        watch.run(5)
        until(lambda: count(path, "samples") == 10, "the first samples")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM samples").fetchone() == (10,)
            for _ in range(40):
                watch.run(20, per_second=20)
                if any("open for long" in sentence for sentence in watch.told):
                    break
                until(lambda: not watch.recorder.waiting or "open for long" in watch.told[-1], "the batch")
            (fault,) = watch.recorder.faults()
            assert isinstance(fault, SourceFault) and "another program has kept the recording open" in fault.reason
            wal = path.with_name(f"{path.name}-wal").stat().st_size
            assert wal < 3_000_000, "one batch more than the limit at most"
            reader.execute("COMMIT")
        until(lambda: "records again" in watch.told[-1], "the reader's end")
        watch.end()

    def test_a_reader_that_looks_in_now_and_then_sees_whole_batches(self, folder: Path, path: Path) -> None:
        watch = Watch(folder)
        watch.start()
        seen = []
        for _ in range(20):
            watch.see([decode(watch.now + 0.01 * number) for number in range(100)])
            seen.append(count(path, "samples"))
        watch.end()
        assert {each % 100 for each in [*seen, count(path, "samples")]} == {0}
        assert count(path, "samples") == 2000


class TestAFolderThatWillNot:
    def test_a_path_that_is_a_file_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "occupied").write_text("")
        watch = Watch(tmp_path / "occupied")
        assert watch.start() is None
        watch.run(2)
        (fault,) = watch.recorder.faults()
        watch.end()
        assert isinstance(fault, SourceFault)
        assert fault.reason == "cannot record: file exists; ddwatch goes on trying"

    def test_a_folder_that_appears_later_is_used(self, tmp_path: Path) -> None:
        place = tmp_path / "occupied"
        place.write_text("")
        watch = Watch(place)
        watch.start()
        watch.run(2)
        place.unlink()
        until(lambda: count(place / "service.sqlite", "samples") == 4, "the samples")
        watch.end()

    def test_a_read_only_folder_is_one_sentence(self, small_disk: Path) -> None:
        filled(small_disk, 5)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        watch = Watch(small_disk)
        assert watch.start() is None
        watch.run(2)
        (fault,) = watch.recorder.faults()
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        until(lambda: count(small_disk / "service.sqlite", "samples") == 14, "the samples of both")
        watch.end()
        assert isinstance(fault, SourceFault)
        assert fault.reason == "cannot record: read-only file system; ddwatch goes on trying"

    def test_a_folder_that_may_not_be_written_is_one_sentence(self, folder: Path) -> None:
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere; the read-only file system is tested beside it")
        folder.mkdir(mode=0o500)
        watch = Watch(folder)
        assert watch.start() is None
        (fault,) = watch.recorder.faults()
        watch.end()
        assert isinstance(fault, SourceFault) and "permission denied" in fault.reason

    def test_a_file_that_was_removed_is_begun_anew(self, folder: Path, path: Path) -> None:
        watch = Watch(folder)
        watch.start()
        watch.run(2)
        until(lambda: count(path, "samples") == 4, "the samples")
        shutil.rmtree(folder)
        watch.run(3)
        until(lambda: count(path, "samples") == 6, "the new file")
        watch.end()


def test_a_disk_that_hangs_does_not_hold_the_end_up(folder: Path) -> None:
    answers = threading.Event()

    def late(_: float) -> RecordingFile:
        assert answers.wait(PATIENCE)
        return opened(folder, [])

    hanging = Watch(folder, open_file=late)
    hanging.recorder.start()
    hanging.run(2)
    assert not hanging.recorder.close(0.05)
    answers.set()
    assert hanging.recorder.close(PATIENCE)
    assert count(folder / "service.sqlite", "samples") == 4


def test_a_disk_that_does_not_keep_up_is_told_until_it_does(folder: Path) -> None:
    answers = threading.Event()

    def late(_: float) -> RecordingFile:
        assert answers.wait(PATIENCE)
        return opened(folder, [])

    slow = Watch(folder, open_file=late, queue_items=20)
    slow.recorder.start()
    slow.run(30)
    (fault,) = slow.recorder.faults()
    assert isinstance(fault, SourceFault) and fault.source == "recording"
    assert fault.reason == f"the disk does not keep up: {slow.recorder.dropped} items were not recorded"
    assert slow.recorder.faults() == [], "told once"

    answers.set()
    until(lambda: not slow.recorder.waiting, "the queue to empty")
    (back,) = slow.recorder.faults()
    slow.end()
    assert isinstance(back, SourceUp)


def test_a_recording_in_trouble_is_no_witness_of_the_service() -> None:
    monitor = Monitor(started_at=START)
    monitor.accept(SourceFault(at=START, source="log", reason="the log is gone"))
    monitor.accept(SourceFault(at=START, source="recording", reason="the disk is full"))
    lost = monitor.at(START + 1)
    monitor.accept(SourceUp(at=START + 2, source="recording", detail="records again"))
    back = monitor.at(START + 3)

    assert [(view.name, view.state) for view in lost.sources] == [("log", "lost"), ("recording", "lost")]
    assert [(view.name, view.state) for view in back.sources] == [("log", "lost"), ("recording", "up")]
    assert lost.verdict.name == back.verdict.name == "blind"
    assert back.verdict.sentence == "the log is gone"
