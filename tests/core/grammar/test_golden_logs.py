"""Every golden log reads to the records that stand beside it, and to the first decode line that was agreed."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ddwatch.core.records import DecodeBatch, Unread
from tests.core.grammar.golden import LOGS, lines_of, read_all, rendered

FILES = sorted(LOGS.glob("*.log"))
AGREED: dict[str, dict[str, Any] | None] = {
    row["file"]: row["first_decode"] for row in map(json.loads, (LOGS / "EXPECTED.jsonl").read_text().splitlines())
}
SHORT = {
    "ts": "stamp",
    "tokens": "total_context_tokens",
    "usage": "token_usage",
    "gen_tps": "throughput_tokens_per_second",
    "queue": "queued",
    "accept_len": "accept_length",
    "iter": "iteration",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_reads_to_the_records_beside_it(path: Path) -> None:
    assert rendered(read_all(lines_of(path))) == path.with_suffix(".expected.jsonl").read_text()


@pytest.mark.parametrize("name", AGREED)
def test_first_decode_line_is_the_agreed_one(name: str) -> None:
    agreed = AGREED[name]
    batches = [record for record in read_all(lines_of(LOGS / name)) if isinstance(record, DecodeBatch)]
    if agreed is None:
        assert batches == []
        return
    first = batches[0]
    seen: dict[str, Any] = {}
    for key in agreed:
        if key == "graph":
            seen[key] = str(first.graph)
        elif key in ("dp", "tp", "pp", "ep"):
            seen[key] = getattr(first.rank, key)
        else:
            seen[key] = getattr(first, SHORT.get(key, key))
    assert seen == agreed


def test_all_agreed_files_are_here() -> None:
    assert len(AGREED) == 52
    assert all((LOGS / name).exists() for name in AGREED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_unread(path: Path) -> None:
    assert [record for record in read_all(lines_of(path)) if isinstance(record, Unread)] == []


@pytest.mark.parametrize("name", ["plain", "ngram", "standalone"])
def test_every_batch_line_of_a_real_server_becomes_a_record(name: str) -> None:
    path = LOGS / f"real-0.5.23-{name}.log"
    text = path.read_text()
    counts = Counter(type(record).__name__ for record in read_all(lines_of(path)))
    assert counts["DecodeBatch"] == text.count("] Decode batch")
    assert counts["PrefillBatch"] == text.count("] Prefill batch")
    assert counts["ServerStart"] == 1
    assert counts["ServerReady"] == 1
    assert counts["PoolSized"] == 1
    assert counts["LoadProgress"] == text.count("] Load weight ")
    assert set(counts) == {"DecodeBatch", "PrefillBatch", "ServerStart", "ServerReady", "PoolSized", "LoadProgress"}
