"""What SGLang publishes is read; another version is refused by its number; anything else is no forward pass."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.engine import ForwardPass
from ddwatch.core.fpm import FpmUnreadable, FpmVersionUnknown, read_pass
from tests.fakes.fpm_engine import Message, Queued, Scheduled, frames

FRAMES = Path(__file__).parents[1] / "golden" / "real_sglang" / "ngram-fpm-frames.json"
counts = st.integers(0, 10**9)


def plain(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(Message())
    return {**document, **changes}


def test_the_captured_message_of_a_real_server_is_a_heartbeat() -> None:
    found = read_pass([bytes.fromhex(part) for part in json.loads(FRAMES.read_text())], 5.0, "fpm")
    assert found == ForwardPass(at=5.0, dp_rank=0, counter=7, seconds=0.0, queued=0)
    assert found.heartbeat


@given(
    dp=st.integers(0, 63),
    counter=counts,
    seconds=st.floats(0, 100),
    numbers=st.tuples(counts, counts, counts, counts, counts, counts),
)
def test_all_that_is_published_comes_through(
    dp: int, counter: int, seconds: float, numbers: tuple[int, int, int, int, int, int]
) -> None:
    prefills, tokens, decodes, context, waiting, retracted = numbers
    message = Message(
        dp_rank=dp,
        counter_id=counter,
        wall_time=seconds,
        scheduled_requests=Scheduled(
            num_prefill_requests=prefills,
            sum_prefill_tokens=tokens,
            num_decode_requests=decodes,
            sum_decode_kv_tokens=context,
        ),
        queued_requests=Queued(num_prefill_requests=waiting, num_decode_requests=retracted),
    )
    assert read_pass(frames(message, counter), 1.0, "fpm") == ForwardPass(
        at=1.0,
        dp_rank=dp,
        counter=counter,
        seconds=seconds,
        prefill_requests=prefills,
        prefill_tokens=tokens,
        decode_requests=decodes,
        decode_context_tokens=context,
        queued=waiting + retracted,
    )


@pytest.mark.parametrize(
    "body",
    [
        plain(version=2),
        {"version": 2},
        {"version": 2, "scheduled_requests": "elsewhere", "dp_rank": "zero"},
        plain(version=0),
    ],
)
def test_another_version_is_refused_by_its_number_whatever_its_fields(body: dict[str, Any]) -> None:
    with pytest.raises(FpmVersionUnknown, match=r"FPM version \d is not known to this ddwatch \(knows 1\)"):
        read_pass(frames(body, 0), 0.0, "fpm")


def test_fields_that_a_later_release_adds_do_no_harm() -> None:
    assert read_pass(frames(plain(more={"x": 1}), 0), 0.0, "fpm").counter == 0


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"", b"12345678"],
        [b"", b"short", msgspec.msgpack.encode(Message())],
        [b"", b"12345678", b""],
        [b"", b"12345678", b"\xc1"],
        [b"", b"12345678", msgspec.msgpack.encode([1, "", 0, 0, 0.0])],
        [b"", b"12345678", msgspec.msgpack.encode({"hello": 1})],
        frames(plain(wall_time=float("nan")), 0),
        frames(plain(wall_time=-1.0), 0),
        frames(plain(wall_time="0.1"), 0),
        frames(plain(dp_rank=-1), 0),
        frames(plain(counter_id=2**60), 0),
        frames(plain(version="1"), 0),
        frames(plain(version=True), 0),
        frames(plain(scheduled_requests={}), 0),
        frames(plain(scheduled_requests=None), 0),
    ],
)
def test_anything_else_is_no_forward_pass(parts: list[bytes]) -> None:
    with pytest.raises(FpmUnreadable):
        read_pass(parts, 0.0, "fpm")


@given(st.lists(st.binary(max_size=80), max_size=5), st.booleans())
def test_any_bytes_are_read_or_refused(parts: list[bytes], bodies: bool) -> None:
    try:
        read_pass([b"", b"12345678", *parts[:1]] if bodies else parts, 0.0, "fpm")
    except (FpmUnreadable, FpmVersionUnknown):
        return
