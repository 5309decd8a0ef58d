"""What NVML's clock-event reasons mean: which are normal on a healthy card, and which take speed from it.

The bits are those of nvmlClocksEventReasons in the NVML reference. A software power cap and idle clocks are normal:
decoding is bound by memory, whose clock they do not touch.
"""

from typing import NamedTuple

from ddwatch.core.hardware_view import FindingKind, Grade


class Reason(NamedTuple):
    """One bit of the mask."""

    bit: int
    name: str
    """Its label in metrics and on the screen."""
    words: str
    """What the card does, after its name in a sentence."""
    grade: Grade = "information"
    kind: FindingKind | None = None
    """The finding it gives when it holds for some seconds; None for one that is never worth a word."""
    next_step: str = ""


REASONS: tuple[Reason, ...] = (
    Reason(0x1, "gpu_idle", "has nothing to do"),
    Reason(0x2, "applications_clocks_setting", "keeps to the clocks that were set for it"),
    Reason(
        0x4,
        "sw_power_cap",
        "runs at its power limit",
        "information",
        "power-cap",
        "nothing, while its clocks stay at their normal; nvidia-smi -q -d POWER shows the limits",
    ),
    Reason(
        0x8,
        "hw_slowdown",
        "is slowed down by its hardware (heat or power)",
        "warning",
        "hw-slowdown",
        "look at its temperature and power cables: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
    ),
    Reason(0x10, "sync_boost", "keeps to the clock of its sync boost group"),
    Reason(
        0x20,
        "sw_thermal_slowdown",
        "is slowed down by the driver because it is too hot",
        "warning",
        "thermal",
        "look at fans, airflow and inlet temperature of this card's slot",
    ),
    Reason(
        0x40,
        "hw_thermal_slowdown",
        "is slowed down by its hardware because it is too hot",
        "critical",
        "thermal",
        "check fans and airflow now: clocks are halved or worse until it cools down",
    ),
    Reason(
        0x80,
        "hw_power_brake_slowdown",
        "is braked by the power supply",
        "critical",
        "power-brake",
        "check power supplies and their cables: the host tells the card to take less, clocks are halved or worse",
    ),
    Reason(0x100, "display_clock_setting", "keeps to a clock that a display needs"),
)

KNOWN = sum(reason.bit for reason in REASONS)
POWER_CAP = 0x4
BAD = 0x8 | 0x20 | 0x40 | 0x80
"""Under one of these nothing is learned as normal."""


def names(mask: int | None) -> tuple[str, ...]:
    """The reasons that a mask holds; a bit that this version does not know is named by its value."""
    if mask is None:
        return ()
    found = [reason.name for reason in REASONS if mask & reason.bit]
    rest = mask & ~KNOWN
    return (*found, *((f"0x{rest:x}",) if rest else ()))
