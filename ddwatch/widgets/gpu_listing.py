"""The page of the cards: all of them in a table, one of them in full, the host, and what was found with what to do."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from ddwatch.core.hardware_view import GpuView
from ddwatch.core.snapshot import Frame
from ddwatch.widgets.finding_rows import all_findings, finding_rows, together
from ddwatch.widgets.gpu_card import card_rows, plot_rows
from ddwatch.widgets.gpu_table import card_row, layout, name_row
from ddwatch.widgets.gpu_words import gravest, normal_words
from ddwatch.widgets.gpus import absence, kinds_of_card, stale_words
from ddwatch.widgets.host_rows import host_rows
from ddwatch.widgets.listing import Listing
from ddwatch.widgets.rows import Row, faded, heading, merged, wrapped
from ddwatch.widgets.view import View

BESIDE_TABLE = 24
"""Rows that one card in full wants below the whole table; with fewer only its own row stays."""


ROOM_FOR_PLOTS = 15
"""With more rows left than this below all that was found, the chosen card's plots stand there."""


class GpuListing(Listing):
    """The table with a chosen card; up and down choose, enter shows that card in full."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "the chosen card in full", show=False)]
    KEYS: ClassVar[tuple[tuple[int, str, str], ...]] = (
        (9, "esc", "back"),
        (8, "↑ ↓", "card"),
        (7, "enter", "in full"),
        (6, "pgup pgdn", "page"),
        (5, "space", "freeze"),
    )

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self.chosen: str | None = None
        """The card that the reader has chosen, by what it is kept by."""
        self.opened = False
        self._cards: tuple[str, ...] = ()

    def title(self, frame: Frame | None, view: View) -> tuple[str, str]:
        """How many cards of what kind."""
        gpus = frame.snapshot.gpus if frame is not None else ()
        return "GPUs", f"{kinds_of_card(gpus)} · {normal_words(gpus)}" if gpus else ""

    def content(self, frame: Frame | None, view: View, width: int) -> Sequence[Row]:
        """Table, the chosen card or the host, and the findings."""
        if frame is None:
            return [(("   no data yet", "label"),)]
        snapshot = frame.snapshot
        gpus = snapshot.gpus
        self._cards = tuple(map(name_of, gpus))
        if self.chosen is None and gpus:
            # What needs somebody is what the reader has come for.
            self.chosen = name_of(gravest(gpus) or gpus[0])
        rows: list[Row] = []
        if not gpus:
            rows += [(("   ", "text"), (line, "text")) for line in wrapped(absence(snapshot), max(8, width - 6), 9)]
        else:
            rows += self._table(gpus, frame, view, width)
        if self.opened and gpus:
            rows += [(), *card_rows(gpus[self._place()], snapshot, view.zone, width, ascii_only=view.ascii)]
        else:
            rows += [(), *host_rows(snapshot.host, width, 9)]
            found = together(all_findings(snapshot))
            rows += [(), heading("found", "", "gravest first", width)] if found else []
            for finding, more in found:
                rows += finding_rows(finding, snapshot.at, view.zone, width, more=more)
            if gpus and self.size.height - 1 - len(rows) >= ROOM_FOR_PLOTS:
                gpu = gpus[self._place()]
                rows += [(), heading(f"GPU {gpu.card.index}", gpu.rank or "", "enter: in full", width)]
                rows += plot_rows(gpu, view.zone, width, ascii_only=view.ascii)
        return faded(rows) if view.dimmed() else rows

    def _table(self, gpus: Sequence[GpuView], frame: Frame, view: View, width: int) -> list[Row]:
        plan, place = layout(gpus, width), self._place()
        shown = range(len(gpus))
        if self.opened and self.size.height < len(gpus) + BESIDE_TABLE:
            shown = range(place, place + 1)
        rows = [name_row(plan), *(card_row(gpus[each], plan, width, chosen=each == place) for each in shown)]
        if any(gpu.state == "stale" for gpu in gpus):
            rows += [
                merged(((" ? " if number == 0 else "   ", "tainted"), (line, "strong")))
                for number, line in enumerate(wrapped(stale_words(frame, view), max(8, width - 4), 3))
            ]
        return rows

    def _place(self) -> int:
        """Where the chosen card stands now; cards may come and go."""
        return self._cards.index(self.chosen) if self.chosen in self._cards else 0

    def action_move(self, rows: int) -> None:
        """Chooses the card before or after."""
        if not self._cards:
            super().action_move(rows)
            return
        place = max(0, min(self._place() + rows, len(self._cards) - 1))
        self.chosen = self._cards[place]
        if self.opened:
            self.top = 0
        elif place + 1 < self.top or place + 3 > self.top + self.size.height:
            self.top = max(0, place + 3 - self.size.height)
        self.bring_up_to_date()

    def action_page(self, direction: int) -> None:
        """Moves by what is in sight."""
        super().action_move(direction * max(1, self.size.height - 2))

    def action_end(self, direction: int) -> None:
        """Moves to the first or the last row."""
        super().action_move(direction * self._count)

    def action_open(self) -> None:
        """Shows the chosen card in full, or all of them again."""
        self.opened = not self.opened and bool(self._cards)
        self.top = 0
        self.bring_up_to_date()


def name_of(gpu: GpuView) -> str:
    """What a card is kept by while others come and go."""
    return gpu.card.uuid or f"index {gpu.card.index}"
