"""The line at the bottom: the keys, and the zone that all times are in."""

from collections.abc import Sequence
from typing import ClassVar

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.figures import duration, zone_name
from ddwatch.widgets.rows import Role, Row, Span, fit, merged, spread, width_of
from ddwatch.widgets.view import View

KEYS = (
    (9, "?", "help"),
    (7, "x", "why"),
    (4, "space", "freeze"),
    (5, "+ -", "window"),
    (6, "1-9", "panels"),
    (3, "e", "events"),
    (2, "s", "sources"),
    (8, "q", "quit"),
)
"""Worth, key, what it does."""

REPLAY_KEYS = (
    (9, "?", "help"),
    (8, "p", "pause"),
    (7, "← →", "seek"),
    (6, "[ ]", "speed"),
    (5, "+ -", "window"),
    (4, "1-9", "panels"),
    (3, "x", "why"),
    (2, "e", "events"),
    (8, "q", "quit"),
)


GPU_KEY = (6, "g", "GPUs")
"""Told where cards are read."""

ALERT_KEY = (8, "a", "alerts")
"""Told where something is wrong, or was."""
LIVE_KEY = (9, "b", "live")
"""Told while the past is shown over a live feed."""

PAGE_KEYS = (
    (9, "esc", "back"),
    (8, "↑ ↓", "move"),
    (7, "pgup pgdn", "page"),
    (6, "home end", "ends"),
    (5, "space", "freeze"),
)


def key_row(view: View, frame: Frame | None, width: int, own: tuple[tuple[int, str, str], ...] | None = None) -> Row:
    """As many keys as fit, the least needed left out first; the zone or the replay's place at the right."""
    right_text = ""
    if view.replay is not None:
        right_text = f"{duration(view.replay.position)} of {duration(view.replay.duration)} · "
    if frame is not None:
        right_text += f"times {zone_name(frame.snapshot.at, view.zone)}"
        if not frame.snapshot.stamped:
            right_text += " (estimated)"
    right: Row = ((right_text, "bar-label"), (" ", "bar"))
    keys = list(own or (REPLAY_KEYS if view.replay is not None else KEYS))
    if own is None and frame is not None and frame.snapshot.gpus:
        keys.insert(-1, GPU_KEY)
    if own is None and frame is not None and frame.snapshot.alerts:
        keys.insert(1, ALERT_KEY)
    if own is None and view.past:
        keys.insert(1, LIVE_KEY)

    def left_of(shown: list[tuple[int, str, str]]) -> Row:
        spans: list[Span] = []
        for _, key, words in shown:
            spans += [(f" {key}", "bar-strong"), (f" {words} ", "bar-label")]
        return merged(spans)

    while len(keys) > 1 and width_of(left_of(keys)) + width_of(right) > width:
        keys.remove(min(keys, key=lambda each: each[0]))
    return fit(spread(left_of(keys), right, width, "bar"), width, "bar")


class KeyLine(Drawn):
    """The line at the bottom."""

    FILL: ClassVar[Role] = "bar"

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """One row."""
        return [key_row(view, frame, width)]

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """One row without times."""
        return [key_row(view, None, width)]


class PageKeyLine(KeyLine):
    """The same under a page, with the page's own keys."""

    def __init__(self, *, id: str, keys: Sequence[tuple[int, str, str]] = PAGE_KEYS) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._keys = tuple(keys)

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """One row."""
        return [key_row(view, frame, width, self._keys)]

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """One row without times."""
        return [key_row(view, None, width, self._keys)]
