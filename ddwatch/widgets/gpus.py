"""The cards beside the tokens: a line or two where room is short, a row per card where there is more of it."""

from collections.abc import Callable, Hashable, Sequence

from ddwatch.core.hardware_view import GpuView
from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import age
from ddwatch.widgets.finding_rows import finding_rows, told
from ddwatch.widgets.gpu_table import rows_needed, sign_of, table
from ddwatch.widgets.gpu_words import GIB, GRADES, SIGNS, gigahertz, gravity, is_odd, normal_words, odd_words
from ddwatch.widgets.host_rows import host_rows
from ddwatch.widgets.rows import Row, Span, clean, faded, heading, merged, spread, width_of, wrapped
from ddwatch.widgets.view import View

TITLE = "GPUs"
SOURCE = "nvml"
NOT_READ = "GPUs are not read here: neither this sidecar nor this recording has them (see --nvml of ddwatch sidecar)"
"""What is said where there is not even a source that could fail."""


def absence(snapshot: Snapshot) -> str:
    """Why there is no card to be seen, and what would help."""
    source = next((each for each in snapshot.sources if each.name == SOURCE), None)
    if source is None:
        return NOT_READ
    if source.state == "up" and not source.detail:
        return "no GPU has been read yet"
    return clean(source.detail) or "waiting for the first reading of the GPUs"


def kinds_of_card(gpus: Sequence[GpuView]) -> str:
    """`8 × RTX PRO 6000 Blackwell`, without the vendor's name, which is no news; several kinds side by side."""
    names: dict[str, int] = {}
    for gpu in gpus:
        name = clean(gpu.card.name or "").removeprefix("NVIDIA ").removesuffix(" Server Edition")
        names[name or "GPU"] = names.get(name or "GPU", 0) + 1
    return ", ".join(f"{number} × {name}" for name, number in names.items())


def span_text(values: Sequence[float], show: Callable[[float], str]) -> str:
    """`65…71`, or one figure where both ends read the same."""
    least, most = show(min(values)), show(max(values))
    return least if least == most else f"{least}…{most}"


def summary_parts(gpus: Sequence[GpuView]) -> list[tuple[int, str, str, int]]:
    """What the cards have, from the lowest to the highest: worth, figures, unit, cells that the figures may need."""
    cards = [gpu.card for gpu in gpus if gpu.card.lost is None]

    def values(attribute: str) -> list[float]:
        """What is reported of it."""
        return [value for card in cards if (value := getattr(card, attribute)) is not None]

    found: list[tuple[int, str, str, int]] = []
    busy, clocks, power = values("utilization_ratio"), values("sm_clock_hertz"), values("power_watts")
    heat, memory = values("temperature_celsius"), values("memory_used_bytes")
    limits, totals = values("power_limit_watts"), values("memory_total_bytes")
    if busy:
        found.append((8, span_text(busy, lambda value: f"{value * 100:.0f}"), "%", 5))
    if clocks:
        found.append((9, span_text(clocks, gigahertz), "GHz", 9))
    if power:
        beside = f"of {span_text(limits, lambda value: f'{value:.0f}')} W" if limits else "W"
        found.append((7, span_text(power, lambda value: f"{value:.0f}"), beside, 7))
    if heat:
        found.append((6, span_text(heat, lambda value: f"{value:.0f}"), "°C", 5))
    if memory:
        most = span_text(totals, lambda value: f"{value / GIB:.0f}") if totals else ""
        found.append((5, span_text(memory, lambda value: f"{value / GIB:.0f}"), f"of {most} GiB" if most else "GiB", 5))
    return found


def summary_row(head: Row, gpus: Sequence[GpuView], width: int, right: Row = ()) -> Row:
    """A head, and the figures of these cards as many as fit; each keeps its place while figures change."""
    room = width - width_of(head) - (width_of(right) + 1 if right else 0)
    parts = summary_parts(gpus)
    while parts and sum(3 + cells + 1 + len(unit) for _, _, unit, cells in parts) > room:
        parts.remove(min(parts, key=lambda part: part[0]))
    spans: list[Span] = list(head)
    for place, (_, figures, unit, cells) in enumerate(parts):
        spans += [("   " if place or width_of(head) > 3 else "", "text"), (figures, "text")]
        spans.append((f" {unit}" + " " * (cells - len(figures)), "label"))
    return spread(merged(spans), right, width) if right else merged(spans)


