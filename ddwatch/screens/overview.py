"""The one screen that answers: what the service does now, what it did lately, and whether that is the present."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.message import Message
from textual.reactive import reactive

from ddwatch.core.snapshot import Frame
from ddwatch.screens.arrangement import Place, arrange
from ddwatch.widgets.brief import Brief
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.events import EventPanel
from ddwatch.widgets.gpus import GpuPanel
from ddwatch.widgets.key_line import KeyLine
from ddwatch.widgets.lean import LeanScreen
from ddwatch.widgets.plot_panel import AcceptPanel, LatencyPanel, LoadPanel, ThroughputPanel
from ddwatch.widgets.ranks import RankPanel
from ddwatch.widgets.server_line import ServerLine
from ddwatch.widgets.sources import SourcePanel
from ddwatch.widgets.step_panel import StepPanel
from ddwatch.widgets.verdict_block import VerdictBlock, wanted_rows
from ddwatch.widgets.view import View
from ddwatch.widgets.waiting import Waiting

PANELS = ("throughput", "accept", "latency", "step", "load", "ranks", "events", "sources", "gpus")
"""The panels that can be made large, by their number key from 1 on."""


HOLD_SECONDS = 60.0
"""A verdict block that has grown shrinks only after so long, so that panels do not jump while a verdict wavers."""


class Held:
    """A number that rises at once and falls only after it has been lower for a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._value = 0
        self._since = 0.0

    def see(self, at: float, value: int) -> int:
        """Takes the newest value of a time in seconds; returns the one that holds."""
        if value >= self._value or not 0 <= at - self._since < self._seconds:
            self._value, self._since = value, at
        return self._value


