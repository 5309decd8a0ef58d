"""What is shown of the cards and the host: their newest readings beside their own normal, and what was found."""

from typing import Literal

from msgspec import Struct

from ddwatch.core.hardware import GpuCard, HostReading

FindingKind = Literal[
    "lost",
    "recovery",
    "xid",
    "ecc",
    "remap",
    "thermal",
    "hw-slowdown",
    "power-brake",
    "memory-clock",
    "sm-clock",
    "straggler",
    "pcie-link",
    "nvlink",
    "power-cap",
    "cpu-bound",
    "cpu-queue",
    "cpu-steal",
    "swap",
    "numa-balancing",
    "governor",
]
Grade = Literal["critical", "warning", "information"]
"""critical: card or work in danger; warning: it may lengthen a step; information: normal on a healthy card."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be (or is worth knowing) of one card, or of the host."""

    kind: FindingKind
    grade: Grade
    severity: Literal["notice", "ok"]
    """`notice` for critical and warning; a finding alone never pages, because only a longer step proves harm."""
    since: float
    """When the condition began, as far as the readings go back; compare with the beginning of a slow step."""
    index: int | None = None
    """NVML's number of the card; None is the host."""
    uuid: str | None = None
    slows: bool = False
    """Whether it can make a step longer, so that it may be named as the cause of one that began with it."""
    sentence: str
    """What is seen, with its numbers."""
    next_step: str
    """What to do or look at."""
    shows_in: FindingKind | None = None
    """Of a straggler: the finding that says the same of a card by itself, and so the quantity that is low."""


GpuState = Literal["ok", "idle", "notice", "critical", "lost", "stale"]


class GpuTrend(Struct, frozen=True, kw_only=True):
    """The last minutes of one card in equal steps, newest last; None is a stretch without a reading."""

    step_seconds: float
    utilization_ratio: tuple[float | None, ...] = ()
    sm_clock_hertz: tuple[float | None, ...] = ()
    power_watts: tuple[float | None, ...] = ()
    temperature_celsius: tuple[float | None, ...] = ()


class GpuView(Struct, frozen=True, kw_only=True):
    """One card as it stands."""

    card: GpuCard
    at: float
    """When it was last read."""
    state: GpuState
    loaded: bool | None = None
    """Whether it has been at work for some seconds; None where utilisation is not reported."""
    rank: str | None = None
    """The rank of the engine that computes on it, where its processes can be told."""
    rank_memory_bytes: int | None = None
    """Memory of the engine's processes on it."""
    normal_sm_clock_hertz: float | None = None
    """Median under load of this watch, learned while nothing was wrong."""
    normal_memory_clock_hertz: float | None = None
    reasons: tuple[str, ...] = ()
    """Names of the clock-event reasons that hold now."""
    outlier: bool | None = None
    """Whether it differs from its peers; None where there are too few to compare."""
    outlier_sentence: str | None = None
    xids: dict[str, int] = {}
    """Xid code and how often it was seen in this watch; a card that fell off the bus counts as 79."""
    trend: GpuTrend | None = None
    findings: tuple[Finding, ...] = ()
    """Gravest first."""


class HostView(Struct, frozen=True, kw_only=True):
    """The host as it stands."""

    reading: HostReading
    findings: tuple[Finding, ...] = ()
