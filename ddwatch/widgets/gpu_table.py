"""One aligned row per card; columns give way by worth where there is no room, and never change places."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddwatch.core.hardware_view import FindingKind, GpuView
from ddwatch.widgets import gpu_words
from ddwatch.widgets.figures import ABSENT
from ddwatch.widgets.gpu_words import GRADES, SIGNS, gibibytes, gigahertz, of_all, shown_in
from ddwatch.widgets.rows import Role, Row, Span, clean, faded, fit, merged
from ddwatch.widgets.trend_line import trend_line

Cell = Callable[[GpuView, int], tuple[str, Role]]
"""What stands in a cell of so many signs, and what it is."""

TREND = 12
"""Cells of a trend: two steps in one."""
BESIDE = 2
"""Blank cells between two tables side by side."""
HALF = 58
"""Below this width a table is not halved."""


class Column(NamedTuple):
    """One column."""

    key: str
    heading: str
    """With its unit."""
    width: int
    worth: int
    """What gives way first: the lowest."""
    cell: Cell
    right: bool = True
    """Figures stand at the right, words at the left."""
    optional: bool = False
    """Left out where no card reports it."""
    varied: bool = False
    """Whether a card's limits or names may ask for more cells."""


def figure_cell(
    text: Callable[[GpuView], str], kinds: tuple[FindingKind, ...] = (), arrow: str = "", role: Role = "text"
) -> Cell:
    """A figure; where a finding shows in it, with an arrow before it in the role of the finding's grade."""

    def cell(gpu: GpuView, _width: int) -> tuple[str, Role]:
        """The figure of one card."""
        words, found = text(gpu), shown_in(gpu)
        shown = [found[kind] for kind in kinds if kind in found]
        grave = min(shown, key=lambda each: gpu_words.GRADE_ORDER.index(each.grade), default=None)
        if grave is None or words == ABSENT:
            return words, "label" if words == ABSENT else role
        return arrow + words, GRADES[grave.grade][1]

    return cell


def number(value: float | None, scale: float = 1.0) -> str:
    """A whole number."""
    return ABSENT if value is None else f"{value * scale:.0f}"


def trend_cell(attribute: str, top: Callable[[GpuView], float | None]) -> Cell:
    """The closed steps of a trend: the open one would move with every reading."""

    def cell(gpu: GpuView, width: int) -> tuple[str, Role]:
        """The trend of one card."""
        values: tuple[float | None, ...] = getattr(gpu.trend, attribute)[:-1] if gpu.trend is not None else ()
        most = top(gpu) or max((value for value in values if value is not None), default=None)
        return trend_line(values, most, width), "measured"

    return cell


def _power(gpu: GpuView) -> str:
    return of_all(gpu.card.power_watts, gpu.card.power_limit_watts)


def _memory(gpu: GpuView) -> str:
    return of_all(gibibytes(gpu.card.memory_used_bytes), gibibytes(gpu.card.memory_total_bytes))


def _nvlinks(gpu: GpuView) -> str:
    links = gpu.card.nvlinks
    return of_all(gpu.card.nvlinks_active, links) if links else ABSENT


def _state_number(gpu: GpuView) -> str:
    return ABSENT if gpu.card.performance_state is None else f"P{gpu.card.performance_state}"


