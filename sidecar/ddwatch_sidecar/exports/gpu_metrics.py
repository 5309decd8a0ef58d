"""The rows of the metric table that tell of GPUs; what a card does not report has no series."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ddwatch.core.gpus.reasons import REASONS
from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import GpuView
from ddwatch_sidecar.exports.metric import Labels, Metric, Readings, View, clean_label

CARD_LABELS = ("gpu", "uuid")


def _cards(view: View) -> Iterator[tuple[Labels, GpuView]]:
    """The cards whose readings are of now."""
    for gpu in view.snapshot.gpus:
        if gpu.state != "stale":
            yield (str(gpu.card.index), clean_label(gpu.card.uuid)), gpu


def _of_card(value: Callable[[GpuCard], float | None]) -> Readings:
    def readings(view: View) -> Iterator[tuple[Labels, float]]:
        for labels, gpu in _cards(view):
            found = value(gpu.card)
            if found is not None:
                yield labels, float(found)

    return readings


def _of_kinds(values: Callable[[GpuView], Mapping[str, float]]) -> Readings:
    def readings(view: View) -> Iterator[tuple[Labels, float]]:
        for labels, gpu in _cards(view):
            for kind, value in values(gpu).items():
                yield (*labels, clean_label(kind)), float(value)

    return readings


def _throttle(view: View) -> Iterable[tuple[Labels, float]]:
    for labels, gpu in _cards(view):
        mask = gpu.card.reasons
        for reason in REASONS if mask is not None else ():
            yield (*labels, reason.name), float(bool((mask or 0) & reason.bit))


def _outlier(view: View) -> Iterable[tuple[Labels, float]]:
    return [(labels, float(gpu.outlier)) for labels, gpu in _cards(view) if gpu.outlier is not None]


def _lost(view: View) -> Iterable[tuple[Labels, float]]:
    return [(labels, float(gpu.state == "lost")) for labels, gpu in _cards(view)]


def _gauge(name: str, meaning: str, value: Callable[[GpuCard], float | None]) -> Metric:
    return Metric(f"ddwatch_gpu_{name}", "gauge", meaning, CARD_LABELS, _of_card(value))


GPU_METRICS: tuple[Metric, ...] = (
    _gauge("sm_clock_hertz", "Clock of the streaming multiprocessors", lambda card: card.sm_clock_hertz),
    _gauge("memory_clock_hertz", "Clock of the device memory", lambda card: card.memory_clock_hertz),
    _gauge(
        "utilization_ratio",
        "Share of time in which a kernel ran; 1 proves no progress",
        lambda card: card.utilization_ratio,
    ),
    _gauge("memory_used_bytes", "Device memory in use", lambda card: card.memory_used_bytes),
    _gauge("memory_total_bytes", "Device memory", lambda card: card.memory_total_bytes),
    _gauge("power_watts", "Power drawn", lambda card: card.power_watts),
    _gauge("power_limit_watts", "Power limit in force", lambda card: card.power_limit_watts),
    _gauge("temperature_celsius", "Temperature of the chip", lambda card: card.temperature_celsius),
    _gauge("performance_state", "Performance state, 0 is the fastest", lambda card: card.performance_state),
    Metric(
        "ddwatch_gpu_throttle",
        "gauge",
        "1 while this clock-event reason holds; sw_power_cap and gpu_idle are normal on a healthy card",
        (*CARD_LABELS, "reason"),
        _throttle,
    ),
    Metric(
        "ddwatch_gpu_throttle_seconds_total",
        "counter",
        "Time under this clock-event reason as the driver counts it",
        (*CARD_LABELS, "reason"),
        _of_kinds(lambda gpu: gpu.card.reason_seconds),
    ),
    _gauge("pcie_link_generation", "PCIe generation of the link now; low at rest", lambda card: card.pcie_generation),
    _gauge(
        "pcie_link_generation_max",
        "Highest PCIe generation of this card in its slot",
        lambda card: card.pcie_generation_max,
    ),
    _gauge("pcie_link_width", "PCIe lanes of the link now", lambda card: card.pcie_width),
    _gauge(
        "pcie_link_width_max", "Highest number of PCIe lanes of this card in its slot", lambda card: card.pcie_width_max
    ),
    Metric(
        "ddwatch_gpu_pcie_replays_total",
        "counter",
        "PCIe transfers that had to be repeated",
        CARD_LABELS,
        _of_card(lambda card: card.pcie_replays),
    ),
    _gauge("nvlinks_active", "NVLinks that are up", lambda card: card.nvlinks_active),
    Metric(
        "ddwatch_gpu_nvlink_errors_total",
        "counter",
        "NVLink errors over all links of the card",
        (*CARD_LABELS, "kind"),
        _of_kinds(lambda gpu: gpu.card.nvlink_errors),
    ),
    Metric(
        "ddwatch_gpu_ecc_errors_total",
        "counter",
        "Memory errors, since the driver was loaded or over the card's lifetime",
        (*CARD_LABELS, "kind"),
        _of_kinds(lambda gpu: gpu.card.ecc_errors),
    ),
    _gauge(
        "row_remap_pending",
        "1 while a faulty memory row waits for a reset to be replaced",
        lambda card: card.remap_pending,
    ),
    Metric(
        "ddwatch_gpu_xid_errors_total",
        "counter",
        "Faults that the driver reported for this card since the watch began",
        (*CARD_LABELS, "xid"),
        _of_kinds(lambda gpu: gpu.xids),
    ),
    Metric("ddwatch_gpu_lost", "gauge", "1 while the card cannot be read", CARD_LABELS, _lost),
    Metric(
        "ddwatch_gpu_outlier",
        "gauge",
        "1 while the card is slower than its peers under load; absent where there are too few of them",
        CARD_LABELS,
        _outlier,
    ),
)
