"""Finished requests (`--log-requests`, text or JSON): numbers only, never a word of the request."""

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


def count(value: object) -> int | None:
    """A whole number, or nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15 else None


def amount(value: object) -> float | None:
    """A number, or nothing."""
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if fine else None  # type: ignore[arg-type]


def done(message: Message, meta: dict[str, Any]) -> RequestDone | None:
    """The record of one request's meta_info."""
    finish = meta.get("finish_reason")
    kind = finish.get("type") if isinstance(finish, dict) else finish
    known = RequestDone(
        **message.where,
        prompt_tokens=count(meta.get("prompt_tokens")),
        completion_tokens=count(meta.get("completion_tokens")),
        cached_tokens=count(meta.get("cached_tokens")),
        latency_seconds=amount(meta.get("e2e_latency")),
        accept_length=amount(meta.get("spec_accept_length")),
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
