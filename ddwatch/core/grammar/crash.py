"""Signs of a dying engine: exceptions of its processes, signals from children, NCCL timeouts, the OOM killer.

An exception's reason stands at the end of the traceback that follows; the reader of lines joins the two.
"""

import re

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.grammar.text import clean
from ddwatch.core.records import Crash, CrashKind, Record

REASON_LIMIT = 200

LAST_LINE = re.compile(
    r"([A-Za-z_][\w.]{0,120}(?:Error|Exception|Interrupt|Exit|Timeout|Warning|Killed))(?:: (.*)|:?$)"
)
"""The line of a traceback that names the exception."""
OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory", re.IGNORECASE)

QUOTED = re.compile(r"'[^']{0,4096}'?|\"[^\"]{0,4096}\"?")
"""Quoted parts of an exception's message may be a user's text."""


def reason_of(line: str) -> str | None:
    """Type and bounded message of the exception that a traceback ends with; None for any other line."""
    found = LAST_LINE.match(line)
    if found is None:
        return None
    kind, words = found[1].rpartition(".")[2], found[2]
    return clean(f"{kind}: {QUOTED.sub('…', words)}" if words else kind, REASON_LIMIT)


def kind_of(reason: str | None) -> CrashKind:
    """An exception that says so is an out-of-memory."""
    return "out-of-memory" if reason and OUT_OF_MEMORY.search(reason) else "exception"


def read(message: Message) -> Record | None:
    """`<Process> hit an exception: Traceback …`, without its reason yet."""
    _, _, rest = message.text.partition("hit an exception")
    reason = reason_of(rest.lstrip(":. "))
    return Crash(**message.where, kind=kind_of(reason), reason=reason)


def signal(message: Message) -> Record | None:
    """The parent heard of a child's end; `proces` is how old releases spell it."""
    return Crash(**message.where, kind="sigquit")


def nccl(message: Message) -> Record | None:
    """A collective operation timed out or failed."""
    timeout = "timeout" in message.text.lower()
    return Crash(**message.where, kind="nccl", reason="collective operation timeout" if timeout else "NCCL error")


def killed(message: Message) -> Record | None:
    """The kernel or a supervisor ended the process."""
    memory = message.text.startswith("Out of memory")
    return Crash(**message.where, kind="killed", reason="killed by the kernel: out of memory" if memory else None)


EXCEPTION = Format("crash", r"[A-Z]\w{2,40} hit an exception\b", read)
SIGNAL = Format("signal", r"Received sigquit from a child proces|SIGQUIT received\b", signal)
NCCL = Format(
    "nccl",
    r"(?:\[rank\d{1,5}\]:)?\[[EF]\d{0,4} ?[^\]]{0,60}ProcessGroupNCCL\.cpp:\d+\] .{0,200}?"
    r"(?:[Tt]imeout|NCCL error|terminat|taking the (?:entire )?process down)",
    nccl,
)
KILLED = Format(
    "killed",
    r"(?:Rank \d{1,5} scheduler|Child process|Subprocess) [^'\"]{0,80}"
    r"(?:died|is dead|failed with (?:an )?exit code|exit code -9)"
    r"|Out of memory: Killed process \d{1,10} \((?:python\d?|sglang|pt_main)",
    killed,
)