class Overview(LeanScreen):
    """Owns what is shown; the app hands it over, the panels are bound to it."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "expand", "expand the chosen panel", show=False),
        Binding("escape", "overview", "back to the overview", show=False),
        Binding("tab", "turn(1)", "next panel", show=False, priority=True),
        Binding("shift+tab", "turn(-1)", "panel before", show=False, priority=True),
        *(Binding(str(number), f"large({number})", show=False) for number in range(1, len(PANELS) + 1)),
    ]

    class Left(Message):
        """The reader wants to leave what there is nothing left to close on."""

    frame: reactive[Frame | None] = reactive(None, always_update=True, repaint=False)
    """What the screen shows; None until the first data."""
    view: reactive[View] = reactive(View, repaint=False)
    """How it stands to its data."""

    def __init__(self) -> None:
        super().__init__(id="overview")
        self.expanded: str | None = None
        self.places: dict[str, Place] = {}
        """Where each panel that is seen stands, for the newest size and data."""
        self._arranged: tuple[object, ...] = ()
        self._wanted = Held(HOLD_SECONDS)

    # 80x24                                                    120x40
    # ┌ server ────────────────────────────────── live ┐       ┌ server ───────────────────────────── live ┐
    # │ verdict   measured   expected (band)   ratio   │       │ verdict   measured   expected     ratio   │
    # │   batch  context  accept  step         origin  │       │   batch  context  accept  step  queue  KV │
    # │   remembered → now   accept × context × …      │       │   remembered → now   accept × context × … │
    # │   from what, or: sentence, cause, next  since  │       │   from what · sentence, cause, next       │
    # ├ throughput ────────────────────────────────────┤       ├ throughput ───────────────────────────────┤
    # │ plot                                   figures │       │ plot                              figures │
    # ├ accept length ────────  verify latency ────────┤       ├ accept length ──────  verify latency ─────┤
    # │ plot         figures    plot           figures │       │ plot       figures    plot        figures │
    # ├ events ────────────────────────────────────────┤       ├ step time by context  load (or: ranks) ───┤
    # │ time  kind  text                               │       │ curve, band, points   plot        figures │
    # │ ● source  age · lines · unread            cost │       ├ events ─────────────  sources ────────────┤
    # └ keys ──────────────────────────────────── zone ┘       └ keys ─────────────────────────────── zone ┘
    # With cards a row of them stands over the sources at the left; at the right a table of them over the events, and
    # step time moves up beside the latency.
    def compose(self) -> ComposeResult:
        """Every panel once; `place_panels` decides which are seen, and where."""
        for panel in (
            ServerLine(id="server"),
            VerdictBlock(id="verdict"),
            ThroughputPanel(id="throughput"),
            AcceptPanel(id="accept"),
            LatencyPanel(id="latency"),
            StepPanel(id="step"),
            LoadPanel(id="load"),
            RankPanel(id="ranks"),
            GpuPanel(id="gpus"),
            EventPanel(id="events"),
            SourcePanel(id="sources"),
            Waiting(id="waiting"),
            Brief(id="brief"),
            KeyLine(id="keys"),
        ):
            yield panel.data_bind(Overview.frame, Overview.view)

    def show(self, frame: Frame | None, view: View) -> None:
        """Takes over what is to be seen."""
        self.view = view
        self.frame = frame
        self.place_panels()

    def on_mount(self) -> None:
        """The panels are there now: arranges them."""
        self.place_panels()

    def on_resize(self, event: Resize) -> None:
        """Arranges anew for the new size."""
        self.place_panels()

    def place_panels(self) -> None:
        """Gives each panel its place; does nothing while nothing relevant has changed."""
        width, height = self.size
        ranks = len(self.frame.snapshot.ranks) if self.frame is not None else 1
        cards = len(self.frame.snapshot.gpus) if self.frame is not None else 0
        wanted = 0
        if self.frame is not None and width:
            snapshot = self.frame.snapshot
            wanted = self._wanted.see(snapshot.at, wanted_rows(snapshot, width))
        key = (width, height, ranks, cards, self.frame is not None, self.expanded, wanted)
        panels = list(self.query(Drawn))
        if key == self._arranged or not width or not height or not panels:
            return
        self._arranged = key
        places = arrange(
            width,
            height,
            ranks=ranks,
            cards=cards,
            data=self.frame is not None,
            wanted=wanted,
            expanded=self.expanded,
        )
        self.places = places
        for panel in panels:
            place = places.get(panel.id or "")
            panel.display = place is not None
            if place is not None:
                move(panel, place)

    def action_expand(self) -> None:
        """Makes the chosen panel large, or small again."""
        chosen = self.focused
        if self.expanded is not None:
            self.action_overview()
        elif chosen is not None and chosen.id is not None and chosen.display:
            self.expanded = chosen.id
            self.place_panels()

    def action_large(self, number: int) -> None:
        """Makes the panel of this number large, whether it is in sight or not; small again by the same key."""
        panel = PANELS[number - 1]
        self.enlarge(panel if panel != self.expanded else None)

    def action_turn(self, direction: int) -> None:
        """Chooses the next panel; while one is large, makes the next one large."""
        if self.expanded is None:
            (self.focus_next if direction > 0 else self.focus_previous)()
            return
        place = PANELS.index(self.expanded) + direction
        self.enlarge(PANELS[place % len(PANELS)])

    def enlarge(self, panel: str | None) -> None:
        """Shows one panel alone; None for all of them."""
        if self.frame is None:
            return
        self.expanded = panel
        self.place_panels()
        if panel is not None:
            self.set_focus(self.query_one(f"#{panel}"))

    def action_overview(self) -> None:
        """Back to all panels; from there, no panel is chosen any more."""
        if self.expanded is None:
            if self.focused is None:
                self.post_message(self.Left())
            self.set_focus(None)
        self.expanded = None
        self.place_panels()


def move(panel: Drawn, place: Place) -> None:
    """Puts a panel at a place of the screen."""
    panel.styles.offset = (place.x, place.y)
    panel.styles.width = place.width
    panel.styles.height = place.height
