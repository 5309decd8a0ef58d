"""The machine around the cards in a line or two: the engine's CPU work, who waits for a core, memory, settings."""

from collections.abc import Sequence

from ddwatch.core.hardware import HostProcess, HostReading, HostRole
from ddwatch.core.hardware_view import FindingKind, HostView
from ddwatch.widgets.figures import ABSENT, count, percent, size
from ddwatch.widgets.gpu_words import GIB, GRADES
from ddwatch.widgets.rows import Role, Row, Span, clean, merged, width_of

FULL = 0.95
"""From here on a process fills its core."""
ROLES: tuple[HostRole, ...] = ("scheduler", "tokenizer", "detokenizer", "controller")

Part = tuple[str, str, Role]
"""Name, value, and what the value is."""


def _process(role: HostRole, processes: Sequence[HostProcess]) -> Part | None:
    """The busiest process of a role; a full core is said, because no process can do more with one."""
    mine = [each for each in processes if each.role == role]
    if not mine:
        return None
    busiest = max(mine, key=lambda each: -1.0 if each.cpu_ratio is None else each.cpu_ratio)
    words = percent(busiest.cpu_ratio)
    if busiest.cpu_ratio is not None and busiest.cpu_ratio >= FULL:
        words += ", a full core"
    if len(mine) > 1:
        words += f" ({clean(busiest.rank) + ', ' if busiest.rank else ''}busiest of {len(mine)})"
    return role, words, "text"


def parts(host: HostView) -> list[tuple[Part, FindingKind | None]]:
    """Everything in order of worth, each with the finding that would show in it; what is not reported is left out."""
    seen: HostReading = host.reading
    found: list[tuple[Part, FindingKind | None]] = []
    for role in ROLES:
        part = _process(role, seen.processes)
        if part is not None:
            found.append((part, "cpu-bound" if f"the {role}" in _sentence(host, "cpu-bound") else None))
    if seen.run_queue is not None:
        cores = f" on {seen.cores} cores" if seen.cores else ""
        found.append((("run queue", f"{count(seen.run_queue)}{cores}", "text"), "cpu-queue"))
    if seen.cpu_ratio is not None:
        found.append((("all cores", percent(seen.cpu_ratio), "text"), None))
    if seen.memory_total_bytes is not None and seen.memory_available_bytes is not None:
        used = (seen.memory_total_bytes - seen.memory_available_bytes) / GIB
        found.append((("memory", f"{used:.0f} of {seen.memory_total_bytes / GIB:.0f} GiB", "text"), None))
    if seen.swap_used_bytes is not None:
        words = size(seen.swap_used_bytes) if seen.swap_used_bytes else "0"
        if seen.swap_bytes_per_second:
            words += f", {size(int(seen.swap_bytes_per_second))}/s"
        found.append((("swap", words if seen.swap_total_bytes else "off", "text"), "swap"))
    if seen.numa_nodes is not None:
        balancing = {True: ", balancing on", False: ", balancing off", None: ""}[seen.numa_balancing]
        found.append((("NUMA", f"{count(seen.numa_nodes)} nodes{balancing}", "text"), "numa-balancing"))
    if seen.governors:
        found.append((("governor", ", ".join(map(clean, seen.governors)), "text"), "governor"))
    if seen.steal_ratio:
        found.append((("stolen", percent(seen.steal_ratio), "text"), "cpu-steal"))
    return found


def _sentence(host: HostView, kind: FindingKind) -> str:
    return next((each.sentence for each in host.findings if each.kind == kind), "")


def host_rows(host: HostView | None, width: int, most: int, indent: str = " ") -> list[Row]:
    """The parts in at most `most` rows of `width` cells, never cut inside; a sign stands before what is wrong."""
    if host is None:
        return [((f"{indent}host {ABSENT}", "label"),)]
    grave = {each.kind: each.grade for each in host.findings}
    rows: list[Row] = []
    spans: list[Span] = [(indent, "text"), ("host", "strong")]
    for (name, value, role), kind in parts(host):
        sign, look = GRADES[grave[kind]] if kind is not None and kind in grave else ("", role)
        words: list[Span] = [("   ", "text"), (f"{sign} " if sign.strip() else "", look), (f"{name} ", "label")]
        words.append((value, look if sign.strip() else role))
        if width_of((*spans, *words)) > width:
            rows.append(merged(spans))
            if len(rows) == most:
                return rows
            spans = [(indent + " " * 4, "text")]
        spans += words
    return [*rows, merged(spans)]
