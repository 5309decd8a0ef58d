"""The grammar: text of a log in, records out; one small file per head, all of them listed here."""

from ddwatch.core.grammar import (
    crash,
    ddtree,
    decode,
    dflash,
    finish,
    jit,
    load,
    prefill,
    profile,
    ready,
    retract,
    start,
    stop,
    watchdog,
    xid,
)
from ddwatch.core.grammar.message import Format

FORMATS: tuple[Format, ...] = (
    decode.FORMAT,
    prefill.FORMAT,
    finish.TEXT,
    finish.JSON,
    retract.FORMAT,
    start.FORMAT,
    load.WEIGHTS,
    load.GRAPHS,
    load.LIMITS,
    ready.FORMAT,
    stop.FORMAT,
    crash.EXCEPTION,
    crash.SIGNAL,
    crash.NCCL,
    crash.KILLED,
    watchdog.FORMAT,
    jit.FORMAT,
    xid.FORMAT,
    ddtree.SETUPS,
    ddtree.VERIFIES,
    dflash.TIMINGS,
    dflash.WARNINGS,
    profile.FORMAT,
)
"""Every head, tried in this order; the first whose head begins the message reads it."""

# The reader needs the list above, so it is imported after it.
from ddwatch.core.grammar.reader import LogReader  # noqa: E402

__all__ = ["FORMATS", "Format", "LogReader"]
