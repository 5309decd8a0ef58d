"""Records of finished requests are read to numbers, from whole lines and from the end of too long ones."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core import exported
from ddwatch.core.records import RequestDone, Unread
from tests.conftest import ROOT

REAL = ROOT / "tests" / "golden" / "requests" / "sglang-request-metrics-20261201_12.log"
"""Three requests in the shape that a real SGLang 0.5.23 writes: with NGRAM, with a draft model, without speculation."""
NOW = 1_800_000_000.0


def real(path: Path = REAL) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_real_records_give_their_numbers_and_no_word() -> None:
    ngram, standalone, plain = [exported.read(line, NOW, number) for number, line in enumerate(real(), 1)]
    assert isinstance(ngram, RequestDone)
    assert (ngram.at, ngram.line, ngram.prompt_tokens, ngram.completion_tokens, ngram.cached_tokens) == (
        NOW,
        1,
        5,
        32,
        4,
    )
    assert ngram.accepted_drafts == (16, 3, 2, 1)
    assert ngram.accept_length == pytest.approx(32 / 22)
    assert ngram.verify_steps == 22
    assert ngram.throughput_tokens_per_second == pytest.approx(348.76, abs=0.01)
    assert ngram.first_token_seconds == pytest.approx(0.00548, abs=1e-5)
    assert (ngram.retractions, ngram.finish_reason) == (0, "length")
    assert isinstance(standalone, RequestDone) and standalone.accepted_drafts is not None
    assert isinstance(plain, RequestDone)
    assert (plain.accept_length, plain.accepted_drafts, plain.verify_steps) == (None, None, None)
    assert "fox" not in repr([ngram, standalone, plain]) and "rid" not in repr([ngram, standalone, plain])


def test_a_line_that_stood_there_before_takes_its_own_time_or_none() -> None:
    record = exported.read(real()[0], NOW, live=False)
    assert isinstance(record, RequestDone)
    assert record.at == pytest.approx(1796123140.988)
    assert exported.read(b'{"prompt_tokens": 3, "completion_tokens": 4}', NOW, live=False) is None
    future = b'{"prompt_tokens": 3, "completion_tokens": 4, "request_finished_ts": 1900000000.0}'
    assert exported.read(future, NOW, live=False) is None


@pytest.mark.parametrize("text", ['he said: "}", "e2e_latency": 9"', "a\\", '", "id": "x', '}"', '\\\\"'])
def test_the_end_of_a_long_line_says_the_same_as_all_of_it(text: str) -> None:
    numbers = {
        "id": "a",
        "prompt_tokens": 9,
        "completion_tokens": 7,
        "e2e_latency": 0.5,
        "finish_reason": {"type": "stop"},
    }
    line = json.dumps({"request_parameters": json.dumps({"text": "x" * 50 + text}), **numbers}).encode()
    whole = exported.read(line, NOW)
    assert isinstance(whole, RequestDone) and whole.latency_seconds == 0.5
    for start in range(1, 60):
        assert exported.read(line[start:], NOW, cut=True) == whole


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"prompt_tokens": 3', b"\x00\xff", b"nul"])
def test_what_cannot_be_read_is_counted_without_its_text(line: bytes) -> None:
    record = exported.read(line, NOW, 4)
    assert record == Unread(at=NOW, line=4, head="request record", example="")


def test_odd_values_are_absent_and_never_zero() -> None:
    odd = b'"e2e_latency": "soon", "spec_correct_drafts_histogram": [1, -2]'
    line = b'{"prompt_tokens": true, "completion_tokens": 4, ' + odd + b"}"
    record = exported.read(line, NOW)
    assert isinstance(record, RequestDone)
    assert (record.prompt_tokens, record.latency_seconds, record.accepted_drafts) == (None, None, None)
    assert exported.read(b"", NOW) is None
    assert exported.read(b'{"embedding": 1}', NOW) is None


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_no_bytes_raise(line: bytes, live: bool, cut: bool) -> None:
    exported.read(line, NOW, live=live, cut=cut)


@given(st.integers(0, len(REAL.read_bytes()) - 1), st.binary(min_size=1, max_size=3), st.booleans())
def test_no_damage_raises(at: int, patch: bytes, cut: bool) -> None:
    for line in (REAL.read_bytes()[:at] + patch + REAL.read_bytes()[at + len(patch) :]).splitlines():
        exported.read(line, NOW, cut=cut)
