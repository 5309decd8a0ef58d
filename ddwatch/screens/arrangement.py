"""Where each panel stands on a screen of a given size: panels fold by priority, and nothing overlaps."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ddwatch.widgets.gpu_table import rows_needed

Panel = Literal[
    "server", "verdict", "throughput", "accept", "latency", "step", "load", "ranks", "sources", "events", "gpus", "keys"
]
Special = Literal["waiting", "brief"]

SMALLEST = (60, 16)
"""Columns and rows below which only the brief reading is shown."""

BETWEEN = 2
"""Blank cells between panels that stand side by side."""

WIDE = 100
"""From here on a table fits beside a plot."""
ROOM_FOR_THREE = 114
"""From here on three plots stand side by side on a low screen."""
VERY_WIDE = 150
"""From here on three panels stand side by side on a tall screen."""


class Place(NamedTuple):
    """A rectangle in cells."""

    x: int
    y: int
    width: int
    height: int


class Band(NamedTuple):
    """Panels side by side, with the height that they need, like, and the share of what is left over."""

    panels: tuple[tuple[Panel, int], ...]
    """Panel and its share of the width."""
    least: int
    liked: int
    weight: int


def side_by_side(band: Band, y: int, width: int, height: int) -> dict[str, Place]:
    """The band's panels from left to right, filling the width."""
    shares = sum(share for _, share in band.panels)
    free = width - BETWEEN * (len(band.panels) - 1)
    places: dict[str, Place] = {}
    x, used = 0, 0
    for panel, share in band.panels:
        used += share
        end = free * used // shares + BETWEEN * len(places)
        places[panel] = Place(x, y, end - x, height)
        x = end + BETWEEN
    return places


def bands(width: int, height: int, ranks: int) -> list[Band]:
    """Which panels a screen of this size has room for, from top to bottom.

    Step time by context is of one rank: where there are several, their table stands in its place.
    """
    tall = height >= 32
    throughput = Band((("throughput", 1),), 5, 9 if tall else 7, 3)
    if not tall:
        plots: tuple[tuple[Panel, int], ...] = (("accept", 1), ("latency", 1))
        if ranks <= 1 and width >= ROOM_FOR_THREE:
            plots = (*plots, ("step", 1))
        chosen = [throughput, Band(plots, 5, 6, 2)]
        if height >= 20:
            chosen.append(Band((("events", 1),), 3, 4, 1))
        if height >= 22:
            chosen.append(Band((("sources", 1),), 1, 1, 0))
        return chosen
    if width >= VERY_WIDE:
        third: tuple[tuple[Panel, int], ...] = (("step", 3), ("events", 3), ("sources", 2))
        if ranks > 1:
            third = (("ranks", 4), ("events", 5), ("sources", 3))
        plots = (("accept", 1), ("latency", 1), ("load", 1))
        return [throughput, Band(plots, 5, 8, 2), Band(third, 6, max(10, min(ranks + 2, 18)), 2)]
    pair = Band((("accept", 1), ("latency", 1)), 5, 7, 2)
    last = [Band((("events", 2), ("sources", 1)), 4, 5, 1)]
    if width < WIDE:
        last = [Band((("events", 1),), 4, 5, 1), Band((("sources", 1),), 1, 1, 0)]
    if ranks <= 1:
        return [throughput, pair, Band((("step", 3), ("load", 2)), 6, 9, 2), *last]
    middle: tuple[tuple[Panel, int], ...] = (("load", 1), ("ranks", 1)) if width >= WIDE else (("ranks", 1),)
    return [throughput, pair, Band(middle, 6, min(ranks + 2, 12), 1), *last]


def low_bands(width: int, height: int, ranks: int, room: int) -> list[Band]:
    """The same on a low screen with cards: they are a row or three below the events."""
    plots: tuple[tuple[Panel, int], ...] = (("accept", 1), ("latency", 1))
    if ranks <= 1 and width >= ROOM_FOR_THREE:
        plots = (*plots, ("step", 1))
    chosen = [Band((("throughput", 1),), 5, 7, 3), Band(plots, 5, 6, 2)]
    further = [Band((("gpus", 1),), 1, 1 if height < 26 else 3, 0)]
    if height >= 20:
        further.insert(0, Band((("events", 1),), 3, 4, 1))
    if height >= 22:
        further.append(Band((("sources", 1),), 1, 1, 0))
    for band in further:
        if sum(each.least for each in (*chosen, band)) <= room:
            chosen.append(band)
    return chosen


LONGEST_VERDICT = 9
"""Rows that the verdict block of a tall screen may come to; what is shown must not depend on how long it is now."""


