"""Lines of SGLang's request records (`--export-metrics-to-file`): numbers only, never a word of the request."""

import re
from typing import Any

import msgspec

from ddwatch.core.grammar import finish
from ddwatch.core.grammar.message import Message
from ddwatch.core.records import Rank, RequestDone, Unread

HEAD = "request record"
"""Name of these lines among what could be read and what could not."""
BEHIND_TEXT = re.compile(r'\}", "(?=[a-z_]{1,60}": )')
"""Where the numbers begin in a line whose beginning, the request's own parameters, was cut away.

`json.dump` writes `{"request_parameters": "…", "id": …}`; inside that text every quote has a backslash before it.
"""


class Exported(msgspec.Struct):
    """What is read of a line; request_parameters, ids and log probabilities are passed over unread."""

    dp_rank: Any = None
    finish_reason: Any = None
    prompt_tokens: Any = None
    completion_tokens: Any = None
    cached_tokens: Any = None
    e2e_latency: Any = None
    first_token_latency: Any = None
    queue_time: Any = None
    decode_throughput: Any = None
    num_retractions: Any = None
    total_retractions: Any = None
    spec_accept_length: Any = None
    spec_verify_ct: Any = None
    spec_correct_drafts_histogram: Any = None
    spec_accept_histogram: Any = None
    request_received_ts: Any = None
    prefill_finished_time: Any = None
    prefill_finished_ts: Any = None
    response_sent_to_client_ts: Any = None
    request_finished_ts: Any = None


DECODER = msgspec.json.Decoder(Exported)


def read(
    line: bytes, now: float, number: int | None = None, *, live: bool = True, cut: bool = False
) -> RequestDone | Unread | None:
    """The request that a line tells of.

    Args:
        line: one line of a record file, without its newline.
        now: seconds since the epoch; when a live line's request was over.
        number: 1-based number of the line.
        live: False for a line that stood there before, whose own time places it.
        cut: whether the beginning of a too long line is missing.

    Returns:
        None for a line that is blank, that tells of something without tokens, or whose time nobody knows.
    """
    text = line.decode("utf-8", "replace").strip()
    if not text:
        return None
    if cut:
        behind = BEHIND_TEXT.search(text)
        text = '{"' + text[behind.end() :] if behind is not None else ""
    try:
        found = DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Unread(at=now, line=number, head=HEAD, example="")
    own = finish.amount(found.response_sent_to_client_ts) or finish.amount(found.request_finished_ts)
    when = now if live else own
    if when is None or when > now:
        return None
    meta = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not None}
    return finish.done(Message("", when, None, Rank(), number), meta)
