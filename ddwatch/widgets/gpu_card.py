"""One card in full: what was found of it, its last minutes as plots, and every value that it reports."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from ddwatch.core.hardware import GpuCard
from ddwatch.core.hardware_view import GpuView
from ddwatch.core.snapshot import Snapshot
from ddwatch.widgets.axis import HEADROOM, round_up
from ddwatch.widgets.figures import ABSENT, count, duration, figure, percent
from ddwatch.widgets.finding_rows import finding_rows
from ddwatch.widgets.gpu_words import GIB, REASONS, gigahertz, notable
from ddwatch.widgets.plot import Plot, Reading, draw
from ddwatch.widgets.rows import Row, clean, fit, heading, merged
from ddwatch.widgets.why import named

PAIRED = 76
"""From this width on two plots stand side by side."""
TALL = 6
"""Rows of a plot with its heading."""
BETWEEN = 2


class Trace:
    """One quantity of a card over the last minutes, with the line that it should keep to."""

    def __init__(self, title: str, unit: str, values: Sequence[float | None], scale: float = 1.0) -> None:
        self.title, self.unit = title, unit
        self.values = tuple(None if value is None else value * scale for value in values)
        self.top = 0.0
        self.usual: float | None = None
        self.words = ""

    def beside(self, words: str, top: float | None = None, usual: float | None = None) -> "Trace":
        """What stands at the right of its heading, what the axis reaches to, and the line of what is usual."""
        seen = [value for value in (usual, *self.values) if value is not None]
        most = max(seen, default=0.0)
        self.words, self.usual = words, usual
        most = max(most * HEADROOM, 0.0) if top is None else max(top, most)
        self.top = round_up(most) if most > 0 else 0.0
        return self


def traces(gpu: GpuView) -> list[Trace]:
    """Utilisation, clock, power and temperature; each axis ends at the round number above the card's own limit."""
    card, trend = gpu.card, gpu.trend
    if trend is None:
        return []
    normal, limit = gpu.normal_sm_clock_hertz, card.power_limit_watts
    most = None if card.sm_clock_max_hertz is None else card.sm_clock_max_hertz / 1e9
    usual = None if normal is None else normal / 1e9
    slow = card.slowdown_celsius
    return [
        Trace("utilisation", "%", trend.utilization_ratio, 100).beside("", 100.0),
        Trace("SM clock", "GHz", trend.sm_clock_hertz, 1e-9).beside(
            f"normal {figure(usual)}" if usual is not None else "no normal yet", most, usual
        ),
        Trace("power", "W", trend.power_watts).beside(f"limit {count(limit)}" if limit is not None else "", limit),
        Trace("temperature", "°C", trend.temperature_celsius).beside(
            f"slows down at {count(slow)}" if slow is not None else "", slow
        ),
    ]


def trace_rows(trace: Trace, gpu: GpuView, zone: tzinfo, width: int, height: int, *, ascii_only: bool) -> list[Row]:
    """A heading and a plot of two minutes; says so when nothing was read."""
    title = heading(trace.title, trace.unit, trace.words, width)
    step = gpu.trend.step_seconds if gpu.trend is not None else 1.0
    newest = int(gpu.at // step)
    readings = []
    for place, value in enumerate(trace.values):
        at = min(gpu.at, (newest - len(trace.values) + 1 + place + 0.5) * step)
        if value is not None:
            usual = trace.usual
            readings.append(Reading(at, "clean", value, usual, usual, usual))
    if not readings or trace.top <= 0:
        return [title, (("   not reported", "label"),), *([()] * (height - 2))]
    plot = Plot(
        readings=readings,
        end=gpu.at,
        window=step * max(1, len(trace.values)),
        limit=trace.top,
        zone=zone,
        ascii=ascii_only,
    )
    return [title, *draw(plot, width, height - 1)]


def plot_rows(gpu: GpuView, zone: tzinfo, width: int, *, ascii_only: bool = False, height: int = TALL) -> list[Row]:
    """All plots, two beside each other where there is room."""
    found = traces(gpu)
    if width < PAIRED:
        return [row for one in found for row in trace_rows(one, gpu, zone, width, height, ascii_only=ascii_only)]
    left = (width - BETWEEN) // 2
    rows: list[Row] = []
    for one, two in zip(found[::2], found[1::2], strict=True):
        first = trace_rows(one, gpu, zone, left, height, ascii_only=ascii_only)
        second = trace_rows(two, gpu, zone, width - BETWEEN - left, height, ascii_only=ascii_only)
        rows += [merged((*fit(a, left), (" " * BETWEEN, "text"), *b)) for a, b in zip(first, second, strict=True)]
    return rows


def _counted(values: dict[str, int]) -> str:
    return ", ".join(f"{clean(name)} {count(number)}" for name, number in values.items())


def _of(value: str, unit: str, most: str, words: str) -> str:
    """`284 W, limit 600`; empty when nothing is reported."""
    if ABSENT in value:
        return ""
    return f"{value} {unit}" + (f"{words} {most}" if most != ABSENT else "")


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part) or ABSENT


