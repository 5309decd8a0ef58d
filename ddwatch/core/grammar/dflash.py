"""Lines of DFLASH forks: synchronised step times, and warnings of the drafter that explain a lower rate."""

import re

from ddwatch.core.grammar.fields import number
from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.grammar.text import clean
from ddwatch.core.records import Record, SpeculationSetup, VerifyTiming

PAIR = re.compile(r"\b(\w{1,24})=([\w.+-]{1,24})")
BLOCK = re.compile(r"\bblock_size=(\d{1,6})")
USED_BLOCK = re.compile(r"\bspeculative_num_draft_tokens=(\d{1,6})")
WARNING_LIMIT = 200


def timing(message: Message) -> Record | None:
    """`DFLASH decode-batch timing (synced wall ms): bs=1 total=26.412 draft=5.310 verify=19.842 draft_extend=nan`."""
    seconds: dict[str, float | None] = {}
    try:
        for name, value in PAIR.findall(message.text.partition("):")[2]):
            seconds[name] = number(value)
    except ValueError:
        return message.unread("decode-batch timing", [])
    batch = seconds.get("bs")
    times = [seconds.get(name) for name in ("total", "draft", "verify")]
    total, draft, verify = (None if time is None else round(time / 1000, 9) for time in times)
    if total is None and verify is None:
        return message.unread("decode-batch timing", [])
    return VerifyTiming(
        **message.where,
        batch=None if batch is None else int(batch),
        step_seconds=total,
        draft_seconds=draft,
        verify_seconds=verify,
    )


def warning(message: Message) -> Record | None:
    """A sentence of the drafter, with the block size that is in force where it names one."""
    used = USED_BLOCK.search(message.text) or BLOCK.search(message.text)
    return SpeculationSetup(
        **message.where,
        algorithm=clean(message.text.partition(" ")[0], 32),
        block_size=int(used[1]) if used else None,
        warning=clean(message.text, WARNING_LIMIT),
    )


TIMINGS = Format("timing", r"\w{2,24} decode-batch timing \(synced wall ms\):", timing)
WARNINGS = Format(
    "drafter",
    r"D(?:DTREE|FLASH)\w{0,16} "
    r"(?:draft worker does not support|block size mismatch|fused KV materialization disabled)\b",
    warning,
)