def folded_rows(frame: Frame, view: View, width: int, room: int, title: str = "") -> list[Row]:
    """All cards in at most `room` rows: the gravest odd card first, then what the others have."""
    gpus = frame.snapshot.gpus
    sign, role = sign_of(gpus)
    name: Row = ((f" {sign} ", role), *(((f"{title}  ", "strong"),) if title else ()))
    if all(gpu.state == "stale" for gpu in gpus):
        return [(*name, (stale_words(frame, view), "strong"))]
    odd = sorted((gpu for gpu in gpus if is_odd(gpu)), key=gravity)
    normal = [gpu for gpu in gpus if not is_odd(gpu)]
    counted = normal_words(gpus)
    trouble = told(frame.snapshot) if not odd else []
    if trouble:
        # All cards are well, so it is the host's.
        mark, look = GRADES[trouble[0][0].grade]
        said: Row = ((f" {mark} ", look), (clean(trouble[0][0].sentence), "strong"))
        first = spread(said, ((f"{counted} ", "label"),) if title else (), width)
        return [first, *([summary_row((*name[:1],), gpus, width)] if room > 1 else [])]
    if not odd:
        rows = [summary_row((*name, *(((counted, "text"),) if title else ())), gpus, width)]
        if room > 1:
            rows += host_rows(frame.snapshot.host, width, room - 1, "   ")
        return rows[:room]
    rows = []
    for gpu in odd[: max(1, room - 1)]:
        mark, look = SIGNS[gpu.state]
        more: Row = ()
        if title and not rows:
            more = ((f"{counted} ", "label"),)
        rows.append(spread(((f" {mark} ", look), (odd_words(gpu, gpus), "strong")), more, width))
    if room > len(rows) and normal:
        rows.append(summary_row((("   the others", "label"),), normal, width))
    return rows


def stale_words(frame: Frame, view: View) -> str:
    """For how long the cards have not been read, and why."""
    at = max(gpu.at for gpu in frame.snapshot.gpus)
    source = next((each for each in frame.snapshot.sources if each.name == SOURCE), None)
    why = f": {clean(source.detail)}" if source is not None and source.state != "up" and source.detail else ""
    return f"not read for {age(view.age_of(frame, at))}{why}"


def note_rows(frame: Frame, view: View, width: int, room: int) -> list[Row]:
    """What stands below the table: the gravest findings with what to do, or the host's line when all is well."""
    if room < 1:
        return []
    snapshot = frame.snapshot
    rows: list[Row] = []
    if any(gpu.state == "stale" for gpu in snapshot.gpus):
        rows.append(((" ? ", "tainted"), (stale_words(frame, view), "strong")))
    for finding, more in told(snapshot):
        left = room - len(rows)
        if left < 1:
            break
        rows += finding_rows(
            finding, snapshot.at, view.zone, width, more=more, most=1 if left < 4 else 2, step=left > 1
        )[:left]
    if len(rows) < room and snapshot.host is not None:
        rows += host_rows(snapshot.host, width, room - len(rows))
    return rows[:room]


class GpuPanel(Drawn, can_focus=True):
    """All cards of the host, as closely as there is room."""

    def memory(self, frame: Frame, view: View) -> Hashable:
        """New readings, and the ages of old ones."""
        snapshot = frame.snapshot
        old = any(gpu.state == "stale" for gpu in snapshot.gpus)
        return (
            snapshot.gpus,
            snapshot.host,
            old and (int(snapshot.at), view.since_arrival),
            absence(snapshot) if old or not snapshot.gpus else "",
            view.dimmed(),
            view.zone,
        )

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """One row, a folded panel, or heading and table."""
        gpus = frame.snapshot.gpus
        if not gpus:
            lines = wrapped(absence(frame.snapshot), max(8, width - 6), max(1, height - 1))
            rows: list[Row] = [heading(TITLE, "", "", width, focused=self.has_focus)]
            rows += [(("   ", "text"), (line, "text")) for line in lines]
            rows += host_rows(frame.snapshot.host, width, height - len(rows)) if frame.snapshot.host else []
        elif height == 1:
            rows = folded_rows(frame, view, width, 1, TITLE)
        else:
            rows = [heading(TITLE, kinds_of_card(gpus), normal_words(gpus), width, focused=self.has_focus)]
            needed = rows_needed(len(gpus), width)
            if height - 1 >= min(needed, LEAST_TABLE):
                rows += table(gpus, width, height - 1)
                air = height - len(rows) > LARGE
                rows += (
                    [(), *note_rows(frame, view, width, height - len(rows) - 1)]
                    if air
                    else note_rows(frame, view, width, height - len(rows))
                )
            else:
                rows += folded_rows(frame, view, width, height - 1)
        return (faded(rows) if view.dimmed() else rows)[:height]

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The heading alone."""
        return [heading(TITLE, "", "", width, focused=self.has_focus)]


LEAST_TABLE = 6
"""Rows from which a table is drawn though not all cards fit into it."""
LARGE = 4
"""With more rows left than this there is air below the table."""