def bands_with_cards(width: int, height: int, ranks: int, cards: int) -> list[Band]:
    """The same on a tall screen with cards: their table comes before what is not of the first order."""
    room = height - 2 - LONGEST_VERDICT
    several, three, very_wide = ranks > 1, width >= ROOM_FOR_THREE, width >= VERY_WIDE
    throughput = Band((("throughput", 1),), 5, 8, 3)
    pair = Band((("accept", 1), ("latency", 1)), 5, 7, 2)
    step: tuple[tuple[Panel, int], ...] = (("step", 3), ("load", 2))
    if several:
        step = (("load", 1), ("ranks", 1)) if width >= WIDE else (("ranks", 1),)
    middle = Band(step, 6, 9 if not several else min(ranks + 2, 12), 2)
    beside: Panel = "load" if several or very_wide else "step"
    trio = Band((*pair.panels, (beside, 1)), 5, 7, 2) if three else pair
    last = [Band((("events", 2), ("sources", 1)), 4, 5, 1)]
    if width < WIDE:
        last = [Band((("events", 1),), 4, 5, 1), Band((("sources", 1),), 1, 1, 0)]
    if very_wide:
        wide: tuple[tuple[Panel, int], ...] = (("step", 3), ("events", 3), ("sources", 2))
        if several:
            wide = (("ranks", 4), ("events", 5), ("sources", 3))
        last = [Band(wide, 6, max(10, min(ranks + 2, 18)), 2)]
    full = 1 + rows_needed(cards, width)
    table = Band((("gpus", 1),), full, full + 1, 0)
    shapes = [[throughput, pair, middle, table, *last], [throughput, trio, table, *last]]
    if very_wide:
        shapes = [[throughput, trio, table, *last]]
    elif several and three:
        needed = 1 + max(rows_needed(cards, width * BOTH[0] // sum(BOTH)), min(ranks + 1, 12))
        both = Band((("gpus", BOTH[0]), ("ranks", BOTH[1])), needed, needed + 1, 0)
        shapes.insert(1, [throughput, trio, both, *last])
    shapes += [
        [throughput, *([trio] if very_wide else [pair, middle]), Band((("gpus", 1),), rows, 3, 0), *last]
        for rows in (2, 1)
    ]
    shapes.append([throughput, pair, Band((("gpus", 1),), 1, 3, 0), *last])
    return next(shape for shape in shapes if sum(band.least for band in shape) <= room)


BOTH = (6, 5)
"""Shares of cards and ranks where they stand side by side."""


def heights(chosen: Sequence[Band], room: int) -> list[int]:
    """A height per band that fills `room`: first what each needs, then what it likes, then by weight."""
    given = [band.least for band in chosen]
    left = room - sum(given)
    for place, band in enumerate(chosen):
        more = max(0, min(left, band.liked - given[place]))
        given[place] += more
        left -= more
    growing = [place for place, band in enumerate(chosen) if band.weight]
    while left > 0 and growing:
        thinnest = min(growing, key=lambda place: given[place] / chosen[place].weight)
        given[thinnest] += 1
        left -= 1
    return given


def verdict_height(height: int, wanted: int) -> int:
    """Rows of the verdict block: three at least, on a taller screen what it wants and air around it."""
    if height < 20:
        return 3
    return max(4, min(wanted, 6 + (height >= 24) - (height < 21))) if height < 34 else max(6, min(wanted + 2, 9))


def arrange(
    width: int,
    height: int,
    *,
    ranks: int = 1,
    cards: int = 0,
    data: bool = True,
    wanted: int = 4,
    expanded: str | None = None,
) -> dict[str, Place]:
    """Every panel that is shown, with its place; together they fill the screen.

    Args:
        width: columns of the screen.
        height: rows of the screen.
        ranks: how many ranks the service has.
        cards: how many GPUs are read; without any their panel takes no room.
        data: whether there is anything to show yet.
        wanted: rows that the verdict block needs to say what matters.
        expanded: the one panel that the reader wants large; None for the overview.
    """
    if width < SMALLEST[0] or height < SMALLEST[1]:
        return {"brief": Place(0, 0, width, height)}
    top, bottom = Place(0, 0, width, 1), Place(0, height - 1, width, 1)
    if not data:
        return {"server": top, "waiting": Place(0, 1, width, height - 2), "keys": bottom}
    upper = verdict_height(height, wanted) if expanded is None else 3 + (height >= 20)
    verdict = Place(0, 1, width, upper)
    places: dict[str, Place] = {"server": top, "verdict": verdict}
    y, room = 1 + upper, height - 2 - upper
    if expanded is not None:
        places[expanded] = Place(0, y, width, room)
    else:
        chosen = bands(width, height, ranks)
        if cards:
            low = low_bands(width, height, ranks, room) if height < 32 else None
            chosen = low or bands_with_cards(width, height, ranks, cards)
        for band, tall in zip(chosen, heights(chosen, room), strict=True):
            places.update(side_by_side(band, y, width, tall))
            y += tall
    places["keys"] = bottom
    return places
