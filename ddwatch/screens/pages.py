"""The screens that a key lays over the overview: all events, all sources, the reasons, the help."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import reactive

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.key_line import PageKeyLine
from ddwatch.widgets.lean import LeanScreen
from ddwatch.widgets.listing import EventListing, HelpListing, Listing, SourceListing
from ddwatch.widgets.server_line import ServerLine
from ddwatch.widgets.view import View
from ddwatch.widgets.why import WhyListing


class Page(LeanScreen):
    """One listing under the server line; the same key, escape or q leads back."""

    LISTING: ClassVar[type[Listing]]
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "back", priority=True, show=False)]

    frame: reactive[Frame | None] = reactive(None, always_update=True, repaint=False)
    view: reactive[View] = reactive(View, repaint=False)

    def compose(self) -> ComposeResult:
        """Server line, listing, keys."""
        yield ServerLine(id="server").data_bind(Page.frame, Page.view)
        yield self.LISTING(id="listing").data_bind(Page.frame, Page.view)
        yield PageKeyLine(id="keys").data_bind(Page.frame, Page.view)

    def on_mount(self) -> None:
        """The keys move the listing at once."""
        self.query_one(Listing).focus()

    def show(self, frame: Frame | None, view: View) -> None:
        """Takes over what is to be seen."""
        self.view = view
        self.frame = frame

    def action_leave(self) -> None:
        """Back to the overview."""
        self.dismiss()


class EventPage(Page):
    """All events."""

    LISTING = EventListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "leave", "back", priority=True, show=False)]


class SourcePage(Page):
    """All sources."""

    LISTING = SourceListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "leave", "back", priority=True, show=False)]


class WhyPage(Page):
    """Everything that the verdict rests on."""

    LISTING = WhyListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "leave", "back", priority=True, show=False)]


class HelpPage(Page):
    """What signs and keys mean."""

    LISTING = HelpListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "leave", "back", priority=True, show=False)]
