"""Frames with cards and a host: each tells one story of a machine, judged by the real core, with honest noise."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec.structs import replace

from ddwatch.core.gpus.book import GpuBook
from ddwatch.core.hardware import GpuCard, GpuProcess, GpuReading, HostProcess, HostReading
from ddwatch.core.history import EventLog, Ring
from ddwatch.core.records import Xid
from ddwatch.core.snapshot import Frame, SourceView
from tests.tui import model_frames
from tests.tui.frames import LOG, NOON

GIB = 2**30
SECONDS = 200
ONSET = 60
"""Seconds before noon at which a story begins to go wrong."""
Change = Callable[[int, int], dict[str, Any]]
"""Number of the card and seconds before noon, to what differs from a healthy card at work."""
UP = SourceView(name="nvml", state="up", last_at=NOON - 0.5, detail="8 GPUs, driver 580.105.08", witness=False)
HOST_UP = SourceView(name="host", state="up", last_at=NOON - 2.0, detail="64 cores", witness=False)
REFUSED = "this user may not talk to the NVIDIA driver: give it access to /dev/nvidiactl and /dev/nvidia*"
NO_DRIVER = "no NVIDIA driver library (libnvidia-ml.so.1) here; without GPUs use --no-nvml"
RESTING: dict[str, Any] = {
    "utilization_ratio": 0.0,
    "memory_utilization_ratio": 0.0,
    "sm_clock_hertz": 0.18e9,
    "memory_clock_hertz": 0.405e9,
    "power_watts": 14.0,
    "temperature_celsius": 31.0,
    "performance_state": 8,
    "reasons": 0x1,
    "pcie_generation": 1,
}


def card(index: int, rng: random.Random, changes: dict[str, Any]) -> GpuCard:
    """A healthy card at work, with noise; of a lost one only the names are left."""
    healthy = GpuCard(
        index=index,
        uuid=f"GPU-{index:08x}-2d4b-11ef-9c1a-0242ac120002",
        pci_bus=f"0000:{0x11 + 8 * index:02x}:00.0",
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        utilization_ratio=rng.choice((0.96, 0.97, 0.97, 0.98)),
        memory_utilization_ratio=rng.choice((0.61, 0.62, 0.63)),
        sm_clock_hertz=2.4e9 + 15e6 * rng.randint(0, 2),
        memory_clock_hertz=12.481e9,
        power_watts=410.0 + 2 * index + rng.gauss(0, 4),
        temperature_celsius=62.0 + index + rng.randint(0, 1),
        memory_used_bytes=88 * GIB + index * 2**20,
        performance_state=1,
        reasons=0,
        pcie_generation=5,
        pcie_width=16,
        memory_total_bytes=97_887 * 2**20,
        power_limit_watts=600.0,
        sm_clock_max_hertz=2.617e9,
        memory_clock_max_hertz=12.481e9,
        pcie_generation_max=5,
        pcie_width_max=16,
        slowdown_celsius=92.0,
        mig=False,
        numa_node=index // 4,
        pcie_replays=0,
        reason_seconds={"sw_power_cap": 412.0, "sw_thermal_slowdown": 0.0, "hw_thermal_slowdown": 0.0},
        ecc_errors={"corrected": 0, "uncorrected": 0, "corrected_lifetime": 3, "uncorrected_lifetime": 0},
        rows_remapped=0,
        remap_pending=False,
        remap_failed=False,
        recovery_action="none",
        processes=(GpuProcess(pid=2000 + index, memory_bytes=87 * GIB),),
    )
    if "lost" in changes:
        names = {name: getattr(healthy, name) for name in ("index", "uuid", "pci_bus", "name")}
        return GpuCard(**names, **changes)
    return replace(healthy, **changes)


def host(at: float, **changes: Any) -> HostReading:
    """The machine around eight cards."""
    schedulers = tuple(
        HostProcess(pid=2000 + rank, role="scheduler", rank=f"TP{rank}", cpu_ratio=1.0) for rank in range(8)
    )
    others = (
        HostProcess(pid=1990, role="tokenizer", cpu_ratio=0.34),
        HostProcess(pid=1991, role="detokenizer", cpu_ratio=0.12),
    )
    quiet = HostReading(
        at=at,
        cores=64,
        cpu_ratio=0.16,
        run_queue=11,
        memory_total_bytes=1007 * GIB,
        memory_available_bytes=612 * GIB,
        swap_total_bytes=8 * GIB,
        swap_used_bytes=0,
        swap_bytes_per_second=0.0,
        numa_nodes=2,
        numa_balancing=False,
        governors=("performance",),
        processes=(*schedulers, *others),
    )
    return replace(quiet, **changes)


def healthy(index: int, before: int) -> dict[str, Any]:
    """No change."""
    return {}


def resting(index: int, before: int) -> dict[str, Any]:
    """At work until a while ago, at rest since."""
    return RESTING if before < SECONDS // 2 else {}


def hot(index: int, before: int) -> dict[str, Any]:
    """The sixth card is too hot."""
    if index != 5 or before > ONSET:
        return {}
    return {"reasons": 0x20, "sm_clock_hertz": 1.62e9, "temperature_celsius": 88.0, "power_watts": 284.0}


def slow_memory(index: int, before: int) -> dict[str, Any]:
    """The third card runs its memory slower than the others, from the beginning."""
    return {"memory_clock_hertz": 9.0e9} if index == 2 else {}


def capped(index: int, before: int) -> dict[str, Any]:
    """All cards run at their power limit, which is normal."""
    return {"reasons": 0x4, "power_watts": 598.0 - index % 3}


def narrow_link(index: int, before: int) -> dict[str, Any]:
    """The second card has its link at half its generation and half its width, under load."""
    return {"pcie_generation": 4, "pcie_width": 8} if index == 1 and before < ONSET else {}


def failing(index: int, before: int) -> dict[str, Any]:
    """The first card has memory errors, and rows that wait for a reset."""
    if index != 0 or before > ONSET:
        return {}
    errors = {"corrected": 12, "uncorrected": 2, "corrected_lifetime": 15, "uncorrected_lifetime": 2}
    return {"ecc_errors": errors, "remap_pending": True, "recovery_action": "drain-and-reset", "pcie_replays": 3}


def late(index: int, before: int) -> dict[str, Any]:
    """The fourteenth card is too hot."""
    return hot(5, before) if index == 13 else {}


def fallen(index: int, before: int) -> dict[str, Any]:
    """The fourth card is gone."""
    return {"lost": "GPU is lost"} if index == 3 and before <= ONSET else {}


def bare(index: int, before: int) -> dict[str, Any]:
    """A split card behind a hypervisor: hardly anything is reported."""
    names = (
        "utilization_ratio", "memory_utilization_ratio", "power_limit_watts", "power_watts", "pcie_generation",
        "pcie_width", "pcie_generation_max", "pcie_width_max", "pcie_replays", "remap_pending", "recovery_action",
        "rows_remapped", "remap_failed", "reasons", "slowdown_celsius", "numa_node", "performance_state",
    )  # fmt: skip
    return {
        **dict.fromkeys(names),
        "mig": True,
        "ecc_errors": {},
        "reason_seconds": {},
        "processes": (),
        "name": "NVIDIA H100 80GB HBM3",
    }


def unified(index: int, before: int) -> dict[str, Any]:
    """A board whose memory is the host's."""
    names = ("memory_used_bytes", "memory_total_bytes", "memory_clock_hertz", "power_limit_watts", "pcie_replays")
    return {**dict.fromkeys(names), "name": "NVIDIA GB10", "ecc_errors": {}, "pcie_generation": 1, "pcie_width": 1,
            "pcie_generation_max": 1, "pcie_width_max": 1, "power_watts": 61.0}  # fmt: skip