SLOWED: tuple[FindingKind, ...] = ("sm-clock", "thermal", "hw-slowdown", "power-brake")
COLUMNS = (
    Column("index", "GPU", 3, 100, lambda gpu, _: (str(gpu.card.index), "strong")),
    Column(
        "rank", "rank", 5, 50, lambda gpu, _: (clean(gpu.rank or ABSENT), "label"),
        right=False, optional=True, varied=True,
    ),
    Column("state", "state", 13, 99, lambda gpu, _: (gpu_words.state_word(gpu), "text"), right=False),
    Column("util", "util %", 6, 90, figure_cell(lambda gpu: number(gpu.card.utilization_ratio, 100))),
    Column(
        "mem-util", "mem %", 5, 40, figure_cell(lambda gpu: number(gpu.card.memory_utilization_ratio, 100)),
        optional=True,
    ),
    Column("p", "P", 3, 38, figure_cell(_state_number, role="label"), optional=True),
    Column("sm", "SM GHz", 6, 95, figure_cell(lambda gpu: gigahertz(gpu.card.sm_clock_hertz), SLOWED, "↓")),
    Column("normal", "normal", 6, 84, figure_cell(lambda gpu: gigahertz(gpu.normal_sm_clock_hertz), role="label")),
    Column(
        "memory-clock", "mem GHz", 7, 74,
        figure_cell(lambda gpu: gigahertz(gpu.card.memory_clock_hertz), ("memory-clock",), "↓"),
    ),
    Column("power", "W/limit", 7, 88, figure_cell(_power, ("power-brake",)), varied=True),
    Column("heat", "°C", 4, 87, figure_cell(lambda gpu: number(gpu.card.temperature_celsius), ("thermal",), "↑")),
    Column(
        "memory-heat", "mem °C", 6, 36, figure_cell(lambda gpu: number(gpu.card.memory_temperature_celsius)),
        optional=True,
    ),
    Column("memory", "mem GiB", 7, 72, figure_cell(_memory), varied=True),
    Column("link", "PCIe", 10, 82, figure_cell(gpu_words.link_text, ("pcie-link",)), right=False),
    Column("nvlink", "NVLink", 6, 45, figure_cell(_nvlinks, ("nvlink",)), optional=True),
    Column("throttle", "throttle", 11, 83, gpu_words.throttle_words, right=False),
    Column("errors", "errors", 11, 80, gpu_words.error_words, right=False),
    Column(
        "clock-trend", "clock 2 min", TREND, 70,
        trend_cell("sm_clock_hertz", lambda gpu: gpu.card.sm_clock_max_hertz), right=False,
    ),
    Column(
        "power-trend", "power 2 min", TREND, 34,
        trend_cell("power_watts", lambda gpu: gpu.card.power_limit_watts), right=False,
    ),
    Column(
        "heat-trend", "°C 2 min", TREND, 32,
        trend_cell("temperature_celsius", lambda gpu: gpu.card.slowdown_celsius), right=False,
    ),
    Column("util-trend", "util 2 min", TREND, 30, trend_cell("utilization_ratio", lambda _: 1.0), right=False),
)  # fmt: skip
"""In order of place."""


class Layout(NamedTuple):
    """The columns of a table of one width, each with its cells and the blanks before it."""

    columns: tuple[Column, ...]
    gaps: tuple[int, ...]


def layout(gpus: Sequence[GpuView], width: int) -> Layout:
    """The columns that fit beside the mark of the chosen card, the most worth first; what is left widens them."""
    reported: list[Column] = []
    for column in COLUMNS:
        if column.optional or column.varied:
            texts = [column.cell(gpu, column.width)[0] for gpu in gpus if gpu.card.lost is None]
            if column.optional and all(text == ABSENT for text in texts):
                continue
            # What a card is wider by are its limits, which do not change while its figures do.
            column = column._replace(width=max([column.width, *map(len, texts)]))
        reported.append(column)
    room, taken = width - 2, 0
    kept: list[Column] = []
    for column in sorted(reported, key=lambda each: -each.worth):
        needed = column.width + bool(kept)
        if taken + needed > room:
            # A column of less worth must not stand where one of more worth was left out.
            break
        kept.append(column)
        taken += needed
    columns = tuple(column for column in reported if column in kept)
    gaps = [0, *(1 for _ in columns[1:])]
    # What is left over sets columns apart, before words first: figures at the right and words at the left touch.
    wanted = sorted(range(1, len(columns)), key=lambda place: columns[place].right)
    for place in (wanted * 2)[: room - taken]:
        gaps[place] += 1
    return Layout(columns, tuple(gaps))


