"""How each value of a card is read with pynvml: every field by itself, so that one that fails is merely absent.

Units come from the NVML reference: clocks in MHz, power in mW, PCIe throughput in KB/s, the counters of clock-event
reasons in ns under each of their numbers (nvidia-smi prints them in us).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pynvml as nvml  # type: ignore[import-untyped]

from ddwatch.core.hardware import INSTANCES_AT_MOST, PROCESSES_AT_MOST, GpuInstance, GpuProcess

Handle = Any
Read = Callable[[Handle], Mapping[str, Any]]
"""Attributes of a GpuCard, from one call; raises NVMLError."""


class Field(NamedTuple):
    """One or more values that are read together; the first way that the driver knows is used."""

    name: str
    ways: tuple[Read, ...]


MHZ = 1_000_000.0
UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1})
"""What some drivers put where they know nothing."""
UNKNOWN_STATE = 32
NOT_KEPT = frozenset({nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_NO_DATA, nvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED})
"""Answers for a counter that this card does not keep."""
UNTOLD = NOT_KEPT | {nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_NO_PERMISSION, nvml.NVML_ERROR_FUNCTION_NOT_FOUND}
"""Answers for a part that is not there, or for what it may not tell."""
LINKS_AT_MOST = 36
RECOVERY = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain-p2p",
    4: "drain-and-reset",
    5: "recover-imex-domain",
    6: "bus-reset",
    7: "reboot",
}
MEMORY_TEMPERATURE_ID = 82
RETIRED_PENDING_ID = 31
RECOVERY_ACTION_ID = 230
REASON_IDS = {74: "sw_power_cap", 76: "sync_boost"}
SLOWDOWNS = ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
"""Counters with numbers in a row, from the one that `reason_ids` chooses by the driver."""
MOVED = (580, 82)
"""From this driver on they have their present numbers."""
BEFORE = ((575, 0), (580, 65))
"""First and last driver that is known to have had them at the numbers that mean power smoothing now."""
NVLINK_ERROR_IDS = {38: "crc", 52: "replay", 59: "recovery"}
"""Field ids are written as numbers: older releases of pynvml do not name the newer ones."""


def _known(value: int) -> int | None:
    return None if value in UNKNOWN else value


def _positive(value: int) -> int | None:
    return value if value > 0 and value not in UNKNOWN else None


def _scaled(value: int, factor: float) -> float | None:
    return None if value in UNKNOWN else value * factor


def _utilization(handle: Handle) -> Mapping[str, Any]:
    found = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {
        "utilization_ratio": _scaled(found.gpu, 0.01),
        "memory_utilization_ratio": _scaled(found.memory, 0.01),
    }


def _clock(attribute: str, kind: int) -> Read:
    return lambda handle: {attribute: _scaled(nvml.nvmlDeviceGetClockInfo(handle, kind), MHZ)}


def _clock_max(attribute: str, kind: int) -> Read:
    return lambda handle: {attribute: _scaled(nvml.nvmlDeviceGetMaxClockInfo(handle, kind), MHZ)}


def _number(attribute: str, call: str, factor: float | None = None, *, positive: bool = False) -> Read:
    function: Callable[[Handle], int] | None = getattr(nvml, call, None)

    def read(handle: Handle) -> Mapping[str, Any]:
        if function is None:
            raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        value = function(handle)
        if factor is not None:
            return {attribute: _scaled(value, factor)}
        return {attribute: _positive(value) if positive else _known(value)}

    return read


def _temperature_by_version(handle: Handle) -> Mapping[str, Any]:
    function = getattr(nvml, "nvmlDeviceGetTemperatureV", None)
    if function is None:
        raise nvml.NVMLError(nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    return {"temperature_celsius": _scaled(function(handle, nvml.NVML_TEMPERATURE_GPU), 1.0)}


def _temperature(handle: Handle) -> Mapping[str, Any]:
    return {"temperature_celsius": _scaled(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU), 1.0)}


def _memory(version: int | None) -> Read:
    def read(handle: Handle) -> Mapping[str, Any]:
        found = nvml.nvmlDeviceGetMemoryInfo(handle, version)
        total = _positive(found.total)
        return {"memory_total_bytes": total, "memory_used_bytes": None if total is None else _known(found.used)}

    return read


def _state(handle: Handle) -> Mapping[str, Any]:
    state = nvml.nvmlDeviceGetPerformanceState(handle)
    return {"performance_state": state if 0 <= state < UNKNOWN_STATE else None}


def _slowdown(handle: Handle) -> Mapping[str, Any]:
    value = nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    return {"slowdown_celsius": None if _positive(value) is None else float(value)}


def _mig(handle: Handle) -> Mapping[str, Any]:
    return {"mig": nvml.nvmlDeviceGetMigMode(handle)[0] == 1}


def _told(call: str, *words: Any) -> Any:
    """What one part of a card tells; None for what it does not, while its neighbours are read on."""
    try:
        return getattr(nvml, call)(*words)
    except nvml.NVMLError as error:
        if error.value not in UNTOLD:
            raise
    except UnicodeDecodeError:
        pass
    return None


def _instances(handle: Handle) -> Mapping[str, Any]:
    """The parts of a card that is split; their numbers have gaps."""
    found: list[GpuInstance] = []
    if nvml.nvmlDeviceGetMigMode(handle)[0] == 1:
        for index in range(min(nvml.nvmlDeviceGetMaxMigDeviceCount(handle), INSTANCES_AT_MOST)):
            part = _told("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if part is None:
                continue
            name, memory = _told("nvmlDeviceGetName", part), _told("nvmlDeviceGetMemoryInfo", part)
            found.append(
                GpuInstance(
                    uuid=_told("nvmlDeviceGetUUID", part),
                    profile=name.partition(" MIG ")[2] or None if name else None,
                    gpu_instance=_told("nvmlDeviceGetGpuInstanceId", part),
                    compute_instance=_told("nvmlDeviceGetComputeInstanceId", part),
                    memory_total_bytes=None if memory is None else _positive(memory.total),
                    memory_used_bytes=None if memory is None or not memory.total else _known(memory.used),
                )
            )
    return {"instances": tuple(found)}


def _ecc(handle: Handle) -> Mapping[str, Any]:
    found: dict[str, int] = {}
    refused: Exception | None = None
    for name, kind, span in (
        ("corrected", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC),
        ("uncorrected", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
        ("corrected_lifetime", nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_AGGREGATE_ECC),
        ("uncorrected_lifetime", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_AGGREGATE_ECC),
    ):
        try:
            count = _known(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, span))
        except nvml.NVMLError as error:
            # One counter may be missing while the others are there.
            if error.value not in NOT_KEPT:
                raise
            refused = error
            continue
        if count is not None:
            found[name] = count
    if not found and refused is not None:
        raise refused
    return {"ecc_errors": found}


def _remapped(handle: Handle) -> Mapping[str, Any]:
    corrected, uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return {"rows_remapped": corrected + uncorrected, "remap_pending": bool(pending), "remap_failed": bool(failed)}


def _field_value(found: Any) -> int | None:
    """One entry of nvmlDeviceGetFieldValues as a whole number."""
    if found.nvmlReturn != nvml.NVML_SUCCESS:
        return None
    value = found.value
    kinds = {0: value.dVal, 1: value.uiVal, 2: value.ulVal, 3: value.ullVal, 4: value.sllVal, 5: value.siVal}
    number = kinds.get(found.valueType)
    return None if number is None else _known(int(number))


def reason_ids(driver: str | None) -> dict[int, str]:
    """The numbers of the counters of clock-event reasons, all in ns, by the driver's version.

    NVIDIA has given the same numbers to other values from one driver to the next, so a driver of which it is not known
    is not asked: absent is better than wrong.
    """
    parts = [int(part) for part in (driver or "").split(".")[:2] if part.isdigit()]
    version = (parts[0], parts[1] if len(parts) > 1 else 0) if parts else (0, 0)
    if version >= MOVED:
        first = 269
    elif BEFORE[0] <= version <= BEFORE[1]:
        first = 251
    else:
        return REASON_IDS
    return {**REASON_IDS, **{first + place: name for place, name in enumerate(SLOWDOWNS)}}


def values_of(driver: str | None) -> Field:
    """Everything that only the batched call knows, in one call."""
    reasons = reason_ids(driver)
    return Field("values", (lambda handle: _values(handle, reasons),))


def _values(handle: Handle, reasons: Mapping[int, str]) -> Mapping[str, Any]:
    """Each entry has its own return code."""
    wanted = [MEMORY_TEMPERATURE_ID, RETIRED_PENDING_ID, RECOVERY_ACTION_ID, *reasons, *NVLINK_ERROR_IDS]
    answered = nvml.nvmlDeviceGetFieldValues(handle, wanted)
    values = {entry.fieldId: _field_value(entry) for entry in answered}
    action = values.get(RECOVERY_ACTION_ID)
    temperature = values.get(MEMORY_TEMPERATURE_ID)
    found: dict[str, Any] = {
        "memory_temperature_celsius": None if not temperature else float(temperature),
        "recovery_action": None if action is None else RECOVERY.get(action, f"action {action}"),
        "reason_seconds": {
            name: value * 1e-9 for number, name in reasons.items() if (value := values.get(number)) is not None
        },
        "nvlink_errors": {
            name: value for number, name in NVLINK_ERROR_IDS.items() if (value := values.get(number)) is not None
        },
    }
    retired = values.get(RETIRED_PENDING_ID)
    if retired is not None:
        found["remap_pending"] = bool(retired)
    return found


def _links(handle: Handle) -> Mapping[str, Any]:
    count = active = 0
    for link in range(LINKS_AT_MOST):
        try:
            state = nvml.nvmlDeviceGetNvLinkState(handle, link)
        except nvml.NVMLError as error:
            # Links that a card does not have end the list; before the first one, the card has none at all.
            if count == 0:
                raise
            if error.value in (nvml.NVML_ERROR_INVALID_ARGUMENT, nvml.NVML_ERROR_NOT_SUPPORTED):
                break
            raise
        count += 1
        active += state == 1
    return {"nvlinks": count, "nvlinks_active": active}


def _processes(handle: Handle) -> Mapping[str, Any]:
    found = [
        GpuProcess(pid=process.pid, memory_bytes=process.usedGpuMemory)
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    ]
    found.sort(key=lambda process: -(process.memory_bytes or 0))
    return {"processes": tuple(found[:PROCESSES_AT_MOST])}


def _pcie(handle: Handle) -> Mapping[str, Any]:
    received = nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES)
    sent = nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES)
    return {
        "pcie_receive_bytes_per_second": _scaled(received, 1024.0),
        "pcie_send_bytes_per_second": _scaled(sent, 1024.0),
    }


FAST: tuple[Field, ...] = (
    Field("utilization", (_utilization,)),
    Field("sm clock", (_clock("sm_clock_hertz", nvml.NVML_CLOCK_SM),)),
    Field("memory clock", (_clock("memory_clock_hertz", nvml.NVML_CLOCK_MEM),)),
    Field("power", (_number("power_watts", "nvmlDeviceGetPowerUsage", 0.001),)),
    Field("temperature", (_temperature_by_version, _temperature)),
    Field("memory", (_memory(getattr(nvml, "nvmlMemory_v2", None)), _memory(None))),
    Field("performance state", (_state,)),
    Field(
        "reasons",
        (
            _number("reasons", "nvmlDeviceGetCurrentClocksEventReasons"),
            _number("reasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        ),
    ),
    Field("link generation", (_number("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", positive=True),)),
    Field("link width", (_number("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", positive=True),)),
)
"""Read every second: ten calls."""

SLOW: tuple[Field, ...] = (
    Field(
        "power limit",
        (
            _number("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", 0.001),
            _number("power_limit_watts", "nvmlDeviceGetPowerManagementLimit", 0.001),
        ),
    ),
    Field("sm clock maximum", (_clock_max("sm_clock_max_hertz", nvml.NVML_CLOCK_SM),)),
    Field("memory clock maximum", (_clock_max("memory_clock_max_hertz", nvml.NVML_CLOCK_MEM),)),
    Field(
        "link generation maximum",
        (_number("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", positive=True),),
    ),
    Field("link width maximum", (_number("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", positive=True),)),
    Field("slowdown temperature", (_slowdown,)),
    Field("mig", (_mig,)),
    Field("instances", (_instances,)),
    Field("replays", (_number("pcie_replays", "nvmlDeviceGetPcieReplayCounter"),)),
    Field("ecc", (_ecc,)),
    Field("remapped rows", (_remapped,)),
    Field("links", (_links,)),
    Field("processes", (_processes,)),
)
"""Read every 30 s, with `values_of` the driver."""

THROUGHPUT = Field("pcie throughput", (_pcie,))
"""Off by default: the call blocks for tens of milliseconds while the driver samples."""


def numa_node(bus: str, devices: Path) -> int | None:
    """The NUMA node of a PCI device as the kernel tells it, None on a machine with one node."""
    try:
        node = int((devices / bus / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