def judged(change: Change, cards: int = 8, *, until: float = NOON, xid: tuple[float, int, int] | None = None) -> Any:
    """What the core makes of a story: the cards, the host and the events."""
    ring = Ring()
    book = GpuBook(EventLog(ring))
    rng = random.Random(5)
    at = NOON - SECONDS
    while at < until:
        at += 1
        before = int(NOON - at)
        if before % 5 == 0:
            book.see(host(at))
        if xid is not None and xid[0] == before:
            book.xid(Xid(at=at, code=xid[2], pci_bus=f"0000:{0x11 + 8 * xid[1]:02x}:00"))
        read = tuple(card(index, rng, change(index, before)) for index in range(cards))
        book.see(GpuReading(at=at, cards=read, driver="580.105.08"))
    return book.views(NOON), book.host(NOON), ring.since(0).events


@cache
def of(change: Change, cards: int = 8, *, until: float = NOON, xid: tuple[float, int, int] | None = None) -> Frame:
    """The founding service on a machine with this story."""
    gpus, around, told = judged(change, cards, until=until, xid=xid)
    frame = model_frames.founding_end()
    story = tuple(replace(event, seq=30_000 + event.seq) for event in told)
    return replace(
        frame,
        snapshot=replace(frame.snapshot, gpus=gpus, host=around, sources=(LOG, UP, HOST_UP)),
        history=replace(frame.history, events=(*frame.history.events, *story)),
    )


