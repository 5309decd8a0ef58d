"""`ddwatch replay`: headless output, exit codes and sentences, as a real process where it counts."""

import gzip
import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from statistics import median
from zoneinfo import ZoneInfo

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.commands import replay
from ddwatch.commands.replay_account import Median
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.grammar.reader import LogReader
from ddwatch.core.positions import Positions
from ddwatch.demo.scenarios import LOAD_SECONDS, generate
from ddwatch.feeds.log_lines import open_log
from tests.commands.documents import held_against
from tests.commands.front_door import in_process
from tests.commands.terminal import Terminal

START = 1_777_636_800.0
LOGS = Path(__file__).parent.parent / "golden" / "logs"


def played(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ddwatch.cli", "replay", *words], input=stdin, capture_output=True, timeout=60
    )


@pytest.fixture(scope="module")
def founding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The founding story: 600 s of load, 170 s of traffic, a restart and half a minute after it."""
    path = tmp_path_factory.mktemp("logs") / "sglang.log"
    lines = [line for _, line in generate("founding", 1, START, LOAD_SECONDS + 230)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows(founding: Path) -> list[dict[str, object]]:
    done = played(str(founding), "--headless", "--json", "--tz", "UTC")
    assert done.stderr == b""
    assert done.returncode == Exit.OK
    return [held_against("replay.json", line) for line in done.stdout.decode().splitlines()]


def test_every_change_of_verdict_is_one_row_with_the_agreed_keys(rows: list[dict[str, object]]) -> None:
    *changes, end = rows
    verdicts = [row["verdict"] for row in changes]
    assert verdicts[0] == "warming"
    # Between the stop and the next start nothing can be judged.
    assert verdicts[verdicts.index("blind") + 1] == "warming"
    assert all(before != after for before, after in pairwise(verdicts))
    keys = "schema at verdict severity ratio measured expected accept_length step_seconds context_tokens batch cause"
    assert all(list(row) == [*keys.split(), "evidence"] for row in changes)
    assert list(end) == ["schema", "summary"]
    assert changes[0]["at"] == "2026-05-01T12:00:00.000+00:00"
    assert [row["at"] for row in changes] == sorted(str(row["at"]) for row in changes)


def test_the_summary_adds_up(rows: list[dict[str, object]], founding: Path) -> None:
    summary = rows[-1]["summary"]
    assert isinstance(summary, dict)
    # Bytes, because a progress bar's carriage returns are no ends of lines.
    data = founding.read_bytes()
    assert summary["lines"] == data.count(b"\n")
    assert summary["samples"] == data.count(b"Decode batch")
    assert summary["unread"] == 0
    assert summary["restarts"] == 1
    assert summary["alerts"] == {}
    events = summary["events"]
    assert (events["start"], events["restart"], events["ready"], events["stop"]) == (1, 1, 2, 1)
    first, last = datetime.fromisoformat(summary["first"]), datetime.fromisoformat(summary["last"])
    assert sum(summary["verdict_seconds"].values()) == pytest.approx((last - first).total_seconds(), abs=0.01)
    assert summary["exit_code"] == Exit.OK


def test_medians_are_those_of_the_clean_samples(rows: list[dict[str, object]], founding: Path) -> None:
    reader, positions = LogReader(timezone.utc, START), Positions()
    clean = []
    for number, line in enumerate(founding.read_bytes().splitlines(), 1):
        for record in reader.read(line, None, number):
            sample = positions.see(record)
            if sample is not None and sample.clean:
                clean.append(sample)
    summary = rows[-1]["summary"]
    assert isinstance(summary, dict)
    assert summary["clean"] == len(clean)
    for name in ("throughput", "accept_length", "step_seconds"):
        values = [value for sample in clean if (value := getattr(sample, name)) is not None]
        assert summary["medians"][name] == pytest.approx(median(values), rel=1e-3)


@pytest.mark.parametrize("kind", ["gz", "zst", "-"])
def test_compressed_logs_and_pipes_say_the_same(kind: str, founding: Path, tmp_path: Path) -> None:
    plain = played(str(founding), "--headless", "--json", "--tz", "UTC").stdout
    data = founding.read_bytes()
    if kind == "-":
        assert played("-", "--headless", "--json", "--tz", "UTC", stdin=data).stdout == plain
        return
    packed = tmp_path / f"sglang.log.{kind}"
    packed.write_bytes(gzip.compress(data) if kind == "gz" else zstandard.ZstdCompressor().compress(data))
    assert played(str(packed), "--headless", "--json", "--tz", "UTC").stdout == plain


def test_text_says_it_in_words(founding: Path) -> None:
    done = played(str(founding), "--headless", "--tz", "UTC")
    text = done.stdout.decode()
    assert text.startswith("2026-05-01 12:00:00  warming      the server is starting")
    assert "restarts         1\n" in text
    assert "exit code        0\n" in text


def test_the_zone_places_the_stamps(founding: Path) -> None:
    done = played(str(founding), "--headless", "--json", "--tz", "Asia/Kathmandu")
    first = json.loads(done.stdout.splitlines()[0])
    assert first["at"] == "2026-05-01T06:15:00.000+00:00"


def test_from_leaves_out_what_was_before(founding: Path) -> None:
    done = played(str(founding), "--headless", "--json", "--tz", "UTC", "--from", "12:12:00")
    rows = [held_against("replay.json", line) for line in done.stdout.decode().splitlines()]
    assert rows[0]["at"] == "2026-05-01T12:12:00.000+00:00"
    assert rows[0]["verdict"] in ("learning", "as-expected")
    assert rows[-1]["summary"]["events"].get("start") is None
    assert rows[-1]["summary"]["restarts"] == 1


@pytest.mark.parametrize(
    "moment", ["2026-05-01T12:12:00.000+00:00", "2026-05-01T12:12:00Z", "2026-05-01T14:12+02:00", "2026-05-01T12:12"]
)
def test_a_time_that_ddwatch_printed_can_be_given_back(moment: str, founding: Path) -> None:
    """`ddwatch alerts --json` and next commands write ISO 8601; one with an offset does not care for --tz."""
    done = played(str(founding), "--headless", "--json", "--tz", "UTC", "--at", moment)
    assert json.loads(done.stdout.splitlines()[0])["at"] == "2026-05-01T12:12:00.000+00:00"


def test_a_log_without_stamps_has_no_times_but_is_read() -> None:
    done = played(str(LOGS / "73-no-ts-context-16k-benchmark.log"), "--headless", "--json")
    rows = [held_against("replay.json", line) for line in done.stdout.decode().splitlines()]
    assert [row.get("at") for row in rows[:-1]] == [None] * (len(rows) - 1)
    assert (rows[-1]["summary"]["samples"], rows[-1]["summary"]["clean"]) == (3, 2)
    assert rows[-1]["summary"]["medians"]["throughput"] == pytest.approx(20.5)
    assert rows[-1]["summary"]["first"] is None
    assert done.returncode == Exit.UNJUDGED


def test_a_long_silence_is_asked_about_without_taking_as_long() -> None:
    lines = (
        b"[2026-05-01 12:00:00 TP0] Decode batch, #running-req: 1, #token: 50, gen throughput (token/s): 1.00, "
        b"#queue-req: 0\n"
        b"[2026-05-21 12:00:00 TP0] Decode batch, #running-req: 1, #token: 60, gen throughput (token/s): 1.00, "
        b"#queue-req: 0\n"
    )
    done = played("-", "--headless", "--json", "--tz", "UTC", stdin=lines)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["verdict"] for row in rows[:-1]] == ["learning", "blind", "learning"]
    assert rows[1]["at"] == "2026-05-01T12:00:31.000+00:00"
    assert rows[-1]["summary"]["verdict_seconds"]["blind"] == pytest.approx(20 * 86400 - 31)


WRONG = [
    ("a missing file", ["absent.log", "--headless"], Exit.INPUT, "there is no file absent.log"),
    ("a folder", [".", "--headless"], Exit.INPUT, ". is a directory, not a log"),
    ("no terminal", ["some.log"], Exit.USAGE, "the screen needs a terminal; add --headless"),
    ("json on a screen", ["some.log", "--json"], Exit.USAGE, "--json needs --headless"),
    ("no such zone", ["some.log", "--headless", "--tz", "Mars/Base"], Exit.USAGE, "no time zone 'Mars/Base'"),
    ("a zone that is a path", ["some.log", "--headless", "--tz", "../etc/passwd"], Exit.USAGE, "no time zone"),
    ("an odd time", ["some.log", "--headless", "--from", "noon"], Exit.USAGE, "cannot read --from 'noon'"),
    ("an hour too many", ["some.log", "--headless", "--from", "25:00"], Exit.USAGE, "cannot read --from"),
    ("a negative speed", ["some.log", "--speed", "-1"], Exit.USAGE, "--speed"),
    ("a speed that is none", ["some.log", "--speed", "nan"], Exit.USAGE, "--speed"),
    ("an unknown flag", ["some.log", "--fast"], Exit.USAGE, "--fast"),
]


@pytest.mark.parametrize(("words", "code", "sentence"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_words_get_one_sentence(
    words: list[str], code: Exit, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = in_process(["replay", *words], capsys)
    assert found == code
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02\x03" * 500, "is not a text log"),
        (b"hello\nworld\n", "no decode line in 2 lines; is this the scheduler's log?"),
        (b"\x1f\x8b\x08\x00garbage", "is damaged"),
    ],
    ids=["empty", "binary", "foreign", "damaged"],
)
def test_a_log_that_is_none_gets_one_sentence(
    data: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(data)
    code, said = in_process(["replay", str(path), "--headless", "--json"], capsys)
    assert code == Exit.INPUT
    assert sentence in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["61-foreign-llamacpp-spec.log", "77-foreign-vllm-specdecoding.log"])
def test_logs_of_other_engines_are_not_played(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = in_process(["replay", str(LOGS / name), "--headless"], capsys)
    assert code == Exit.INPUT
    assert "is this the scheduler's log?" in said


def test_a_log_that_is_damaged_further_on_is_told_up_to_there(founding: Path, tmp_path: Path) -> None:
    packed = tmp_path / "cut.log.gz"
    packed.write_bytes(gzip.compress(founding.read_bytes())[:-2000])
    done = played(str(packed), "--headless", "--json", "--tz", "UTC")
    assert done.returncode == Exit.INPUT
    assert b"is damaged" in done.stderr
    end = held_against("replay.json", done.stdout.decode().splitlines()[-1])
    assert end["summary"]["samples"] > 100


def test_a_reader_that_leaves_is_no_error(founding: Path) -> None:
    command = f"{sys.executable} -m ddwatch.cli replay {founding} --headless --json | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


def test_control_bytes_of_a_log_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil\x1b[2J.log"
    path.write_bytes(
        b"[2026-05-01 12:00:00 TP0] Decode batch, #running-req: 1, #token: 50, gen throughput (token/s): 9.00\n"
        b"[2026-05-01 12:00:01 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        b"RuntimeError: \x1b[2J\x07 gone\n\n"
        b"[2026-05-01 12:00:02 TP0] Decode batch, #running-req: \x1b[31mone\x1b[0m, #token: \x9b5n\n"
    )
    done = played(str(path), "--headless")
    assert done.stdout.count(b"\n") > 5
    assert not set(done.stdout + done.stderr) & {0x1B, 0x07, 0x9B}


class TestFrom:
    """`--from`: a time of day is the first one at or after the log's start."""

    def moment(self, text: str, started_at: datetime) -> datetime:
        found = replay.moment_named(text, started_at.tzinfo)
        assert found is not None
        return datetime.fromtimestamp(found(started_at.timestamp()), started_at.tzinfo)

    def test_a_time_of_day(self) -> None:
        zone = ZoneInfo("Europe/Berlin")
        start = datetime(2026, 5, 1, 23, 50, tzinfo=zone)
        assert self.moment("23:55", start) == datetime(2026, 5, 1, 23, 55, tzinfo=zone)
        assert self.moment("00:10:30", start) == datetime(2026, 5, 2, 0, 10, 30, tzinfo=zone)

    def test_a_date_and_time(self) -> None:
        start = datetime(2026, 5, 1, 23, 50, tzinfo=timezone.utc)
        assert self.moment("2026-05-03 01:02:03", start) == datetime(2026, 5, 3, 1, 2, 3, tzinfo=timezone.utc)
        assert self.moment("2026-05-03T01:02", start) == datetime(2026, 5, 3, 1, 2, tzinfo=timezone.utc)

    def test_no_time_is_no_function(self) -> None:
        assert replay.moment_named(None, timezone.utc) is None

    @given(st.text(max_size=20))
    def test_anything_is_a_time_or_a_sentence(self, text: str) -> None:
        try:
            found = replay.moment_named(text, timezone.utc)
        except CommandFailed as failure:
            assert failure.code == Exit.USAGE
            assert failure.sentence.count("\n") == 0 or "\n" in text
        else:
            assert found is not None