def _gib(octets: float | None) -> str:
    return ABSENT if octets is None else f"{octets / GIB:.1f}"


def _flag(name: str, value: bool | None) -> str:
    return "" if value is None else f"{name} {'yes' if value else 'no'}"


def _link(card: GpuCard) -> str:
    def words(generation: int | None, width: int | None) -> str:
        """`Gen5 x16` as far as it is known."""
        return (
            f"{f'Gen{generation} ' if generation is not None else ''}{f'x{width}' if width is not None else ''}".strip()
        )

    most = words(card.pcie_generation_max, card.pcie_width_max)
    now = words(card.pcie_generation, card.pcie_width)
    replays = f"{count(card.pcie_replays)} replays" if card.pcie_replays is not None else ""
    moved = [
        f"{name} {figure(value)}B/s"
        for name, value in (
            ("receives", card.pcie_receive_bytes_per_second),
            ("sends", card.pcie_send_bytes_per_second),
        )
        if value is not None
    ]
    return _joined(now, f"{most} at most" if most else "", replays, *moved)


def _ecc(card: GpuCard) -> str:
    since = {name: number for name, number in card.ecc_errors.items() if not name.endswith("_lifetime")}
    ever = {
        name.removesuffix("_lifetime"): number for name, number in card.ecc_errors.items() if name.endswith("_lifetime")
    }
    return _joined(
        _counted(since) + " since the driver was loaded" if since else "",
        f"ever: {_counted(ever)}" if ever else "",
        f"{count(card.rows_remapped)} rows replaced" if card.rows_remapped is not None else "",
        _flag("waits for a reset:", card.remap_pending),
        _flag("replacing failed:", card.remap_failed),
    )


def _events(gpu: GpuView) -> str:
    now = ", ".join(REASONS.get(name, clean(name)) for name in gpu.reasons if name != "gpu_idle")
    past = [
        f"{REASONS.get(name, clean(name))} {duration(seconds)}"
        for name, seconds in sorted(gpu.card.reason_seconds.items(), key=lambda each: -each[1])
        if seconds >= 1
    ]
    counted = f"since the driver was loaded: {', '.join(past) or 'none'}" if gpu.card.reason_seconds else ""
    return _joined(f"now: {now or 'none'}" if gpu.card.reasons is not None else "", counted)


def _processes(gpu: GpuView) -> str:
    shown = [f"{each.pid}: {_gib(each.memory_bytes)}" for each in gpu.card.processes[:4]]
    more = len(gpu.card.processes) - len(shown)
    return f"pid {', '.join(shown)} GiB{f', {more} more' if more > 0 else ''}" if shown else ""


