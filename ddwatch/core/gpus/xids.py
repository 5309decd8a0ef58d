"""What the driver's Xid codes mean, by allow-lists: the rest is told on the timeline and accuses no card.

The lists are those of the nvidia_gpu_exporter alert rules; meanings follow NVIDIA's Xid catalogue.
"""

from typing import NamedTuple

from ddwatch.core.hardware_view import Grade

CRITICAL = frozenset({48, 62, 64, 74, 79, 95, 119, 120})
WARNING = frozenset({94})
NVLINK = 74
FALLEN = 79
"""The code of a card that has fallen off the bus, also where the kernel prints no number."""


class Meaning(NamedTuple):
    """What happened, and what to do."""

    words: str
    next_step: str


RESET = "stop the work on it and reset it (nvidia-smi --gpu-reset -i N), then watch whether it comes again"
PROGRAM = "look at the engine's log first: the program did something that the card refused"
GSP = "reset the card or reboot; a newer driver may help"
MEANINGS: dict[int, Meaning] = {
    13: Meaning("a program's kernel failed", PROGRAM),
    31: Meaning("a program touched memory that is not its own", PROGRAM),
    43: Meaning("a program's work was stopped, the card is well", PROGRAM),
    45: Meaning("work was cleared away after its program ended", PROGRAM),
    48: Meaning("memory error that could not be corrected", RESET + "; with row remapping a reset replaces the row"),
    61: Meaning("internal micro-controller breakpoint or warning", RESET),
    62: Meaning("internal micro-controller halt", RESET + "; if it does, have the card exchanged"),
    63: Meaning("a memory row or page is being replaced", "reset the card when the service can spare it"),
    64: Meaning("replacing a memory row or page failed", RESET + "; if it does, have the card exchanged"),
    74: Meaning("NVLink error", "check its bridge or switch, nvidia-smi nvlink -e; reset the cards on that link"),
    79: Meaning(
        "the card has fallen off the bus",
        "reboot the host; if it comes again, check power, seating and temperature of the card",
    ),
    92: Meaning("many memory errors were corrected", "watch the ECC counters"),
    94: Meaning("memory error that was contained to one program", "restart the engine, reset the card when possible"),
    95: Meaning("memory error that was not contained", RESET),
    109: Meaning("a context switch took too long", PROGRAM),
    119: Meaning("the card's own processor (GSP) does not answer", GSP),
    120: Meaning("the card's own processor (GSP) reported an error", GSP),
    140: Meaning("memory error that was not recovered", RESET),
    154: Meaning("the driver asks for a reset or a reboot", "nvidia-smi -q shows the recovery action that it wants"),
}


def grade(code: int) -> Grade:
    """How grave a code is."""
    if code in CRITICAL:
        return "critical"
    return "warning" if code in WARNING else "information"


def meaning(code: int) -> Meaning:
    """What a code means; one without an entry is looked up by the reader."""
    return MEANINGS.get(code, Meaning("", f"look Xid {code} up in NVIDIA's Xid catalogue, and at dmesg around it"))
