"""`Prefill batch`: a prefill, or a chunk of one, was scheduled."""

import re
from typing import Any

from ddwatch.core.grammar.decode import GRAPH
from ddwatch.core.grammar.fields import Fields, extra, number, shape, tokenise, whole
from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import PrefillBatch, Record

HEAD = re.compile(r"Prefill batch(?: \[(\d{1,18})\])?((?: \w{1,32}=[^\s,]{1,64})*)[.,] ?")

READERS: dict[str, tuple[str, Any]] = {
    "#new-seq": ("new_requests", whole),
    "#new-token": ("new_tokens", whole),
    "#cached-token": ("cached_tokens", whole),
    "#running-req": ("running", whole),
    "#queue-req": ("queued", whole),
    "#pending-token": ("pending_tokens", whole),
    "token usage": ("token_usage", number),
    "full token usage": ("full_usage", number),
    "input throughput (token/s)": ("throughput_tokens_per_second", number),
}
CORE = frozenset({"new_requests", "new_tokens"})


def read(message: Message) -> Record | None:
    """The batch, or Unread when neither its requests nor its tokens can be read."""
    text = message.text
    head = HEAD.match(text)
    if head is None:
        return message.unread("Prefill batch", []) if "#" in text or ": " in text else None
    fields = tokenise(text[head.end() :])
    known: dict[str, Any] = {}
    others: Fields = []
    readable = True
    for key, value in fields:
        reader = READERS.get(key)
        if reader is None:
            if GRAPH.match(key) and value in ("True", "False"):
                known.setdefault("graph", value == "True")
            else:
                others.append((key, value))
            continue
        name, convert = reader
        if name in known:
            continue
        try:
            known[name] = convert(value)
        except ValueError:
            readable = readable and name not in CORE
            others.append((key, value))
    if not readable or not known.keys() & CORE:
        return message.unread(
            "Prefill batch", [f"{key if key in READERS else '<key>'}: {shape(value)}" for key, value in fields[:16]]
        )
    full = known.pop("full_usage", None)
    if known.get("token_usage") is None:
        known["token_usage"] = full
    if head[2]:
        others = [*(tuple(word.split("=", 1)) for word in head[2].split()), *others]
    return PrefillBatch(
        at=message.at,
        stamp=message.stamp,
        rank=message.rank,
        line=message.line,
        iteration=int(head[1]) if head[1] else None,
        extra=extra(others) if others else (),
        **known,
    )


FORMAT = Format("prefill", r"Prefill batch\b", read)