@given(st.lists(st.floats(0.001, 1e6), max_size=60))
def test_the_median_is_exact_to_four_digits(values: list[float]) -> None:
    kept = Median()
    for value in values:
        kept.add(value)
    kept.add(None)
    found = kept.value()
    if not values:
        assert found is None
    else:
        assert found == pytest.approx(median(values), rel=1e-3)


def test_the_first_moment_is_found_and_a_foreign_log_refused() -> None:
    with open_log(str(LOGS / "07-v046-dp-attention-mtp.log")) as lines:
        first = replay.first_moment(lines, timezone.utc, 0.0)
    assert datetime.fromtimestamp(first, timezone.utc) == datetime(2025, 5, 31, 18, 40, 21, tzinfo=timezone.utc)
    with (
        open_log(str(LOGS / "77-foreign-vllm-specdecoding.log")) as lines,
        pytest.raises(CommandFailed, match="is this"),
    ):
        replay.first_moment(lines, timezone.utc, 0.0)


def test_a_pipe_can_be_left_while_it_waits() -> None:
    ends = iter([False, False, True])
    reading, writing = os.pipe()
    try:
        stream = replay.Interruptible(reading, lambda: next(ends))
        os.write(writing, b"some")
        assert stream.read(10) == b"some"
        assert stream.read(10) == b""
    finally:
        stream.close()
        os.close(writing)


