"""The pages that a key lays over the overview, as one list: keys, palette and help are made from it."""

from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType

from ddwatch.screens.page import Page
from ddwatch.widgets.alerts import AlertListing
from ddwatch.widgets.gpu_listing import GpuListing
from ddwatch.widgets.listing import EventListing, HelpListing, SourceListing
from ddwatch.widgets.requests import RequestListing
from ddwatch.widgets.why import WhyListing


class EventPage(Page):
    """All events."""

    LISTING = EventListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "leave", "back", priority=True, show=False)]


class GpuPage(Page):
    """All cards, and the host."""

    LISTING = GpuListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("g", "leave", "back", priority=True, show=False)]


class AlertPage(Page):
    """All alerts."""

    LISTING = AlertListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("a", "leave", "back", priority=True, show=False)]


class SourcePage(Page):
    """All sources."""

    LISTING = SourceListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "leave", "back", priority=True, show=False)]


class RequestPage(Page):
    """Finished requests."""

    LISTING = RequestListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "leave", "back", priority=True, show=False)]


class WhyPage(Page):
    """Everything that the verdict rests on."""

    LISTING = WhyListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "leave", "back", priority=True, show=False)]


class HelpPage(Page):
    """What signs and keys mean."""

    LISTING = HelpListing
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "leave", "back", priority=True, show=False)]


class PageEntry(NamedTuple):
    """A page with the key that opens and closes it."""

    key: str
    """As Textual names it."""
    sign: str
    """As the reader sees it."""
    title: str
    shows: str
    page: type[Page]


PAGES: tuple[PageEntry, ...] = (
    PageEntry("a", "a", "Alerts", "What is wrong and was; acknowledge, mute, the minute before", AlertPage),
    PageEntry("e", "e", "All events", "With local times", EventPage),
    PageEntry("r", "r", "Finished requests", "Speed, expectation, accept length and verdict of each", RequestPage),
    PageEntry("g", "g", "GPUs", "Every card in full, the host, and what was found with what to do", GpuPage),
    PageEntry("s", "s", "All sources", "State, age, losses", SourcePage),
    PageEntry("x", "x", "Why", "What the verdict rests on, in full", WhyPage),
    PageEntry("question_mark", "?", "Help", "What signs and keys mean", HelpPage),
)
