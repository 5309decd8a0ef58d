"""The one screen that answers: what the service does now, what it did lately, and whether that is the present."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.reactive import reactive

from ddwatch.core.snapshot import Frame
from ddwatch.screens.arrangement import Place, arrange
from ddwatch.widgets.brief import Brief
from ddwatch.widgets.drawn import Drawn
from ddwatch.widgets.events import EventPanel
from ddwatch.widgets.key_line import KeyLine
from ddwatch.widgets.lean import LeanScreen
from ddwatch.widgets.plot_panel import AcceptPanel, LatencyPanel, LoadPanel, ThroughputPanel
from ddwatch.widgets.ranks import RankPanel
from ddwatch.widgets.server_line import ServerLine
from ddwatch.widgets.sources import SourcePanel
from ddwatch.widgets.verdict_block import VerdictBlock, is_loud
from ddwatch.widgets.view import View
from ddwatch.widgets.waiting import Waiting


class Overview(LeanScreen):
    """Owns what is shown; the app hands it over, the panels are bound to it."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "expand", "expand the chosen panel", show=False),
        Binding("escape", "overview", "back to the overview", show=False),
    ]

    frame: reactive[Frame | None] = reactive(None, always_update=True, repaint=False)
    """What the screen shows; None until the first data."""
    view: reactive[View] = reactive(View, repaint=False)
    """How it stands to its data."""

    def __init__(self) -> None:
        super().__init__(id="overview")
        self.expanded: str | None = None
        self._arranged: tuple[object, ...] = ()

    # 80x24                                                    120x40
    # ┌ server ────────────────────────────────── live ┐       ┌ server ───────────────────────────── live ┐
    # │ verdict   measured   expected   ratio          │       │ verdict   measured   expected   ratio     │
    # │   batch  context  accept  step  queue   origin │       │   batch  context  accept  step  queue  KV │
    # │   the sentence, the cause, what to do          │       │   the sentence, the cause, what to do     │
    # ├ throughput ────────────────────────────────────┤       ├ throughput ───────────────────────────────┤
    # │ plot                                   figures │       │ plot                              figures │
    # ├ accept length ────────  verify latency ────────┤       ├ accept length ──────  verify latency ─────┤
    # │ plot         figures    plot           figures │       │ plot       figures    plot        figures │
    # ├ events ────────────────────────────────────────┤       ├ load: context ──────  ranks or sources ───┤
    # │ time  kind  text                               │       │ plot         load     table               │
    # │ ● source  age · lines · unread            cost │       ├ events ─────────────  (sources) ──────────┤
    # └ keys ──────────────────────────────────── zone ┘       └ keys ─────────────────────────────── zone ┘
    def compose(self) -> ComposeResult:
        """Every panel once; `place_panels` decides which are seen, and where."""
        for panel in (
            ServerLine(id="server"),
            VerdictBlock(id="verdict"),
            ThroughputPanel(id="throughput"),
            AcceptPanel(id="accept"),
            LatencyPanel(id="latency"),
            LoadPanel(id="load"),
            RankPanel(id="ranks"),
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
        loud = self.frame is not None and is_loud(self.frame.snapshot.verdict)
        key = (width, height, ranks, self.frame is not None, self.expanded, loud)
        panels = list(self.query(Drawn))
        if key == self._arranged or not width or not height or not panels:
            return
        self._arranged = key
        places = arrange(width, height, ranks=ranks, data=self.frame is not None, loud=loud, expanded=self.expanded)
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

    def action_overview(self) -> None:
        """Back to all panels; from there, no panel is chosen any more."""
        if self.expanded is None:
            self.set_focus(None)
        self.expanded = None
        self.place_panels()


def move(panel: Drawn, place: Place) -> None:
    """Puts a panel at a place of the screen."""
    panel.styles.offset = (place.x, place.y)
    panel.styles.width = place.width
    panel.styles.height = place.height
