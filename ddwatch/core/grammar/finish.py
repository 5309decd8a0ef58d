"""Finished requests (`--log-requests`, text or JSON): numbers only, never a word of the request."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ddwatch.core.arguments import Reader
from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.grammar.text import clean
from ddwatch.core.records import Record, RequestDone


class Out(msgspec.Struct, frozen=True):
    """The part of a JSON record that holds numbers."""

    meta_info: dict[str, Any] = {}


class Event(msgspec.Struct, frozen=True):
    """One line of `--log-requests-format json`."""

    event: str
    out: Out = Out()


EVENT = msgspec.json.Decoder(Event)
LONGEST_HISTOGRAM = 1024
PRINTED_COUNTS = re.compile(r"\[\d{1,15}(, ?\d{1,15}){0,1023}\]")


def count(value: object) -> int | None:
    """A whole number, or nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15 else None


def amount(value: object) -> float | None:
    """A number, or nothing."""
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if fine else None  # type: ignore[arg-type]


def histogram(value: object) -> tuple[int, ...] | None:
    """Steps by accepted drafts, as JSON reads them or as a text line prints them; or nothing."""
    if isinstance(value, str) and PRINTED_COUNTS.fullmatch(value):
        value = [int(number) for number in value.strip("[]").split(",")]
    if not isinstance(value, list) or not 0 < len(value) <= LONGEST_HISTOGRAM:
        return None
    counts = [count(number) for number in value]
    return None if None in counts else tuple(number for number in counts if number is not None)


def since_arrival(meta: Mapping[str, Any], *ends: str) -> float | None:
    """Seconds from the arrival to the first of these moments that is told."""
    began = amount(meta.get("request_received_ts"))
    ended = next((moment for name in ends if (moment := amount(meta.get(name))) is not None), None)
    return ended - began if began is not None and ended is not None and ended >= began else None


def first_token(meta: Mapping[str, Any]) -> float | None:
    """From arrival to first token; before 0.5.23 only the moments are told."""
    told = amount(meta.get("first_token_latency"))
    return since_arrival(meta, "prefill_finished_time", "prefill_finished_ts") if told is None else told


def decode_throughput(meta: Mapping[str, Any]) -> float | None:
    """Tokens behind the first per second; releases that tell of `total_retractions` (to 0.5.10) count the first too."""
    told, tokens = amount(meta.get("decode_throughput")), count(meta.get("completion_tokens"))
    if told is None or not tokens or "total_retractions" not in meta:
        return told
    return told * (tokens - 1) / tokens


def done(message: Message, meta: Mapping[str, Any]) -> RequestDone | None:
    """The record of one request's meta_info."""
    finish = meta.get("finish_reason")
    kind = finish.get("type") if isinstance(finish, dict) else finish
    where, dp = message.where, count(meta.get("dp_rank"))
    if dp is not None and message.rank.dp is None:
        # The process that prints it serves all ranks.
        where["rank"] = msgspec.structs.replace(message.rank, dp=dp)
    known = RequestDone(
        **where,
        first_token_seconds=first_token(meta),
        queue_seconds=amount(meta.get("queue_time")),
        throughput_tokens_per_second=decode_throughput(meta),
        accepted_drafts=histogram(meta.get("spec_correct_drafts_histogram", meta.get("spec_accept_histogram"))),
        retractions=count(meta.get("num_retractions", meta.get("total_retractions"))),
        prompt_tokens=count(meta.get("prompt_tokens")),
        completion_tokens=count(meta.get("completion_tokens")),
        cached_tokens=count(meta.get("cached_tokens")),
        latency_seconds=amount(meta.get("e2e_latency")),
        accept_length=amount(meta.get("spec_accept_length")) or None,
        verify_steps=count(meta.get("spec_verify_ct")),
        finish_reason=clean(kind, 20) if isinstance(kind, str) and kind in REASONS else None,
    )
    return known if known.prompt_tokens is not None or known.completion_tokens is not None else None


REASONS = frozenset({"stop", "length", "abort", "tool_calls", "content_filter"})


def read_text(message: Message) -> Record | None:
    """`Finish: obj=GenerateReqInput(…), out={…, 'meta_info': {…}}`; quotes are honoured, so text stays text."""
    reader = Reader(message.text, len("Finish: "))
    for name, start in reader.names():
        if name == "out":
            return done(message, meta_of(Reader(message.text, start)))
    return None


def meta_of(reader: Reader) -> dict[str, Any]:
    """The meta_info of a printed `out={…}`, or of the first of a list of them."""
    meta: dict[str, Any] = {}
    reader.enter("[")
    if reader.enter("{"):
        for name, start in reader.names():
            if name == "meta_info":
                inner = Reader(reader.text, start)
                if inner.enter("{"):
                    meta = inner.scalars()
    return meta


def read_json(message: Message) -> Record | None:
    """`{"event": "request.finished", "out": {"meta_info": {…}}, …}`."""
    try:
        event = EVENT.decode(message.text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return done(message, event.out.meta_info) if event.event == "request.finished" else None


TEXT = Format("finish", r"Finish: ", read_text)
JSON = Format("finish-json", r'\{"[^{}]{0,400}"event": ?"request\.finished"|\{"event": ?"request\.finished"', read_json)