def test_a_file_plays_on_the_screen(founding: Path) -> None:
    with Terminal("replay", str(founding), "--tz", "UTC", "--speed", "0") as terminal:
        terminal.until("replay", "sglang.log", "since the restart: step time", "3 375 lines")
        terminal.send("p")
        terminal.until("paused")
        terminal.send("q")
        assert terminal.end() == Exit.OK


def test_a_pipe_plays_on_the_screen_and_the_keys_come_from_the_terminal(founding: Path) -> None:
    reading, writing = os.pipe()
    try:
        with Terminal("replay", "-", "--tz", "UTC", "--speed", "0", stdin=reading) as terminal:
            os.write(writing, founding.read_bytes()[:60_000])
            terminal.until("replay", "standard input", "kimi-k2.6")
            terminal.send("q")
            assert terminal.end() == Exit.OK
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("19-crash-illegal-access-proces-typo.log", "crash 1"),
        ("20-crash-sigquit-before-exception.log", "crash 1"),
        ("52-retract-old-wording-all-tp.log", "retract 1"),
        ("59-watchdog-old-and-new.log", "crash"),
    ],
)
def test_a_log_that_ends_before_its_first_decode_line_still_has_a_story(name: str, events: str) -> None:
    done = played(str(LOGS / name), "--headless", "--tz", "UTC")
    assert (done.returncode, done.stderr) == (Exit.UNJUDGED, b"")
    told = next(line for line in done.stdout.decode().splitlines() if line.startswith("events"))
    assert events in told, told


def test_a_figure_that_is_not_clean_says_so() -> None:
    done = played(str(LOGS / "58-notebook-indented-blank-lines.log"), "--headless", "--tz", "UTC")
    assert b"[3.6 tok/s, step 554.0 ms; not clean: first, idle, prefill]" in done.stdout
