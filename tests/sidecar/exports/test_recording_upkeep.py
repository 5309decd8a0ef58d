"""A recording stays within its bounds: clean means of ten seconds, ages, size."""

from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.exports.recording_file import Limits, RecordingFile
from ddwatch_sidecar.exports.recording_rows import write
from ddwatch_sidecar.exports.recording_upkeep import age, compute_means, give_back, shed, used_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.recording import MEAN_SECONDS
from ddwatch.core.snapshot import Event, Point, Sample
from tests.sidecar.exports.recordings import START, begun, rows, sample

QUICK = settings(max_examples=40)


def steps(file: RecordingFile) -> list[dict[str, Any]]:
    cursor = file.database.execute("SELECT * FROM steps ORDER BY at, dp_rank")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def point(at: float, *, contaminated: bool = False, throughput: float = 100.0, **more: Any) -> Point:
    return Point(seq=0, at=at, contaminated=contaminated, throughput=throughput, step_seconds=0.05, batch=2, **more)


class TestMeans:
    def test_only_clean_samples_are_averaged_and_all_are_counted(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            clean = [sample(START + second, step=0.04 + 0.01 * (second % 2)) for second in range(8)]
            mixed = [sample(START + 8, flags=("prefill",), step=9.0), sample(START + 9, flags=("first",), step=9.0)]
            write(file, [*clean, *mixed])
            compute_means(file, START + 60)
            (mean,) = steps(file)
        assert (mean["at"], mean["seconds"], mean["samples"], mean["clean"]) == (START, MEAN_SECONDS, 10, 8)
        assert mean["step_seconds"] == pytest.approx(0.045)
        assert mean["batch"] == 2.0 and mean["context_tokens"] == 2000.0

    def test_a_stretch_without_clean_samples_has_no_figures(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            write(file, [sample(START + second, flags=("idle",)) for second in range(3)])
            compute_means(file, START + 60)
            (mean,) = steps(file)
        assert (mean["samples"], mean["clean"], mean["step_seconds"], mean["throughput"]) == (3, 0, None, None)

    def test_ranks_and_provenances_are_kept_apart(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            moments = Sample(at=START, dp_rank=0, provenance="moments", step_seconds=0.03, steps=90)
            write(file, [sample(START, dp=0), sample(START, dp=1), moments])
            compute_means(file, START + 60)
            found = {(row["dp_rank"], row["provenance"]): row["step_seconds"] for row in steps(file)}
        assert found == {(0, "log"): 0.05, (1, "log"): 0.05, (0, "moments"): 0.03}

    def test_late_samples_are_joined_to_their_stretch(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            write(file, [sample(START + 1)])
            compute_means(file, START + 60)
            write(file, [sample(START + 2, step=0.07), sample(START + 40)])
            compute_means(file, START + 120)
            found = [(row["at"] - START, row["samples"], row["step_seconds"]) for row in steps(file)]
        assert found == [(0, 2, pytest.approx(0.06)), (40, 1, 0.05)]

    def test_the_stretch_that_runs_is_left_open_until_the_end(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            write(file, [sample(START + 1)])
            compute_means(file, START + 12)
            assert steps(file) == []
            compute_means(file, START + 12, last=True)
            assert [row["samples"] for row in steps(file)] == [1]
            write(file, [sample(START + 3)])
            compute_means(file, START + 60)
            assert [row["samples"] for row in steps(file)] == [2]

    @QUICK
    @given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1, max_size=60), st.integers(1, 6))
    def test_any_order_of_writing_gives_the_same_means(
        self, tmp_path_factory: pytest.TempPathFactory, seen: list[tuple[float, bool]], batches: int
    ) -> None:
        samples = [sample(START + at, flags=() if clean else ("gap",)) for at, clean in seen]
        with begun(tmp_path_factory.mktemp("split")) as split, begun(tmp_path_factory.mktemp("whole")) as whole:
            for number in range(batches):
                part = samples[number::batches]
                if part:
                    write(split, part)
                compute_means(split, START + 30 * number)
            write(whole, samples)
            for file in (split, whole):
                compute_means(file, START + 200)
            assert steps(split) == steps(whole)
            assert sum(row["clean"] for row in steps(whole)) == sum(clean for _, clean in seen)


class TestAges:
    def test_samples_go_after_a_day_and_their_means_after_a_month(self, tmp_path: Path) -> None:
        day, month = 86400.0, 30 * 86400.0
        with begun(tmp_path) as file:
            write(file, [sample(START + second) for second in range(100)])
            compute_means(file, START + 200)
            age(file, START + day + 50)
            assert [round(at - START) for (at,) in file.database.execute("SELECT at FROM samples")] == list(
                range(50, 100)
            )
            age(file, START + 2 * day)
            assert (len(steps(file)), file.database.execute("SELECT count(*) FROM samples").fetchone()) == (10, (0,))
            age(file, START + month + 55)
            assert len(steps(file)) == 4

    def test_points_of_days_gone_by_are_means_of_the_clean_ones(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            clean = [point(START + second, throughput=100.0 + second) for second in range(5)]
            dirty = [point(START + second, throughput=1.0, contaminated=True) for second in range(5, 25)]
            mark = Point(seq=0, at=START + 30, state="gap")
            fresh = [point(START + 86400 + second) for second in range(3)]
            write(file, [*clean, *dirty, mark, *fresh])
            age(file, START + 86400 + 40)
            found = file.database.execute(
                "SELECT at, seconds, state, contaminated, throughput, batch FROM points ORDER BY at"
            ).fetchall()
        assert [(round(at - START), *rest) for at, *rest in found] == [
            (0, 10, "data", 0, 102.0, 2),
            (10, 10, "data", 1, 1.0, 2),
            (20, 10, "data", 1, 1.0, 2),
            (30, 1, "gap", 0, None, None),
            (86400, 1, "data", 0, 100.0, 2),
            (86401, 1, "data", 0, 100.0, 2),
            (86402, 1, "data", 0, 100.0, 2),
        ]

    def test_thinning_goes_on_where_it_stopped(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            write(file, [point(START + second) for second in range(100)])
            for later in range(0, 120, 7):
                age(file, START + 86400 + later)
            seconds = file.database.execute("SELECT seconds, count(*) FROM points GROUP BY seconds").fetchall()
        assert seconds == [(10, 10)]


class TestSize:
    LIMIT = 3_000_000

    def fill(self, file: RecordingFile, hours: float, start: float) -> None:
        count = 20_000
        pause = hours * 3600 / count
        for first in range(0, count, 5000):
            write(file, [sample(start + pause * number) for number in range(first, first + 5000)])

    def test_the_oldest_samples_go_when_the_limit_comes_near(self, tmp_path: Path) -> None:
        with begun(tmp_path, Limits(bytes=self.LIMIT)) as file:
            at = START
            for _ in range(10):
                self.fill(file, 2.0, at)
                at += 7200
                while shed(file):
                    give_back(file)
                give_back(file)
                assert used_bytes(file) <= self.LIMIT
            file.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            size = file.size()
            oldest, newest = file.database.execute("SELECT min(at), max(at) FROM samples").fetchone()
        assert size <= self.LIMIT
        assert newest == pytest.approx(at, abs=1) and newest - oldest > 3600

    def test_means_outlive_the_samples_that_are_shed(self, tmp_path: Path) -> None:
        with begun(tmp_path, Limits(bytes=self.LIMIT)) as file:
            for number in range(4):
                self.fill(file, 2.0, START + 7200 * number)
                compute_means(file, START + 7200 * (number + 1))
                while shed(file):
                    pass
            first = steps(file)[0]
            oldest = file.database.execute("SELECT min(at) FROM samples").fetchone()[0]
        assert first["at"] == START and oldest > START + 3600

    def test_means_and_events_go_last_and_the_oldest_first(self, tmp_path: Path) -> None:
        with begun(tmp_path, Limits(bytes=400_000)) as file:
            means = [(int(START) + 10 * number, 1, 1, 1, *[7] * 6) for number in range(12_000)]
            with file.database:
                file.add_samples([sample(START)])
                file.insert("stored_steps", means)
                texts = [Event(seq=n, at=START + n, kind="gap", severity="ok", text="x" * 50) for n in range(100)]
            write(file, [*texts])
            for _ in range(200):
                if not shed(file):
                    break
            give_back(file)
            assert used_bytes(file) <= 400_000
            oldest, newest = file.database.execute("SELECT min(at), max(at) FROM steps").fetchone()
        assert newest == START + 119_990 and oldest > START + 10_000

    def test_below_the_limit_nothing_goes(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            write(file, [sample(START + second) for second in range(100)])
            assert not shed(file)
        assert rows(file.path, "SELECT count(*) FROM samples") == [(100,)]
