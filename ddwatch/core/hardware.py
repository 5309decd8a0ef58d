"""What the cards and the host reported: facts of NVML, psutil and the kernel, before anybody judges them.

`None` (or a missing key) is "not reported": not supported, not permitted, or too old a driver. It is never zero.
"""

from typing import Literal

from msgspec import Struct

CARDS_AT_MOST = 64
"""Cards of one host that are kept; NVML itself knows fewer on any board that exists."""
PROCESSES_AT_MOST = 32


INSTANCES_AT_MOST = 16
"""Parts of one card; NVIDIA splits none into more than seven."""


class GpuInstance(Struct, frozen=True, kw_only=True):
    """One part of a card that is split (MIG); how busy a part is, NVML does not tell."""

    uuid: str | None = None
    profile: str | None = None
    """Its size as NVIDIA writes it: `3g.40gb`, three sevenths of the compute and 40 GB."""
    gpu_instance: int | None = None
    """Number of the part that owns memory; may hold several compute instances."""
    compute_instance: int | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None


class GpuProcess(Struct, frozen=True, kw_only=True):
    """One process that computes on a card."""

    pid: int
    memory_bytes: int | None = None


class GpuCard(Struct, frozen=True, kw_only=True):
    """One reading of one card; the upper part is read every second, the lower one every 30 s and carried along."""

    index: int
    """NVML's number; it may change with a reboot, so nothing is keyed by it while the UUID is known."""
    uuid: str | None = None
    pci_bus: str | None = None
    """`0000:41:00.0`, lower case, as lspci writes it."""
    name: str | None = None
    lost: str | None = None
    """Why nothing is read from this card; then all values are absent."""

    utilization_ratio: float | None = None
    """Share of the last sample period in which a kernel ran; 1 proves nothing about progress."""
    memory_utilization_ratio: float | None = None
    """Share in which device memory was read or written."""
    sm_clock_hertz: float | None = None
    memory_clock_hertz: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    memory_used_bytes: int | None = None
    performance_state: int | None = None
    """0 (P0, fastest) to 15."""
    reasons: int | None = None
    """Clock-event reasons as NVML's bit mask; 0 is "runs as fast as it can"."""
    pcie_generation: int | None = None
    pcie_width: int | None = None

    memory_total_bytes: int | None = None
    power_limit_watts: float | None = None
    """The limit in force."""
    sm_clock_max_hertz: float | None = None
    memory_clock_max_hertz: float | None = None
    pcie_generation_max: int | None = None
    """Of this card in this slot."""
    pcie_width_max: int | None = None
    memory_temperature_celsius: float | None = None
    slowdown_celsius: float | None = None
    """Temperature at which the hardware slows down."""
    mig: bool | None = None
    """Whether the card is split; utilisation of the whole is then not reported."""
    instances: tuple[GpuInstance, ...] = ()
    """The parts of a card that is split, bounded."""
    numa_node: int | None = None
    pcie_replays: int | None = None
    pcie_receive_bytes_per_second: float | None = None
    """Only where it was asked for: the call blocks while it samples."""
    pcie_send_bytes_per_second: float | None = None
    reason_seconds: dict[str, float] = {}
    """Cumulative time under each clock-event reason that the driver counts."""
    ecc_errors: dict[str, int] = {}
    """`corrected` and `uncorrected` since the driver was loaded, `corrected_lifetime` and `uncorrected_lifetime`."""
    rows_remapped: int | None = None
    """Memory rows replaced because of uncorrectable errors."""
    remap_pending: bool | None = None
    """A row (or page, on older cards) is to be replaced: needs a reset of the card."""
    remap_failed: bool | None = None
    recovery_action: str | None = None
    """What the driver asks for: `none`, `reset`, `reboot`, `drain-p2p`, `drain-and-reset`, ..."""
    nvlinks: int | None = None
    """NVLinks that the card has."""
    nvlinks_active: int | None = None
    nvlink_errors: dict[str, int] = {}
    """`crc`, `replay`, `recovery`: sums over the links."""
    processes: tuple[GpuProcess, ...] = ()
    """Largest first, bounded."""


class GpuReading(Struct, frozen=True, kw_only=True):
    """All cards of this host at one instant."""

    at: float
    cards: tuple[GpuCard, ...]
    source: str = "nvml"
    driver: str | None = None


HostRole = Literal["scheduler", "detokenizer", "tokenizer", "controller"]
"""Kind of an SGLang process; `tokenizer` is the one that also serves HTTP."""


class HostProcess(Struct, frozen=True, kw_only=True):
    """One process of the served engine."""

    pid: int
    role: HostRole
    rank: str | None = None
    """`TP3`, `DP0 TP3`, as its title says."""
    cpu_ratio: float | None = None
    """CPU of its main thread, where its loop runs, since the last reading, as share of one core."""
    resident_bytes: int | None = None


class HostReading(Struct, frozen=True, kw_only=True):
    """The machine around the cards at one instant."""

    at: float
    source: str = "host"
    cores: int | None = None
    cpu_ratio: float | None = None
    """Share of all cores that was busy since the last reading."""
    steal_ratio: float | None = None
    """Share that a hypervisor took away."""
    run_queue: int | None = None
    """Threads that run or could run at this instant."""
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    swap_bytes_per_second: float | None = None
    """Read back from swap and written to it since the last reading."""
    numa_nodes: int | None = None
    numa_balancing: bool | None = None
    governors: tuple[str, ...] = ()
    """CPU frequency governors in use, most frequent first."""
    processes: tuple[HostProcess, ...] = ()
