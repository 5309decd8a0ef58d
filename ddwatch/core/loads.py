"""Reads the JSON of SGLang's `/v1/loads?include=all`, as far as each release gives it."""

import msgspec
from msgspec import Struct

from ddwatch.core.records import Loads, RankLoad

MOMENTS = 6


class LoadsUnreadable(ValueError):
    """The document is not what SGLang sends; the message is one sentence."""


class _Load(Struct):
    dp_rank: int | None = None
    num_running_reqs: int | None = None
    num_waiting_reqs: int | None = None
    num_used_tokens: int | None = None
    max_total_num_tokens: int | None = None
    decode_moments: list[float] | None = None


class _Document(Struct):
    loads: list[_Load]
    version: str | None = None


_DECODER = msgspec.json.Decoder(_Document, strict=False)


def _rank(load: _Load) -> RankLoad:
    moments = load.decode_moments
    whole = moments is not None and len(moments) == MOMENTS
    return RankLoad(
        dp_rank=load.dp_rank,
        running=load.num_running_reqs,
        queued=load.num_waiting_reqs,
        used_tokens=load.num_used_tokens,
        max_total_tokens=load.max_total_num_tokens,
        moments=(moments[0], moments[1], moments[2], moments[3], moments[4], moments[5])
        if moments is not None and whole
        else None,
    )


def read_loads(data: bytes, at: float, source: str) -> Loads:
    """One reading of all ranks.

    Args:
        data: body of the answer, JSON.
        at: when it was read, seconds since the epoch.
        source: name of the source.

    Raises:
        LoadsUnreadable: the body is not JSON, or not this document.
    """
    try:
        document = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "not JSON" if not isinstance(error, msgspec.ValidationError) else "not SGLang's load document"
        raise LoadsUnreadable(f"/v1/loads answered with something that is {what}; is this SGLang's port?") from error
    return Loads(at=at, source=source, ranks=tuple(_rank(load) for load in document.loads), version=document.version)
