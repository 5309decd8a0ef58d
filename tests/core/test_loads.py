"""The load document of a real SGLang is read; a foreign one is refused in one sentence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.loads import LoadsUnreadable, read_loads

CAPTURED = Path(__file__).parent.parent / "golden" / "real_sglang"


def test_what_a_real_server_said_is_read() -> None:
    loads = read_loads((CAPTURED / "ngram-v1_loads.json").read_bytes(), 5.0, "loads")
    assert loads.version == "0.5.23"
    (rank,) = loads.ranks
    assert rank.dp_rank == 0
    assert rank.moments == (103.0, 283.0, 555811.0, 1589.0, 1879930.0, 536.0)
    assert (rank.running, rank.queued, rank.used_tokens, rank.max_total_tokens) == (0, 0, 0, 4096)


def test_an_older_release_without_moments_gives_what_it_has() -> None:
    loads = read_loads(b'{"loads": [{"dp_rank": 1, "num_running_reqs": 3}]}', 5.0, "loads")
    assert loads.ranks[0].moments is None
    assert loads.ranks[0].running == 3
    assert loads.ranks[0].queued is None
    short = read_loads(b'{"loads": [{"decode_moments": [1, 2]}]}', 5.0, "loads")
    assert short.ranks[0].moments is None


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"<html>", "not JSON"), (b'{"a": 1}', "not SGLang's load document"), (b'{"loads": 5}', "not SGLang")],
)
def test_a_foreign_document_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(LoadsUnreadable, match=said):
        read_loads(body, 0.0, "loads")


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    try:
        read_loads(body, 0.0, "loads")
    except LoadsUnreadable as refused:
        assert "\n" not in str(refused)
