"""The DDTree profile side file: JSON lines with means over some verify rounds."""

from typing import Any

import msgspec

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Record, TreeProfile


class Profile(msgspec.Struct):
    """The parts of one object that are read."""

    type: str
    profiled_rounds: int | None = None
    meta: dict[str, Any] = {}
    stages: dict[str, Any] = {}


DECODER = msgspec.json.Decoder(Profile)


def mean(group: object, key: str) -> float | None:
    """One average, or nothing."""
    value = group.get(key) if isinstance(group, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def read(message: Message) -> Record | None:
    """`verify_seconds` is the GPU mean of the stage target_verify."""
    try:
        profile = DECODER.decode(message.text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if profile.type != "sglang_speculative_tree_profile":
        return None
    verify = mean(profile.stages.get("target_verify"), "gpu_avg_ms")
    return TreeProfile(
        **message.where,
        rounds=profile.profiled_rounds,
        mean_accept_length=mean(profile.meta.get("mean_accept_len"), "avg"),
        tree_budget=mean(profile.meta.get("tree_budget"), "avg"),
        verify_seconds=None if verify is None else round(verify / 1000, 9),
    )


FORMAT = Format("profile", r'\{"(?=.{0,4000}"sglang_speculative_tree_profile")', read)
