"""`ddwatch steps`: rows in three formats, flat memory, and one sentence where there is nothing to print."""

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddwatch.cli import run
from ddwatch.core.exits import Exit
from tests.commands.documents import held_against
from tests.commands.front_door import in_process

LOGS = Path(__file__).parents[1] / "golden" / "logs"
REAL = LOGS / "real-0.5.23-standalone.log"
ROW = (
    "at engine dp_rank batch total_context_tokens context_tokens accept_length throughput step_seconds span "
    "provenance flags source_line"
)
KEYS = ROW.split()
LINE = (
    b"[2026-05-01 12:00:00] Decode batch, #running-req: 1, #token: 9, gen throughput (token/s): 5.00, #queue-req: 0\n"
)


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What a successful command prints on stdout and stderr."""
    assert run(["steps", *words]) == Exit.OK
    said = capsys.readouterr()
    return said.out, said.err


@pytest.mark.parametrize("options", [[], ["--json"], ["--format", "jsonl"], ["--json", "--format", "jsonl"]])
def test_jsonl_has_one_row_per_decode_line_and_obeys_its_schema(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = printed([str(REAL), *options], capsys)
    rows = [held_against("steps.json", line) for line in out.splitlines()]
    assert err == ""
    numbers = [number for number, line in enumerate(REAL.read_bytes().split(b"\n"), 1) if b"] Decode batch" in line]
    assert [row["source_line"] for row in rows] == numbers
    assert all(list(row) == KEYS for row in rows)
    assert rows[0]["at"] == "2026-12-01T11:07:01.000+00:00"
    assert {"first", "prefill"} <= set(rows[0]["flags"])
    second = rows[1]
    assert (second["batch"], second["accept_length"], second["throughput"]) == (1, 2.0, 162.02)
    assert second["step_seconds"] == pytest.approx(2.0 / 162.02)
    assert "request-ended" in rows[3]["flags"]
    assert rows[3]["context_tokens"] is None


def test_csv_is_rfc_4180(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in printed([str(REAL)], capsys)[0].splitlines()]
    out, _ = printed([str(REAL), "--format", "csv"], capsys)
    assert out.count("\r\n") == len(rows) + 1
    assert "\n" not in out.replace("\r\n", "")
    table = list(csv.DictReader(io.StringIO(out, newline="")))
    assert list(table[0]) == KEYS
    for row, cells in zip(rows, table, strict=True):
        assert cells["flags"].split() == row["flags"]
        assert cells["accept_length"] == ("" if row["accept_length"] is None else str(row["accept_length"]))
        assert cells["engine"] == ""


def test_table_is_aligned_and_repeats_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed([str(REAL), "--format", "table"], capsys)
    lines = out.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("time ")]
    assert heads[:2] == [0, 41]
    assert lines[0] == lines[41]
    for title in ("batch", "accept", "step ms"):
        end = lines[0].index(title) + len(title)
        assert all(line[end - 1] != " " and line[end : end + 1] in ("", " ") for line in lines)
    assert "2026-12-01 11:07:01Z" in lines[1]
    assert "first" in lines[1]


def test_a_log_without_times_has_rows_without_times(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = printed([str(LOGS / "73-no-ts-context-16k-benchmark.log")], capsys)
    assert [json.loads(line)["at"] for line in out.splitlines()] == [None, None, None]
    table, _ = printed([str(LOGS / "73-no-ts-context-16k-benchmark.log"), "--format", "table"], capsys)
    assert table.splitlines()[1].startswith("-  ")


def test_the_zone_of_the_stamps_can_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    def first(zone: str) -> str:
        out, _ = printed([str(REAL), "--tz", zone], capsys)
        at: str = json.loads(out.splitlines()[0])["at"]
        return at

    assert first("utc") == first("UTC") == "2026-12-01T11:07:01.000+00:00"
    assert first("Europe/Berlin") == "2026-12-01T10:07:01.000+00:00"


def test_unread_and_cut_lines_are_told_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    good = "Decode batch, #running-req: 1, gen throughput (token/s): 5.00"
    path.write_text(f"{good}\nDecode batch, secret: hunter2, gen throughput (token/s): fast\n{good}\n" + "x" * 70_000)
    out, err = printed([str(path)], capsys)
    assert len(out.splitlines()) == 2
    assert "1 line could not be read, first: Decode batch" in err
    assert "1 line was longer than 64 KiB and cut" in err
    assert "hunter2" not in err
    path.write_text(f"{good}\n" + "Decode batch, #running-req: x\n" * 3 + ("x" * 70_000 + "\n") * 2)
    _, err = printed([str(path)], capsys)
    assert "3 lines could not be read" in err
    assert "2 lines were longer" in err


def test_control_bytes_never_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        b"\x1b]0;title\x07svc\x9b | "
        + LINE
        + b"\x1b]0;title\x07svc | "
        + LINE
        + b"\x1b[31m(A\x1b[32mB pid=1) Decode batch, #running-req: 1, gen throughput (token/s): 5.00, x\x1b: \x07y\n"
        b"Decode batch, \x1b[2J\x08: \x07, #running-req: 1, #token: \x1b[31m\x9bx\n"
    )
    for style in ("jsonl", "csv", "table"):
        out, err = printed([str(path), "--format", style], capsys)
        assert all(character.isprintable() or character in "\r\n" for character in out + err)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([str(LOGS / "61-foreign-llamacpp-spec.log")], 66, "no decode line in 3 lines; is this the scheduler's log?"),
        ([str(LOGS / "77-foreign-vllm-specdecoding.log")], 66, "no decode line in 2 lines"),
        (["/nonexistent/log"], 66, "there is no file /nonexistent/log"),
        ([str(LOGS)], 66, "is a directory"),
        ([sys.executable], 66, "is not a text log"),
        (["/dev/null"], 66, "is empty"),
        ([str(REAL), "--tz", "Nowhere/Land"], 64, "no time zone 'Nowhere/Land'"),
        ([str(REAL), "--format", "csv", "--json"], 64, "exclude each other"),
        ([str(REAL), "--format", "xml"], 64, "invalid choice"),
        ([], 64, "required"),
    ],
)
def test_one_sentence_for_bad_input(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, err = in_process(["steps", *words], capsys)
    assert (found, err.count("\n")) == (code, 1)
    assert said in err


def ddwatch(*words: str) -> list[str]:
    return [sys.executable, "-m", "ddwatch.cli", "steps", *words]


def test_standard_input_streams_rows_before_it_ends() -> None:
    with subprocess.Popen(ddwatch("-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(1, 4):
            process.stdin.write(LINE)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["source_line"] == number
        process.stdin.close()
        assert process.wait(timeout=20) == 0


def test_a_reader_that_leaves_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(LINE * 50_000))
    with subprocess.Popen(ddwatch(str(path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 0


def test_memory_stays_flat(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        for number in range(60_000):
            file.write(
                f"[2026-05-01 {number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}] Decode batch, "
                f"#running-req: 1, #token: {number}, gen throughput (token/s): 5.00, #queue-req: 0\n".encode()
            )
    program = (
        "import sys; from resource import RUSAGE_SELF, getrusage; from ddwatch.cli import run;"
        "import ddwatch.commands.steps; before = getrusage(RUSAGE_SELF).ru_maxrss;"
        "run(['steps', sys.argv[1]]); sys.stderr.write(str(getrusage(RUSAGE_SELF).ru_maxrss - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True
    )
    assert int(done.stderr) < 20_000
