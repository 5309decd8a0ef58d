"""The NVIDIA driver's words in the kernel log: Xid faults, and cards that fall off the bus."""

import re

from ddwatch.core.grammar.message import Format, Message
from ddwatch.core.records import Record, Xid

FAULT = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{5,20})\): (\d{1,5})\b")
PREVIOUS = re.compile(r"caused by previous Xid (\d{1,5})\b")
GPU = re.compile(r"NVRM: (?:The NVIDIA )?GPU (?:at PCI:)?([0-9A-Fa-f:.]{5,20})")
FALLEN = "fallen off the bus"


def read(message: Message) -> Record | None:
    """A fault with its number; None for the driver's other lines, also for parts of a longer report."""
    text = message.text
    fault = FAULT.match(text)
    if fault is not None:
        previous = PREVIOUS.search(text)
        return Xid(
            **message.where,
            code=int(fault[2]),
            pci_bus=fault[1],
            previous_code=int(previous[1]) if previous else None,
        )
    if text.startswith("NVRM: Xid"):
        return message.unread("NVRM: Xid", [])
    gpu = GPU.match(text)
    if gpu is not None and FALLEN in text:
        return Xid(**message.where, code=None, pci_bus=gpu[1].rstrip(":"))
    return None


FORMAT = Format("xid", r"NVRM: ", read)
