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
from textual.message import Message
from textual.screen import Screen
from textual.theme import Theme
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from ddwatch.feeds.contract import Feed
from ddwatch.screens.overview import Overview
from ddwatch.screens.page import Page
from ddwatch.screens.pages import PAGES
from ddwatch.widgets.terminal import AsciiDriver, HungUp, TerminalDriver, speaks_utf8, wants_mouse
from ddwatch.widgets.view import WINDOWS, Link, ReplayStatus, View
from ddwatch.widgets.zones import LocalZone

PACE = 0.25
"""Least seconds between two drawings: figures change at most four times a second."""
TICK = 1.0
"""Seconds between looks at the clock, for ages."""
STALE_AFTER = 5.0
"""Seconds without a sign of life after which what is shown is no longer called live."""
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


class FrameArrived(Message):
    """The feed has delivered a frame; an older one that still waits is dropped."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame

    def can_replace(self, message: Message) -> bool:
        """Only the newest frame is of interest."""
        return isinstance(message, FrameArrived)


class FaultArrived(Message):
    """The feed cannot deliver for now."""

    def __init__(self, fault: SourceFault) -> None:
        super().__init__()
        self.fault = fault


class FeedStopped(Message):
    """There will be no more frames."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = sentence


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
    ) -> None:
        """Prepares the screen.

        Args:
            feed: where the frames come from; it is closed with the screen.
            zone: the zone of all times on the screen; None is this machine's.
            ascii_only: whether to draw with ASCII alone; None asks the environment.
            window: seconds that the plots show at first.
            clock: rises by one each second; only differences are used.
            pace: least seconds between two drawings.
        """
        if ascii_only is None:
            ascii_only = not speaks_utf8(os.environ)
        # Without colour Textual keeps shades of grey, unless it draws with the terminal's own colours.
        colourless = True if os.environ.get("NO_COLOR") else None
        super().__init__(driver_class=AsciiDriver if ascii_only else TerminalDriver, ansi_color=colourless)
        self.animation_level = "none"
        self.register_theme(THEME)
        self.theme = THEME.name
        self.feed = feed
        self._clock = clock
        self._pace = pace
        self._newest: Frame | None = None
        self._shown: Frame | None = None
        self._arrived = self._heard = clock()
        self._shown_arrived = self._arrived
        self._drawn = float("-inf")
        self._pending: Timer | None = None
        self._link: Link = "waiting"
        self._trouble = ""
        self._view = View(zone=zone or LocalZone(), ascii=ascii_only, window=window, origin=feed.origin)

    def get_default_screen(self) -> Screen[None]:
        """The overview."""
        return Overview()

    def run(self, **options: Any) -> None:
        """Shows the screen until the reader leaves; the mouse only where it is safe, unless `mouse` says otherwise."""
        options.setdefault("mouse", wants_mouse(os.environ))
        super().run(**options)

    def on_mount(self) -> None:
        """Begins to read the feed and to look at the clock."""
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.leave)
        self.follow()
        self.set_interval(TICK, self.look_at_clock)
        self.hand_over()

    @work(thread=True, exclusive=True, group="feed", exit_on_error=False)
    def follow(self) -> None:
        """Reads the feed in a thread of its own; only posts messages."""
        for item in self.feed.frames():
            if isinstance(item, SourceFault):
                self.post_message(FaultArrived(item))
            else:
                self.post_message(FrameArrived(item))
        self.post_message(FeedStopped(""))

    @on(FrameArrived)
    def take_frame(self, message: FrameArrived) -> None:
        """Keeps the frame and shows it now, or when the pace allows."""
        now = self._clock()
        before = self._newest
        self._heard = now
        self._newest = message.frame
        if before is None or before.snapshot.at != message.frame.snapshot.at:
            self._arrived = now
        self._link, self._trouble = "live", ""
        self.show_soon()

    @on(FaultArrived)
    def take_fault(self, message: FaultArrived) -> None:
        """Says what is wrong; the last figures stay, dimmed."""
        waiting = message.fault.waiting and self._newest is None
        self._link = "waiting" if waiting else "lost"
        self._trouble = message.fault.reason
        self.show_soon()

    @on(FeedStopped)
    def take_end(self, message: FeedStopped) -> None:
        """Says that nothing more will come."""
        said = self._trouble if self._link == "lost" else ""
        self._link = "ended"
        self._trouble = message.sentence or said or "the feed has ended; what is shown is the last that it said"
        self.show_soon()

    @on(Worker.StateChanged)
    def take_worker_state(self, event: Worker.StateChanged) -> None:
        """A feed that raises is a bug of ours: it is said loudly, never swallowed."""
        if event.worker.group == "feed" and event.state == WorkerState.ERROR:
            self.take_end(FeedStopped(f"the feed stopped with an error of ddwatch itself: {event.worker.error!r}"))

    def show_soon(self) -> None:
        """Draws now, or when the last drawing is a pace ago."""
        wait = self._drawn + self._pace - self._clock()
        if wait <= 0:
            self.hand_over()
        elif self._pending is None:
            self._pending = self.set_timer(wait, self.hand_over)

    def look_at_clock(self) -> None:
        """Lets ages grow while nothing arrives."""
        now = self._clock()
        if self._link == "live" and now - self._heard > STALE_AFTER and self.feed.controls is None:
            self._link, self._trouble = "stale", ""
        self.show_soon()

    def hand_over(self) -> None:
        """Gives frame and view to every screen that shows them."""
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        now = self._drawn = self._clock()
        if not self._view.frozen:
            self._shown, self._shown_arrived = self._newest, self._arrived
        controls = self.feed.controls
        replay = None
        if controls is not None:
            replay = ReplayStatus(
                position=float(int(controls.position)),
                duration=float(int(controls.duration)),
                speed=controls.speed,
                paused=controls.paused,
            )
        self._view = View(
            link=self._link,
            trouble=self._trouble,
            since_arrival=float(int(now - self._shown_arrived)) if replay is None else 0.0,
            silence=float(int(now - self._heard)),
            frozen=self._view.frozen,
            window=self._view.window,
            zone=self._view.zone,
            ascii=self._view.ascii,
            origin=self._view.origin,
            replay=replay,
        )
        with self.batch_update():
            for screen in self.screen_stack:
                if isinstance(screen, (Overview, Page)):
                    screen.show(self._shown, self._view)

    def change(self, **changes: object) -> None:
        """Changes what the reader has chosen, and shows it at once."""
        fields = {name: getattr(self._view, name) for name in View.__struct_fields__}
        self._view = View(**{**fields, **changes})
        self.hand_over()

    def action_freeze(self) -> None:
        """Holds the picture; data goes on behind it."""
        self.change(frozen=not self._view.frozen)

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
        page.show(self._shown, self._view)
        self.push_screen(page)

    def action_pause(self) -> None:
        """Halts a replay, or lets it go on."""
        if self.feed.controls is not None:
            self.feed.controls.toggle_pause()
            self.show_soon()

    def action_seek(self, direction: int) -> None:
        """Moves a replay by SEEK seconds."""
        if self.feed.controls is not None:
            self.feed.controls.seek(direction * SEEK)
            self.show_soon()

    def action_speed(self, direction: int) -> None:
        """Makes a replay faster or slower."""
        if self.feed.controls is not None:
            (self.feed.controls.faster if direction > 0 else self.feed.controls.slower)()
            self.show_soon()

    async def action_quit(self) -> None:
        """Leaves."""
        self.leave()

    @on(HungUp)
    def leave(self) -> None:
        """Closes the feed first, so that its thread ends with the screen."""
        self.feed.close()
        self.exit()

    def on_unmount(self) -> None:
        """Closes the feed in every other way of leaving."""
        self.feed.close()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The commands of the palette: everything that a key does."""
        yield SystemCommand("Freeze or go on", "Hold the picture; data goes on behind it (space)", self.action_freeze)
        yield SystemCommand("Longer time window", "1, 5, 15, 60 min (+)", self.action_wider)
        yield SystemCommand("Shorter time window", "60, 15, 5, 1 min (-)", self.action_narrower)
        for entry in PAGES:
            yield SystemCommand(entry.title, f"{entry.shows} ({entry.sign})", partial(self.action_page, entry.key))
        yield SystemCommand("Quit", "Leave ddwatch (q)", self.action_quit)