def details(gpu: GpuView, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Every value by name; a dash where the card reports none of a line."""
    card = gpu.card
    source = next((each.detail for each in snapshot.sources if each.name == "nvml" and each.state == "up"), "")
    yield (
        "rank",
        _joined(
            clean(gpu.rank or ""),
            f"{_gib(gpu.rank_memory_bytes)} GiB are its own" if gpu.rank_memory_bytes is not None else "",
            _processes(gpu),
        ),
    )
    yield (
        "clocks",
        _joined(
            _of(f"SM {gigahertz(card.sm_clock_hertz)}", "GHz", gigahertz(gpu.normal_sm_clock_hertz), ", normal"),
            f"{gigahertz(card.sm_clock_max_hertz)} at most" if card.sm_clock_max_hertz is not None else "",
            _of(gigahertz(card.memory_clock_hertz), "GHz memory", gigahertz(gpu.normal_memory_clock_hertz), ", normal"),
            f"state P{card.performance_state}" if card.performance_state is not None else "",
        ),
    )
    yield "clock events", _events(gpu)
    yield (
        "utilisation",
        _joined(
            f"{percent(card.utilization_ratio)} busy" if card.utilization_ratio is not None else "",
            f"memory {percent(card.memory_utilization_ratio)}" if card.memory_utilization_ratio is not None else "",
        ),
    )
    yield "power", _joined(_of(count(card.power_watts), "W", count(card.power_limit_watts), ", limit"))
    yield (
        "temperature",
        _joined(
            _of(count(card.temperature_celsius), "°C", count(card.slowdown_celsius), ", slows down at"),
            f"memory {count(card.memory_temperature_celsius)} °C"
            if card.memory_temperature_celsius is not None
            else "",
        ),
    )
    yield "memory", _joined(_of(_gib(card.memory_used_bytes), "GiB", _gib(card.memory_total_bytes), " of"))
    yield "memory errors", _ecc(card)
    yield "PCIe", _link(card)
    links = f"{count(card.nvlinks_active)} of {count(card.nvlinks)} up" if card.nvlinks else ""
    yield "NVLink", _joined(links, f"errors: {_counted(card.nvlink_errors)}" if card.nvlink_errors else "")
    seen = ", ".join(f"{clean(code)} ×{number}" for code, number in gpu.xids.items())
    yield "Xid", seen or "none in this watch"
    asked = {None: ABSENT, "none": "the driver asks for none"}
    yield "recovery", asked.get(card.recovery_action, f"the driver asks for {clean(card.recovery_action or '')}")
    yield (
        "card",
        _joined(
            clean(card.name or ""),
            f"PCI {clean(card.pci_bus)}" if card.pci_bus else "",
            f"NUMA node {card.numa_node}" if card.numa_node is not None else "",
            _flag("MIG", card.mig),
        ),
    )
    yield "UUID", clean(card.uuid or ABSENT)
    for part in card.instances:
        memory = _of(_gib(part.memory_used_bytes), "GiB", _gib(part.memory_total_bytes), " of")
        yield "MIG part", _joined(clean(part.profile or ""), memory, clean(part.uuid or ""))
    if source:
        yield "driver", clean(source)


def card_rows(gpu: GpuView, snapshot: Snapshot, zone: tzinfo, width: int, *, ascii_only: bool = False) -> list[Row]:
    """Findings, plots, values."""
    rank = clean(gpu.rank or "")
    rows: list[Row] = [heading(f"GPU {gpu.card.index}", rank, clean(gpu.card.name or ""), width)]
    found = notable(gpu)
    for finding in found:
        rows += finding_rows(finding, snapshot.at, zone, width)
    if gpu.state == "lost":
        known = dict(details(gpu, snapshot))
        return [*rows, (), *(row for name in ("card", "UUID", "Xid") for row in named(name, known[name], width))]
    if not found:
        words = "not read any more, as it last was" if gpu.state == "stale" else "nothing is wrong with this card"
        rows.append(((f" {'?' if gpu.state == 'stale' else '✓'} ", "label"), (words, "text")))
    rows += plot_rows(gpu, zone, width, ascii_only=ascii_only)
    rows.append(())
    for name, text in details(gpu, snapshot):
        rows += named(name, text, width)
    return rows
