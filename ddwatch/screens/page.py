"""One screen that a key lays over the overview: a listing under the server line."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import reactive

from ddwatch.core.snapshot import Frame
from ddwatch.widgets.key_line import PageKeyLine
from ddwatch.widgets.lean import LeanScreen
from ddwatch.widgets.listing import Listing
from ddwatch.widgets.server_line import ServerLine
from ddwatch.widgets.view import View


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
        yield PageKeyLine(id="keys", keys=self.LISTING.KEYS).data_bind(Page.frame, Page.view)

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
