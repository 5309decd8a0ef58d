"""`Decode batch`: the window mean of one rank's decode steps, in every dialect from 0.2 to 0.5.23 and the forks."""

import re
from typing import Any

from ddwatch.core.grammar.fields import Fields, extra, number, shape, tokenise, truth, whole
from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import ContextFlaw, DecodeBatch, Record

HEAD = re.compile(r"Decode batch(?: \[(\d{1,18})\])?((?: \w{1,32}=[^\s,]{1,64})*)[.,] ?")
"""`Decode batch.`, `Decode batch,`, `Decode batch [124],`, `Decode batch phase=tp,`."""

READERS: dict[str, tuple[str, Any]] = {
    "#running-req": ("running", whole),
    "#token": ("total_context_tokens", whole),
    "#full token": ("full_tokens", whole),
    "#gpu-token": ("gpu_tokens", whole),
    "#cpu-token": ("cpu_tokens", whole),
    "#swa token": ("swa_tokens", whole),
    "token usage": ("token_usage", number),
    "full token usage": ("full_usage", number),
    "gpu token usage": ("gpu_usage", number),
    "mamba num": ("mamba_num", whole),
    "mamba usage": ("mamba_usage", number),
    "accept len": ("accept_length", number),
    "accept rate": ("accept_rate", number),
    "gen throughput (token/s)": ("throughput_tokens_per_second", number),
    "#queue-req": ("queued", whole),
    "#retracted-req": ("retracted", whole),
    "spec tokens": ("spec_tokens", whole),
    "spec rounds": ("spec_rounds", whole),
    "cuda graph": ("graph", truth),
    "cpu graph": ("graph", truth),
    "npu graph": ("graph", truth),
    "musa graph": ("graph", truth),
    "hip graph": ("graph", truth),
    "xpu graph": ("graph", truth),
}
GRAPH = re.compile(r"\w{2,12} graph$")
CORE = frozenset({"running", "total_context_tokens", "full_tokens", "accept_length", "throughput_tokens_per_second"})
"""Without any of these a line says nothing; an unreadable one of these makes the line unread."""


def values(fields: Fields) -> tuple[dict[str, Any], Fields]:
    """Known fields by record name, and the others; raises ValueError on an unreadable core field."""
    known: dict[str, Any] = {}
    others: Fields = []
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
            if name in CORE:
                raise
            others.append((key, value))
    return known, others


def flaw_of(running: int | None, tokens: int | None) -> ContextFlaw | None:
    """Why `#token` is not the context of what runs, as far as one line tells."""
    return "request-end" if tokens == 0 and running else None


def read(message: Message) -> Record | None:
    """The batch, or Unread when its core fields cannot be read."""
    text = message.text
    head = HEAD.match(text)
    if head is None:
        return message.unread("Decode batch", []) if "#" in text or ": " in text else None
    fields = tokenise(text[head.end() :])
    try:
        known, others = values(fields)
    except ValueError:
        known, others = {}, []
    if not known.keys() & CORE:
        return message.unread(
            "Decode batch", [f"{key if key in READERS else '<key>'}: {shape(value)}" for key, value in fields[:16]]
        )
    full = known.pop("full_tokens", None)
    cpu = known.pop("cpu_tokens", None)
    usages = known.pop("full_usage", None), known.pop("gpu_usage", None)
    if cpu is not None:
        known["total_context_tokens"] = cpu
    elif known.get("total_context_tokens") is None and full is not None:
        known["total_context_tokens"] = full
    if known.get("token_usage") is None:
        known["token_usage"] = next((usage for usage in usages if usage is not None), None)
    if head[2]:
        others = [*(tuple(word.split("=", 1)) for word in head[2].split()), *others]
    return DecodeBatch(
        at=message.at,
        stamp=message.stamp,
        rank=message.rank,
        line=message.line,
        iteration=int(head[1]) if head[1] else None,
        context_flaw=flaw_of(known.get("running"), known.get("total_context_tokens")),
        extra=extra(others) if others else (),
        **known,
    )


FORMAT = Format("decode", r"Decode batch\b", read)
