"""`ddwatch export` and `ddwatch replay` on recordings: rows, verdicts, exit codes and sentences."""

import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ddwatch_sidecar.exports.recording_rows import write

from ddwatch.core.exits import Exit
from ddwatch.core.records import Gap, RequestDone, ServerStart, SourceUp
from tests.commands.documents import held_against
from tests.commands.said import said
from tests.commands.terminal import Terminal
from tests.sidecar.exports.recordings import START, Watch, begun, decode, sample

ISO = "2026-05-28T20:26:40.000+00:00"
"""START in words."""
EXPORT = (sys.executable, "-m", "ddwatch.cli", "export")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes: a start, decoding, lost lines, a finished request."""
    folder = tmp_path_factory.mktemp("recordings")
    watch = Watch(folder)
    watch.start()
    start = ServerStart(at=START, arguments={"model_path": "a/model", "tp_size": 8}, withheld={"api_key": "x"})
    watch.see([SourceUp(at=START, source="log"), start])
    for second in range(120):
        watch.see([decode(START + second + 0.25 * number, 4000 + second) for number in range(4)])
    watch.see(
        [
            Gap(at=watch.now, source="log", reason="lost", detail="some \x1b[31mlines were lost, it seems"),
            RequestDone(at=watch.now, prompt_tokens=10, completion_tokens=20, latency_seconds=1.5),
        ]
    )
    watch.end()
    return folder / "service.sqlite"


def exported(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    ended = said(["export", *words], capsys)
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]


class TestRows:
    def test_samples_have_the_shape_of_steps(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        ended = said(["export", str(recording)], capsys)
        rows = [held_against("steps.json", line) for line in ended.out.splitlines()]
        assert len(rows) == 480
        assert rows[0]["at"] == ISO and rows[-1]["at"] == "2026-05-28T20:28:39.750+00:00"
        assert (rows[5]["batch"], rows[5]["accept_length"], rows[5]["throughput"]) == (2, 2.5, 100.0)

    @pytest.mark.parametrize(
        ("table", "count", "keys"),
        [
            ("points", 119, {"at", "state", "contaminated", "throughput", "expected_low"}),
            ("steps", 12, {"at", "seconds", "samples", "clean", "step_seconds"}),
            ("events", 2, {"at", "kind", "severity", "text", "count"}),
            ("server", 1, {"at", "kind", "arguments", "withheld"}),
            ("requests", 1, {"at", "prompt_tokens", "completion_tokens", "latency_seconds"}),
            ("sources", 1, {"at", "source", "state"}),
            ("gpu", 0, set()),
        ],
    )
    def test_every_table_has_its_rows(
        self, recording: Path, capsys: pytest.CaptureFixture[str], table: str, count: int, keys: set[str]
    ) -> None:
        rows = exported(capsys, str(recording), "--table", table, "--json")
        assert len(rows) >= count and (count or not rows)
        assert all(keys <= set(row) and row["at"].endswith("+00:00") for row in rows)
        assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)

    def test_verdicts_carry_their_evidence(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = exported(capsys, str(recording), "--table", "verdicts")
        assert rows and all(isinstance(row["evidence"], dict) and row["since"].endswith("+00:00") for row in rows)

    def test_a_stretch_begins_with_its_first_moment(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        since, until = "2026-05-28T20:27:00Z", "2026-05-28 22:27:01+02:00"
        ats = [row["at"][17:23] for row in exported(capsys, str(recording), "--since", since, "--until", until)]
        assert ats == ["00.000", "00.250", "00.500", "00.750", "01.000"]
        local = exported(capsys, str(recording), "--since", "2026-05-28T16:28:39", "--tz", "America/New_York")
        assert len(local) == 4

    def test_csv_is_the_same_with_empty_fields_and_no_control_bytes(
        self, recording: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ended = said(["export", str(recording), "--format", "csv", "--table", "points"], capsys)
        rows = list(csv.DictReader(io.StringIO(ended.out)))
        same = exported(capsys, str(recording), "--table", "points")
        assert [row["at"] for row in rows] == [row["at"] for row in same]
        assert rows[1]["queued"] == "0" and rows[0]["expected_low"] == ""
        for table in ("events", "verdicts", "server"):
            ended = said(["export", str(recording), "--format", "csv", "--table", table], capsys)
            assert "\x1b" not in ended.out
        (server,) = csv.DictReader(io.StringIO(ended.out))
        assert json.loads(server["arguments"]) == {"model_path": "a/model", "tp_size": 8}

    def test_memory_stays_flat_and_a_reader_that_leaves_is_no_error(self, tmp_path: Path) -> None:
        with begun(tmp_path) as file:
            for first in range(0, 200_000, 5000):
                write(file, [sample(START + 0.01 * number) for number in range(first, first + 5000)])
        measure = (
            "import resource, sys\nfrom ddwatch.cli import run\ncode = run(sys.argv[1:])\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\nsys.exit(code)\n"
        )
        words = [sys.executable, "-c", measure, "export", str(tmp_path)]

        def peak(*more: str) -> int:
            done = subprocess.run([*words, *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
            return int(done.stderr.splitlines()[-1])

        assert peak() < peak("--until", "2026-05-28T20:27:00Z") + 20_000, "kB"
        head = subprocess.run(
            ["sh", "-c", '"$@" | head -1', "sh", *EXPORT, str(tmp_path)], capture_output=True, check=True
        )
        assert head.stdout.count(b"\n") == 1 and b"Traceback" not in head.stderr


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "code", "sentence"),
        [
            (["nowhere.sqlite"], 66, "there is no file nowhere.sqlite"),
            (["RECORDING", "--since", "yesterday"], 64, "cannot read --since 'yesterday'; write 2026-05-01T12:00:00"),
            (["RECORDING", "--until", "2026-13-01"], 64, "cannot read --until '2026-13-01'"),
            (["RECORDING", "--tz", "Mars"], 64, "no time zone 'Mars'"),
            (["RECORDING", "--json", "--format", "csv"], 64, "--json and --format csv exclude each other"),
            (["RECORDING", "--table", "secrets"], 64, "invalid choice: 'secrets'"),
        ],
    )
    def test_one_sentence(
        self, recording: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, sentence: str
    ) -> None:
        ended = said(["export", *(str(recording) if word == "RECORDING" else word for word in words)], capsys)
        assert (ended.code, ended.out) == (code, "")
        assert sentence in ended.err and ended.err.count("\n") == 1

    def test_rows_before_the_damage_are_kept(self, recording: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy.sqlite"
        with begun(tmp_path / "whole") as file:
            for first in range(0, 60_000, 5000):
                write(file, [sample(START + 0.01 * number) for number in range(first, first + 5000)])
            file.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            data = bytearray(file.path.read_bytes())
        last = len(data) * 4 // 5
        data[last:] = bytes(byte ^ 0x5A for byte in data[last:])
        copy.write_bytes(data)
        done = subprocess.run([*EXPORT, str(copy)], capture_output=True, text=True, check=False)
        assert done.returncode == Exit.INPUT
        assert 1000 < done.stdout.count("\n") < 60_000
        assert "is damaged: " in done.stderr and "Traceback" not in done.stderr

    def test_a_newer_schema_is_named(self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        newer = tmp_path / "newer.sqlite"
        shutil.copy(recording, newer)
        with closing(sqlite3.connect(newer)) as database:
            database.execute("PRAGMA user_version = 9")
        for command in (["export", str(newer)], ["replay", str(newer), "--headless"]):
            ended = said(command, capsys)
            assert (ended.code, ended.out) == (66, "")
            assert "has recording schema 9 and this ddwatch reads 1: update ddwatch" in ended.err


class TestReplay:
    def test_headless_rows_have_the_same_shape_as_those_of_a_log(
        self, recording: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ended = said(["replay", str(recording), "--headless", "--json"], capsys)
        *changes, end = [held_against("replay.json", line) for line in ended.out.splitlines()]
        kept = exported(capsys, str(recording), "--table", "verdicts")
        assert [(row["at"], row["verdict"], row["measured"]) for row in changes] == [
            (row["at"], row["verdict"], row["measured"]) for row in kept
        ]
        summary = end["summary"]
        assert (summary["samples"], summary["first"]) == (480, ISO)
        assert 0 < summary["clean"] < 480 and summary["medians"]["throughput"] == 100.0
        assert sum(summary["verdict_seconds"].values()) == pytest.approx(119.75, abs=1.0)
        assert ended.code == summary["exit_code"]

    def test_from_leaves_out_what_was_before(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["replay", str(recording), "--headless", "--json", "--tz", "UTC", "--from", "20:28:00"]
        *changes, end = [json.loads(line) for line in said(words, capsys).out.splitlines()]
        assert end["summary"]["samples"] == 4 * 40 - 1
        assert 30 < sum(end["summary"]["verdict_seconds"].values()) < 41
        assert changes, "the verdict that held then"

    def test_the_folder_means_its_newest_recording(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        ended = said(["replay", str(recording.parent), "--headless"], capsys)
        assert ended.err == f"ddwatch replay: the newest recording there is {recording}\n"
        assert "samples          480" in ended.out

    def test_an_empty_recording_is_one_sentence(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with begun(tmp_path) as file:
            path = str(file.path)
        ended = said(["replay", path, "--headless"], capsys)
        assert (ended.code, ended.err) == (66, f"ddwatch replay: {path} holds nothing yet\n")

    def test_a_recording_plays_on_the_screen(self, recording: Path) -> None:
        with Terminal("replay", str(recording), "--tz", "UTC", "--speed", "0") as terminal:
            terminal.until("replay", "server start: a/model", "100 tok/s", "lines were lost")
            terminal.send("p")
            terminal.until("paused")
            terminal.send("q")
            assert terminal.end() == Exit.OK

    def test_a_read_only_copy_can_be_read_where_nothing_may_be_written(
        self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = tmp_path / "archive"
        place.mkdir()
        shutil.copy(recording, place / "old.sqlite")
        (place / "old.sqlite").chmod(0o400)
        place.chmod(0o500)
        if os.geteuid() == 0:
            # Root may write everywhere, so the file system itself must refuse.
            command = ["mount", "--bind", "-o", "ro", str(place), str(place)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("a read-only folder needs a mount here")
        try:
            assert len(exported(capsys, str(place / "old.sqlite"))) == 480
        finally:
            if os.geteuid() == 0:
                subprocess.run(["umount", str(place)], check=True)
            place.chmod(0o700)
