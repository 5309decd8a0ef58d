"""Decodes SGLang's forward-pass metrics: three frames of a ZMQ message to one forward pass, strictly typed."""

import math
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ddwatch.core.engine import ForwardPass

KNOWN_VERSION = 1
PARTS = 3
COUNTER_BYTES = 8
Count = Annotated[int, Meta(ge=0, lt=2**53)]


class FpmUnreadable(ValueError):
    """The frames are not a forward pass; the message says what is wrong."""


class FpmVersionUnknown(ValueError):
    """The frames are of another version of the format; the message is one sentence."""

    def __init__(self, version: int) -> None:
        super().__init__(f"FPM version {version} is not known to this ddwatch (knows {KNOWN_VERSION})")
        self.version = version


class _Scheduled(Struct):
    num_prefill_requests: Count
    sum_prefill_tokens: Count
    num_decode_requests: Count
    sum_decode_kv_tokens: Count


class _Queued(Struct):
    num_prefill_requests: Count
    num_decode_requests: Count


class _Message(Struct):
    version: int
    dp_rank: Count
    counter_id: Count
    wall_time: float
    scheduled_requests: _Scheduled
    queued_requests: _Queued | None = None


class _Head(Struct):
    version: int


_MESSAGE = msgspec.msgpack.Decoder(_Message)
_HEAD = msgspec.msgpack.Decoder(_Head)


def read_pass(frames: list[bytes], at: float, source: str) -> ForwardPass:
    """The forward pass of one message.

    Args:
        frames: its parts: topic, number, body.
        at: when it arrived, seconds since the epoch.
        source: name of the source.

    Raises:
        FpmVersionUnknown: the body names another version.
        FpmUnreadable: it is not such a message.
    """
    if len(frames) != PARTS or len(frames[1]) != COUNTER_BYTES:
        raise FpmUnreadable(f"a message of {len(frames)} parts is no forward pass")
    try:
        message = _MESSAGE.decode(frames[2])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(frames[2]) from error
    if message.version != KNOWN_VERSION:
        raise FpmVersionUnknown(message.version)
    if not math.isfinite(message.wall_time) or message.wall_time < 0:
        raise FpmUnreadable("a forward pass without a time")
    scheduled, queued = message.scheduled_requests, message.queued_requests
    return ForwardPass(
        at=at,
        source=source,
        dp_rank=message.dp_rank,
        counter=message.counter_id,
        seconds=message.wall_time,
        prefill_requests=scheduled.num_prefill_requests,
        prefill_tokens=scheduled.sum_prefill_tokens,
        decode_requests=scheduled.num_decode_requests,
        decode_context_tokens=scheduled.sum_decode_kv_tokens,
        queued=None if queued is None else queued.num_prefill_requests + queued.num_decode_requests,
    )


def _refusal(body: bytes) -> FpmVersionUnknown | FpmUnreadable:
    """Another version may have other fields, so its number is looked for alone."""
    try:
        version = _HEAD.decode(body).version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FpmUnreadable("a message that is no forward pass")
    if version != KNOWN_VERSION:
        return FpmVersionUnknown(version)
    return FpmUnreadable("a forward pass with other fields than this ddwatch knows")
