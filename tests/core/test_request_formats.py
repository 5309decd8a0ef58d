"""What nine releases print of one finished request, at every level and in both formats, gives its numbers and no word.

The lines are those that the published code of each release prints for a request of 31 prompt tokens, 4 of them cached,
and 48 answered ones in 20 verify steps: its first token came after 0.2 s, its last after 2.75 s.
"""

from typing import Any

import msgspec
import pytest

from ddwatch.core import exported
from ddwatch.core.grammar import LogReader
from ddwatch.core.records import Rank, RequestDone
from ddwatch.core.requests import accept_length, speed
from tests.conftest import ROOT

RELEASES = ROOT / "tests" / "golden" / "requests" / "releases"
NOW = 1_800_000_000.0
AFTER = {"latency_seconds": 2.75}
TIMED = {**AFTER, "first_token_seconds": 0.2, "queue_seconds": 0.0031, "throughput_tokens_per_second": 47 / 2.55}
SPOKEN = {**TIMED, "accept_length": 2.4, "retractions": 1}
EXACT = {**SPOKEN, "accepted_drafts": (5, 6, 6, 3), "queue_seconds": 0.0032, "dp": 1}
TOLD: dict[str, dict[str, Any]] = {
    "0.4.3": {},
    "0.4.8": AFTER,
    "0.5.1": AFTER,
    "0.5.6": SPOKEN,
    "0.5.8": SPOKEN,
    "0.5.10": EXACT,
    "0.5.12": EXACT,
    "0.5.18": EXACT,
    "0.5.23": {**EXACT, "queue_seconds": 0.0},
}
"""What each release tells beside the counts of tokens and steps."""
LINES = {"0.4.3": 2, "0.4.8": 3, "0.5.1": 4, "0.5.6": 4}
"""Levels, each in text alone; later releases print each of four as JSON too."""
RECORDED = [release for release in TOLD if (RELEASES / f"{release}.records").exists()]


def expected(release: str) -> dict[str, Any]:
    counted = {"prompt_tokens": 31, "completion_tokens": 48, "cached_tokens": 4, "verify_steps": 20}
    return {**counted, "finish_reason": "length", **TOLD[release]}


def numbers(record: RequestDone) -> dict[str, Any]:
    """What a record says, without when and where it was read."""
    told = {**msgspec.structs.asdict(record), "dp": record.rank.dp}
    return {
        name: value for name, value in told.items() if name not in ("at", "stamp", "rank", "line") and value is not None
    }


def held(record: object, release: str) -> None:
    assert isinstance(record, RequestDone)
    told, wanted = numbers(record), expected(release)
    assert told.keys() == wanted.keys()
    for name, value in wanted.items():
        assert told[name] == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), name
    assert "secret" not in repr(record)


@pytest.mark.parametrize("release", TOLD)
def test_each_line_of_each_level_and_format_says_the_same(release: str) -> None:
    lines = (RELEASES / f"{release}.log").read_bytes().splitlines()
    assert len(lines) == LINES.get(release, 8)
    for number, line in enumerate(lines, 1):
        reader = LogReader(None, NOW, b"golden")
        (record,) = (*reader.read(line, None, number), *reader.close())
        held(record, release)


@pytest.mark.parametrize("release", RECORDED)
def test_each_record_says_what_the_log_says(release: str) -> None:
    (line,) = (RELEASES / f"{release}.records").read_bytes().splitlines()
    held(exported.read(line, NOW), release)
    behind = exported.read(line[40:], NOW, cut=True)
    held(behind, release)


def test_records_are_written_since_0_5_6() -> None:
    assert [release for release in TOLD if release not in LINES or release == "0.5.6"] == RECORDED
    assert {path.stem for path in RELEASES.iterdir()} == set(TOLD)


@pytest.mark.parametrize("release", TOLD)
def test_accept_length_and_speed_follow_from_any_release(release: str) -> None:
    line = (RELEASES / f"{release}.log").read_bytes().splitlines()[0]
    (record, *_) = LogReader(None, NOW, b"golden").read(line, None, 1) or LogReader(None, NOW, b"golden").close()
    assert isinstance(record, RequestDone)
    # The histogram counts steps; the other two count the token of the prefill with them.
    assert accept_length(record) == pytest.approx(47 / 20 if record.accepted_drafts else 48 / 20)
    throughput, whole = speed(record)
    assert whole == (release in ("0.4.8", "0.5.1"))
    assert throughput == (None if release == "0.4.3" else pytest.approx(48 / 2.75 if whole else 47 / 2.55, rel=1e-4))


def test_a_request_without_a_step_has_no_accept_length() -> None:
    """0.5.6 prints 0 for it."""
    spoken = b'"spec_accept_rate": 0.0, "spec_accept_length": 0, "spec_verify_ct": 0'
    line = b'{"prompt_tokens": 9, "completion_tokens": 1, ' + spoken + b"}"
    record = exported.read(line, NOW)
    assert isinstance(record, RequestDone)
    assert (record.accept_length, record.verify_steps) == (None, 0)


def test_the_rank_of_a_line_is_that_of_its_prefix_before_that_of_its_request() -> None:
    meta = "{'prompt_tokens': 1, 'completion_tokens': 2, 'dp_rank': 1}"
    for prefix, rank in ((b"", Rank(dp=1)), (b" DP3 TP3", Rank(dp=3, tp=3))):
        line = b"[2025-10-09 08:53:23%s] Finish: obj=GenerateReqInput(), out={'meta_info': %s}" % (
            prefix,
            meta.encode(),
        )
        reader = LogReader(None, NOW, b"golden")
        (record,) = (*reader.read(line, None, 1), *reader.close())
        assert isinstance(record, RequestDone) and record.rank == rank


def test_times_that_run_backwards_are_no_latency() -> None:
    times = b'"request_received_ts": 1760000002.0, "prefill_finished_time": 1760000001.0'
    line = b'{"prompt_tokens": 9, "completion_tokens": 8, ' + times + b"}"
    record = exported.read(line, NOW)
    assert isinstance(record, RequestDone) and record.first_token_seconds is None