def loaded() -> Frame:
    """Eight healthy cards under load."""
    return of(healthy)


def idle() -> Frame:
    """Eight cards at rest: Gen1 links and P8 are normal then."""
    return of(resting)


def throttled() -> Frame:
    """One card is slowed down by heat."""
    return of(hot)


def lost() -> Frame:
    """One card has fallen off the bus."""
    return of(fallen, xid=(ONSET, 3, 79))


def straggler() -> Frame:
    """One card's memory runs slower than that of the others."""
    return of(slow_memory)


def power_cap() -> Frame:
    """All cards are held by their power limit alone."""
    return of(capped)


def pcie() -> Frame:
    """One link is below its maximum under load."""
    return of(narrow_link)


def errors() -> Frame:
    """One card has memory errors and needs a reset."""
    return of(failing)


def stale() -> Frame:
    """The cards are not read any more."""
    frame = of(healthy, until=NOON - 42)
    gone = replace(
        UP, state="lost", last_at=NOON - 42, detail="NVML does not answer at GPU 2; its reader is started again"
    )
    return replace(frame, snapshot=replace(frame.snapshot, sources=(LOG, gone, HOST_UP)))


def one() -> Frame:
    """One card."""
    return of(healthy, 1)


def sixteen() -> Frame:
    """Sixteen cards, one of the later ones too hot."""

    return of(late, 16)


def unsupported() -> Frame:
    """Cards that report hardly anything."""
    return of(bare, 2)


def shared_memory() -> Frame:
    """A board without memory of its own."""
    return of(unified, 1)


def without(reason: str, state: str = "lost") -> Frame:
    """No card can be read, for this reason."""
    frame = model_frames.founding_end()
    source = SourceView(name="nvml", state=state, detail=reason, witness=False)  # type: ignore[arg-type]
    return replace(frame, snapshot=replace(frame.snapshot, sources=(LOG, source, HOST_UP)))


def not_permitted() -> Frame:
    """The driver refuses."""
    return without(REFUSED)


def no_driver() -> Frame:
    """There is no driver."""
    return without(NO_DRIVER, "waiting")


def busy_host() -> Frame:
    """A tokenizer that keeps one core full, on a host that swaps and saves power."""
    frame = loaded()
    book = GpuBook(EventLog(Ring()))
    for second in range(8):
        at = NOON - 40 + 5 * second
        processes = tuple(
            replace(each, cpu_ratio=0.99) if each.role == "tokenizer" else each for each in host(at).processes
        )
        book.see(
            host(at, processes=processes, swap_bytes_per_second=5e6, swap_used_bytes=3 * GIB, governors=("powersave",))
        )
    return replace(frame, snapshot=replace(frame.snapshot, host=book.host(NOON)))
