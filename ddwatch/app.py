"""The screen's application: one thread reads the feed, one handler shows what arrived, at a calm pace."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from datetime import tzinfo
from functools import partial
from typing import Any, ClassVar

from textual import on, work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from ddwatch.bell import Bell
from ddwatch.core.alert_view import AlertAction, AlertView
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Snapshot
from ddwatch.feeds.contract import Feed
from ddwatch.following import (
    Answered,
    Asks,
    FaultArrived,
    FeedStopped,
    Following,
    FrameArrived,
    Past,
    PastOpened,
)
from ddwatch.screens.overview import Overview
from ddwatch.screens.page import Page
from ddwatch.screens.pages import PAGES
from ddwatch.widgets.alerts import AlertListing
from ddwatch.widgets.terminal import AsciiDriver, HungUp, TerminalDriver, speaks_utf8, wants_mouse
from ddwatch.widgets.view import WINDOWS, View
from ddwatch.widgets.zones import LocalZone

PACE = 0.25
"""Least seconds between two drawings: figures change at most four times a second."""
TICK = 1.0
"""Seconds between looks at the clock, for ages."""
ANSWER_SECONDS = 10.0
"""How long an answer stays on the screen."""
SEEK = 30.0
"""Seconds of the log that one press of an arrow moves a replay by."""

THEME = Theme(
    name="ddwatch",
    primary="#6cc7f2",
    secondary="#c084fc",
    accent="#6cc7f2",
    warning="#f0b95a",
    error="#ff6b6b",
    success="#62d67f",
    foreground="#c6d0da",
    background="#11161c",
    surface="#1c242d",
    panel="#1c242d",
    dark=True,
)


class DDWatch(App[None]):
    """Shows a feed until the reader quits."""

    CSS_PATH = "app.tcss"
    TITLE = "ddwatch"
    ALLOW_SELECT = False
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c,ctrl+q", "quit", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", "to the shell", priority=True),
        Binding("space", "freeze", "freeze or go on"),
        Binding("plus,equals_sign", "wider", "longer time window"),
        Binding("minus", "narrower", "shorter time window"),
        *(Binding(entry.key, f"page('{entry.key}')", entry.title.lower()) for entry in PAGES),
        Binding("p", "pause", "pause the replay"),
        Binding("left", "seek(-1)", "back in the replay"),
        Binding("right", "seek(1)", "on in the replay"),
        Binding("right_square_bracket", "speed(1)", "faster replay"),
        Binding("left_square_bracket", "speed(-1)", "slower replay"),
        Binding("b", "live", "back to the present"),
    ]

    def __init__(
        self,
        feed: Feed,
        *,
        zone: tzinfo | None = None,
        ascii_only: bool | None = None,
        window: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        pace: float = PACE,
        past: Past | None = None,
        asks: Asks | None = None,
        bell: Bell | None = None,
        ring: Callable[[], None] | None = None,
    ) -> None:
        """Prepares the screen.

        Args:
            feed: where the frames come from; it is closed with the screen.
            zone: the zone of all times on the screen; None is this machine's.
            ascii_only: whether to draw with ASCII alone; None asks the environment.
            window: seconds that the plots show at first.
            clock: rises by one each second; only differences are used.
            pace: least seconds between two drawings.
            past: opens what was recorded at a moment; None where nothing is.
            asks: does what the reader wants of an alert; None where nothing can be asked.
            bell: says when to ring; None for never.
            ring: rings; the terminal's own bell when left out.
        """
        if ascii_only is None:
            ascii_only = not speaks_utf8(os.environ)
        # Without colour Textual keeps shades of grey, unless it draws with the terminal's own colours.
        colourless = True if os.environ.get("NO_COLOR") else None
        super().__init__(driver_class=AsciiDriver if ascii_only else TerminalDriver, ansi_color=colourless)
        self.animation_level = "none"
        self.register_theme(THEME)
        self.theme = THEME.name
        self._clock = clock
        self._pace = pace
        self._live = Following(feed, clock())
        self._past: Following | None = None
        self._open_past, self._asks = past, asks
        self._bell, self._ring = bell, ring or self.bell
        self._answered: Timer | None = None
        self._drawn = float("-inf")
        self._pending: Timer | None = None
        self._view = View(zone=zone or LocalZone(), ascii=ascii_only, window=window, origin=feed.origin)

    def get_default_screen(self) -> Screen[None]:
        """The overview."""
        return Overview()

    def run(self, **options: Any) -> None:
        """Shows the screen until the reader leaves; the mouse only where it is safe, unless `mouse` says otherwise."""
        options.setdefault("mouse", wants_mouse(os.environ))
        super().run(**options)

    @property
    def current(self) -> Following:
        """What is on the screen: a past that was opened, else the feed that the screen was made for."""
        return self._past or self._live

    def on_mount(self) -> None:
        """Begins to read the feed and to look at the clock."""
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.leave)
        self.follow(self._live)
        self.set_interval(TICK, self.look_at_clock)
        self.hand_over()

    def follow(self, following: Following) -> None:
        """Reads a feed in a thread of its own; only posts messages."""
        name = "live" if following is self._live else "past"
        self.run_worker(partial(self._read, following), name, group="feed", thread=True, exit_on_error=False)

    def _read(self, following: Following) -> None:
        for item in following.items():
            if isinstance(item, SourceFault):
                self.post_message(FaultArrived(following, item))
            else:
                self.post_message(FrameArrived(following, item))
        self.post_message(FeedStopped(following, ""))

    @on(FrameArrived)
    def take_frame(self, message: FrameArrived) -> None:
        """Keeps the frame and shows it now, or when the pace allows."""
        message.of.take(message.frame, self._clock())
        if self._bell is not None and message.of is self._live and self._bell.see(message.frame.snapshot):
            self._ring()
        self.show_soon()

    @on(FaultArrived)
    def take_fault(self, message: FaultArrived) -> None:
        """Says what is wrong; the last figures stay, dimmed."""
        message.of.fail(message.fault)
        self.show_soon()

    @on(FeedStopped)
    def take_end(self, message: FeedStopped) -> None:
        """Says that nothing more will come."""
        message.of.end(message.sentence)
        self.show_soon()

    @on(Worker.StateChanged)
    def take_worker_state(self, event: Worker.StateChanged) -> None:
        """A feed that raises is a bug of ours: it is said loudly, never swallowed."""
        following = self._live if event.worker.name == "live" else self._past
        if event.worker.group == "feed" and event.state == WorkerState.ERROR and following is not None:
            following.end(f"the feed stopped with an error of ddwatch itself: {event.worker.error!r}")
            self.show_soon()

    def show_soon(self) -> None:
        """Draws now, or when the last drawing is a pace ago."""
        wait = self._drawn + self._pace - self._clock()
        if wait <= 0:
            self.hand_over()
        elif self._pending is None:
            self._pending = self.set_timer(wait, self.hand_over)

    def look_at_clock(self) -> None:
        """Lets ages grow while nothing arrives."""
        self.current.look(self._clock())
        self.show_soon()

    def hand_over(self) -> None:
        """Gives frame and view to every screen that shows them."""
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        now = self._drawn = self._clock()
        current = self.current
        current.present()
        self._view = View(
            link=current.link,
            trouble=current.trouble,
            since_arrival=current.since_arrival(now),
            silence=current.silence(now),
            frozen=current.frozen,
            window=self._view.window,
            zone=self._view.zone,
            ascii=self._view.ascii,
            origin=current.feed.origin,
            replay=current.replay(),
            past=self._past is not None,
            said=self._view.said,
        )
        with self.batch_update():
            for screen in self.screen_stack:
                if isinstance(screen, (Overview, Page)):
                    screen.show(current.shown, self._view)

    def change(self, **changes: object) -> None:
        """Changes what the reader has chosen, and shows it at once."""
        fields = {name: getattr(self._view, name) for name in View.__struct_fields__}
        self._view = View(**{**fields, **changes})
        self.hand_over()

    def action_freeze(self) -> None:
        """Holds the picture; data goes on behind it."""
        self.current.frozen = not self.current.frozen
        self.hand_over()

    def action_wider(self) -> None:
        """The next longer time window."""
        longer = [window for window in WINDOWS if window > self._view.window]
        self.change(window=longer[0] if longer else self._view.window)

    def action_narrower(self) -> None:
        """The next shorter time window."""
        shorter = [window for window in WINDOWS if window < self._view.window]
        self.change(window=shorter[-1] if shorter else self._view.window)

    def action_page(self, key: str) -> None:
        """Lays the page of this key over the overview."""
        if not isinstance(self.screen, Overview):
            return
        page = next(entry.page for entry in PAGES if entry.key == key)()
        page.show(self.current.shown, self._view)
        self.push_screen(page)

    def action_pause(self) -> None:
        """Halts a replay, or lets it go on."""
        controls = self.current.feed.controls
        if controls is not None:
            controls.toggle_pause()
            self.show_soon()

    def action_seek(self, direction: int) -> None:
        """Moves a replay by SEEK seconds."""
        controls = self.current.feed.controls
        if controls is not None:
            controls.seek(direction * SEEK)
            self.show_soon()

    def action_speed(self, direction: int) -> None:
        """Makes a replay faster or slower."""
        controls = self.current.feed.controls
        if controls is not None:
            (controls.faster if direction > 0 else controls.slower)()
            self.show_soon()

    @on(AlertListing.PastWanted)
    def seek_past(self, message: AlertListing.PastWanted) -> None:
        """Shows what was recorded before an incident: a replay moves there, a live screen opens the recording."""
        message.stop()
        shown, controls = self.current.shown, self.current.feed.controls
        if shown is None:
            return
        if controls is not None:
            controls.seek(message.at - shown.snapshot.at)
            self.to_overview()
        elif self._open_past is None:
            self.say("nothing is recorded here that could be shown")
        else:
            self.open_past(self._open_past, shown.snapshot, message.at)

    @work(thread=True, exclusive=True, group="past")
    def open_past(self, past: Past, snapshot: Snapshot, at: float) -> None:
        """Opens the recording, which may take a while."""
        found = past(snapshot, at)
        self.post_message(Answered(found) if isinstance(found, str) else PastOpened(found))

    @on(PastOpened)
    def show_past(self, message: PastOpened) -> None:
        """Lays the past over the live feed, which goes on behind it."""
        self.action_live()
        self._past = Following(message.feed, self._clock())
        self.follow(self._past)
        self.to_overview()

    @on(Overview.Left)
    def action_live(self) -> None:
        """Back from the past."""
        if self._past is not None:
            self._past.feed.close()
            self._past = None
            self.to_overview()

    def to_overview(self) -> None:
        """Leaves a page."""
        if isinstance(self.screen, Page):
            self.screen.dismiss()
        self.hand_over()

    @on(AlertListing.Asked)
    def take_wish(self, message: AlertListing.Asked) -> None:
        """Does what the reader wants of an alert, away from the screen's own thread."""
        message.stop()
        shown = self.current.shown
        if shown is None:
            return
        if self.current.feed.controls is not None:
            self.say("this is the past: what is to stay quiet is asked of the present")
        elif self._asks is None:
            self.say("nothing can be asked here")
        else:
            self.ask(self._asks, shown.snapshot, message.action, message.alert)

    @work(thread=True, group="asking")
    def ask(self, asks: Asks, snapshot: Snapshot, action: AlertAction, alert: AlertView) -> None:
        """Writes where the sidecar reads it."""
        self.post_message(Answered(asks(snapshot, action, alert)))

    @on(Answered)
    def take_answer(self, message: Answered) -> None:
        """Shows the sentence."""
        self.say(message.sentence)

    def say(self, sentence: str) -> None:
        """Shows a sentence for a while."""
        if self._answered is not None:
            self._answered.stop()
        self._answered = self.set_timer(ANSWER_SECONDS, partial(self.change, said="")) if sentence else None
        self.change(said=sentence)

    async def action_quit(self) -> None:
        """Leaves."""
        self.leave()

    @on(HungUp)
    def leave(self) -> None:
        """Closes the feeds first, so that their threads end with the screen."""
        self.close_feeds()
        self.exit()

    def on_unmount(self) -> None:
        """Closes the feeds in every other way of leaving."""
        self.close_feeds()

    def close_feeds(self) -> None:
        """Ends what is read."""
        for following in (self._live, self._past):
            if following is not None:
                following.feed.close()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The commands of the palette: everything that a key does."""
        yield SystemCommand("Freeze or go on", "Hold the picture; data goes on behind it (space)", self.action_freeze)
        yield SystemCommand("Longer time window", "1, 5, 15, 60 min (+)", self.action_wider)
        yield SystemCommand("Shorter time window", "60, 15, 5, 1 min (-)", self.action_narrower)
        for entry in PAGES:
            yield SystemCommand(entry.title, f"{entry.shows} ({entry.sign})", partial(self.action_page, entry.key))
        if self._past is not None:
            yield SystemCommand("Back to the present", "The live screen, which went on meanwhile (b)", self.action_live)
        yield SystemCommand("Quit", "Leave ddwatch (q)", self.action_quit)