def name_row(plan: Layout) -> Row:
    """What the columns are."""
    spans: list[Span] = [(" ", "label")]
    for column, gap in zip(plan.columns, plan.gaps, strict=True):
        text = f"{column.heading:>{column.width}}" if column.right else f"{column.heading:<{column.width}}"
        spans.append((" " * gap + text, "label"))
    return merged(spans)


def card_row(gpu: GpuView, plan: Layout, width: int, *, chosen: bool = False) -> Row:
    """One card; of one that cannot be read, why."""
    spans: list[Span] = [("▸" if chosen else " ", "focus" if chosen else "text")]
    for column, gap in zip(plan.columns, plan.gaps, strict=True):
        spans.append((" " * gap, "text"))
        if column.key == "state":
            spans += gpu_words.state_spans(gpu, column.width)
            if gpu.state == "lost":
                # There are no figures, so the words have their room; what the driver told comes first.
                told = [text for text, _ in gpu_words.error_parts(gpu)]
                words = "; ".join([*told, clean(gpu.card.lost or "it cannot be read")])
                return fit((*spans, (" ", "text"), (words, "strong")), width)
            continue
        text, role = column.cell(gpu, column.width)
        spans.append((f"{text:>{column.width}}" if column.right else f"{text:<{column.width}}", role))
    row = merged(spans)
    return faded([row])[0] if gpu.state == "stale" else row


def rows_needed(cards: int, width: int) -> int:
    """Rows of the whole table with its column names, in two halves where that is shorter and there is room."""
    return 1 + (-(-cards // 2) if cards > HALVED_FROM and width >= 2 * HALF + BESIDE else cards)


HALVED_FROM = 8
"""More cards than this stand in two halves side by side, where the screen is wide enough."""


def table(gpus: Sequence[GpuView], width: int, room: int, chosen: int | None = None) -> list[Row]:
    """Column names and cards in at most `room` rows; what does not fit is said, and odd cards are kept.

    Args:
        gpus: the cards.
        width: cells.
        room: rows.
        chosen: place of the card that the reader has chosen.
    """
    if len(gpus) + 1 > room and rows_needed(len(gpus), width) <= room < len(gpus) + 1:
        half = -(-len(gpus) // 2)
        across = (width - BESIDE) // 2
        left = table(gpus[:half], across, room, chosen)
        right = table(gpus[half:], across, room, None if chosen is None else chosen - half)
        blank: Row = ()
        padded = [*right, *([blank] * (len(left) - len(right)))]
        return [
            merged((*fit(one, across), (" " * BESIDE, "text"), *two)) for one, two in zip(left, padded, strict=True)
        ]
    plan = layout(gpus, width)
    places = range(len(gpus)) if len(gpus) < room else seen_places(gpus, max(0, room - 2), chosen)
    rows = [name_row(plan)]
    rows += [card_row(gpus[place], plan, width, chosen=place == chosen) for place in places]
    hidden = [gpu for place, gpu in enumerate(gpus) if place not in places]
    if hidden:
        odd = sum(1 for gpu in hidden if gpu_words.is_odd(gpu))
        rows.append(((f"   … {len(hidden)} more, {f'{odd} of them odd' if odd else 'all normal'}: g", "label"),))
    return rows[:room]


def seen_places(gpus: Sequence[GpuView], room: int, chosen: int | None) -> list[int]:
    """Which cards are shown where there is no room for all, in order: the odd ones, those around the chosen one."""
    worth = sorted(
        range(len(gpus)),
        key=lambda place: (not gpu_words.is_odd(gpus[place]), abs(place - chosen) if chosen is not None else place),
    )
    return sorted(worth[:room])


def sign_of(gpus: Sequence[GpuView]) -> Span:
    """The gravest sign of all cards."""
    return SIGNS[min((gpu.state for gpu in gpus), key=gpu_words.GRAVITY.index)]
