"""Start-up phases: weights, graph capture, and the limits that the scheduler prints at the end."""

import re

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.grammar.text import clean
from ddwatch.core.records import GraphSizes, LoadPhase, LoadProgress, PoolSized, Record

GRAPH = re.compile(r"graph (begin|end)\b", re.IGNORECASE)
SIZES = re.compile(r"\bbs(?:=| )\[([\d, ]{1,4000})\]?")
SECONDS = re.compile(r"(?:elapsed=|Time elapsed: )(\d{1,9}(?:\.\d{1,9})?) ?s")
MODEL = re.compile(r"\btype=([\w.]{1,100})")
LIMIT = re.compile(r"(\w{1,40})=(\d{1,18})\b")

SIZE_LIMIT = 1024


def weights(message: Message) -> Record | None:
    """`Load weight begin.` and `Load weight end. elapsed=…, type=…`."""
    phase: LoadPhase = "weights-begin" if message.text.startswith("Load weight begin") else "weights-end"
    return progress(message, phase)


def progress(message: Message, phase: LoadPhase) -> LoadProgress:
    """The phase with its duration and model class, where the line tells them."""
    seconds = SECONDS.search(message.text)
    model = MODEL.search(message.text)
    return LoadProgress(
        **message.where,
        phase=phase,
        seconds=float(seconds[1]) if seconds else None,
        model_type=clean(model[1], 100) if model and phase == "weights-end" else None,
    )


def graph(message: Message) -> Record | None:
    """`Capture cuda graph begin|end|bs`, for any device and any of the target's and draft's graphs."""
    found = GRAPH.search(message.text)
    what = found[1].lower() if found else "bs"
    if what != "bs":
        return progress(message, "graph-begin" if what == "begin" else "graph-end")
    listed = SIZES.search(message.text)
    sizes = tuple(int(word) for word in re.findall(r"\d{1,7}", listed[1])[:SIZE_LIMIT]) if listed else ()
    return GraphSizes(**message.where, sizes=sizes) if sizes else message.unread("Capture graph bs", [])


def limits(message: Message) -> Record | None:
    """`max_total_num_tokens=…, chunked_prefill_size=…, max_running_requests=…, context_len=…`."""
    found = {name: int(value) for name, value in LIMIT.findall(message.text)}
    if "max_total_num_tokens" not in found:
        return message.unread("max_total_num_tokens", [])
    return PoolSized(
        **message.where,
        max_total_tokens=found["max_total_num_tokens"],
        max_running_requests=found.get("max_running_requests"),
        context_limit=found.get("context_len"),
        chunked_prefill_tokens=found.get("chunked_prefill_size"),
    )


WEIGHTS = Format("load", r"Load weight (?:begin|end)\b", weights)
GRAPHS = Format("graph", r"(?i:Capture (?:[\w-]{1,24} ){0,4}graph (?:begin|end|bs)\b)", graph)
LIMITS = Format("limits", r"max_total_num_tokens=", limits)
