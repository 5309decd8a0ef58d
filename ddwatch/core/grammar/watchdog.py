"""The watchdog found a process that does not move."""

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Crash, Record


def read(message: Message) -> Record | None:
    """Old and new wording; a soft watchdog only reports."""
    soft = "soft=True" in message.text
    return Crash(**message.where, kind="watchdog", reason="soft watchdog: reported, not killed" if soft else None)


FORMAT = Format("watchdog", r"(?:[A-Z]\w{1,30} )?[Ww]atchdog timeout \(", read)
