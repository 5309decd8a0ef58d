"""The widget that all panels are: it holds rows of styled text and repaints only the cells that changed."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.rows import ROLES, Role, Row, block, to_ascii
from ddwatch.widgets.view import View


def changed_cells(before: Row, after: Row) -> tuple[int, int] | None:
    """First changed cell and the one after the last, for two rows of equal width; None when they are equal.

    It may name a few cells too many but never too few: inside a span only plain characters are compared, since others
    may be wide, or join the one before them.
    """
    if before == after:
        return None
    head = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            head += _alike(old, new)
            break
        head += cell_len(old[0])
    tail = 0
    for old, new in zip(reversed(before), reversed(after), strict=False):
        if old != new:
            tail += _alike((old[0][::-1], old[1]), (new[0][::-1], new[1]))
            break
        tail += cell_len(old[0])
    width = sum(cell_len(text) for text, _ in after)
    return head, max(head + 1, width - tail)


def _alike(old: tuple[str, Role], new: tuple[str, Role]) -> int:
    """How many cells at the beginning of two spans are the same plain characters."""
    if old[1] != new[1]:
        return 0
    count = 0
    for one, other in zip(old[0], new[0], strict=False):
        if one != other or not one.isascii():
            break
        count += 1
    follows = old[0][count : count + 1] + new[0][count : count + 1]
    return count if follows.isascii() else max(0, count - 1)


class Drawn(Widget):
    """Shows what `draw` returns. Subclasses draw from `frame` and `view` with pure functions."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"drawn--{role}" for role in ROLES}
    """One class per role of `rows.Role`; app.tcss says how each looks."""

    frame: reactive[Frame | None] = reactive(None, always_update=True, repaint=False, init=False)
    """What is shown; None until the first data."""
    view: reactive[View] = reactive(View, repaint=False, init=False)
    """How the screen stands to it."""

    FILL: ClassVar[Role] = "text"
    """Role of the cells that nothing is drawn in."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._strips: dict[int, Strip] = {}
        self._memory: Hashable = None
        self._waiting = False

    def draw(self, frame: Frame, view: View, width: int, height: int) -> Sequence[Row]:
        """The rows for a frame; fewer or shorter ones than asked for are filled up."""
        raise NotImplementedError

    def draw_without_data(self, view: View, width: int, height: int) -> Sequence[Row]:
        """The rows while there is no frame yet."""
        return ()

    def memory(self, frame: Frame, view: View) -> Hashable:
        """What the picture depends on; the same value as last time means that nothing is drawn anew. None: always."""
        return None

    def watch_frame(self) -> None:
        """Draws later, once for all changes of this round."""
        self._later()

    def watch_view(self) -> None:
        """Draws later, once for all changes of this round."""
        self._later()

    def on_resize(self) -> None:
        """Draws at the new size."""
        self._memory = None
        self._later()

    def on_show(self) -> None:
        """Draws what has been missed while hidden."""
        self._later()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Shows or hides the mark of the focus."""
        super().watch_has_focus(_has_focus)
        self._memory = None
        self._later()

    def notify_style_update(self) -> None:
        """Forgets the looks of roles when the style sheet changes."""
        super().notify_style_update()
        self.styles_of_roles: dict[Role, Style] = {}
        self._strips = {}

    def _later(self) -> None:
        if not self._waiting and self.is_attached:
            self._waiting = True
            self.call_later(self.bring_up_to_date)

    def bring_up_to_date(self) -> None:
        """Draws and asks for a repaint of the cells that differ."""
        self._waiting = False
        width, height = self.size
        if not width or not height or not self.display:
            return
        if self.frame is None:
            rows = self.draw_without_data(self.view, width, height)
            self._memory = None
        else:
            memory = self.memory(self.frame, self.view)
            if memory is not None and memory == self._memory and self._rows:
                return
            self._memory = memory
            rows = self.draw(self.frame, self.view, width, height)
        self._put(block(rows, width, height, self.FILL))

    def _put(self, rows: tuple[Row, ...]) -> None:
        if self.view.ascii:
            rows = tuple(tuple((to_ascii(text), role) for text, role in row) for row in rows)
        before, self._rows = self._rows, rows
        if len(before) != len(rows):
            self._strips = {}
            self.refresh()
            return
        regions = []
        for y, (old, new) in enumerate(zip(before, rows, strict=True)):
            cells = changed_cells(old, new)
            if cells is not None:
                self._strips.pop(y, None)
                regions.append(Region(cells[0], y, cells[1] - cells[0], 1))
        if regions:
            self.refresh(*regions)

    def look(self, role: Role) -> Style:
        """The style of a role from the style sheet, remembered."""
        known = self.styles_of_roles.get(role)
        if known is None:
            known = self.styles_of_roles[role] = self.get_component_rich_style(f"drawn--{role}")
        return known

    def render_line(self, y: int) -> Strip:
        """One drawn row as the terminal's segments."""
        if y >= len(self._rows):
            return Strip.blank(self.size.width, self.look(self.FILL))
        return Strip([Segment(text, self.look(role)) for text, role in self._rows[y]], self.size.width)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a region, each made once for as long as it stays the same: nothing else surrounds a panel."""
        filters = self.get_line_filters()
        strips = []
        for y in crop.line_range:
            strip = self._strips.get(y)
            if strip is None or strip.cell_length != self.size.width:
                strip = self.render_line(y)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, self.background_colors[1])
                self._strips[y] = strip
            strips.append(strip.crop(crop.x, crop.right))
        return strips

    @property
    def settled(self) -> bool:
        """Whether what is drawn is up to date with what it was given, at the size that it has."""
        return not self._waiting and len(self._rows) == self.size.height

    def reading(self) -> str:
        """What is drawn, as text: what the user reads."""
        return "\n".join("".join(text for text, _ in row) for row in self._rows)
