"""All dependence on Textual's compositor: a screen that writes only the cells that changed.

The stock partial update writes a widget's line from its left edge up to the change. Over SSH and in nested tmux
that is most of the traffic of a screen whose figures stand at the right.
"""

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor
from textual.screen import Screen


class LeanUpdate(ChopsUpdate):
    """A partial update that is cut at both ends."""

    def render_segments(self, console: Console) -> str:
        """The terminal's bytes: for each change, where it is and what stands there now."""
        parts: list[str] = []
        for y, first, after in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= after or end <= first:
                    continue
                left, right = max(x, first), min(end, after)
                parts.append(Control.move_to(left, y).segment.text)
                parts.append(strip.crop(left - x, right - x).render(console))
        return "".join(parts)


class LeanCompositor(Compositor):
    """A compositor whose partial updates are lean."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """The changes since the last update; None without any."""
        update = super().render_partial_update()
        return None if update is None else LeanUpdate(update.chops, update.spans, update.chop_ends)


class LeanScreen(Screen[None]):
    """A screen with such a compositor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._compositor = LeanCompositor()
