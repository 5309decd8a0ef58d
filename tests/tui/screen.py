"""Runs the app on a told feed and reads what the user would read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timezone
from typing import TypeVar

from msgspec.structs import replace
from textual.pilot import Pilot

from ddwatch.app import DDWatch
from ddwatch.bell import Bell, Least
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from ddwatch.following import Asks, Past
from ddwatch.screens.overview import Overview
from ddwatch.widgets.drawn import Drawn
from tests.tui.picture import Told

DEADLINE = 10.0
App = TypeVar("App", bound=DDWatch)


def moved(frame: Frame, seconds: float) -> Frame:
    """The same frame some seconds later with another rate."""
    now = replace(frame.snapshot.now, at=frame.snapshot.at + seconds, throughput=77.7)
    return replace(frame, snapshot=replace(frame.snapshot, at=frame.snapshot.at + seconds, now=now))


class Wall:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A running app with its feed and its clock."""

    def __init__(self, app: DDWatch, feed: Told, wall: Wall, pilot: Pilot[None]) -> None:
        self.app, self.feed, self.wall, self.pilot = app, feed, wall, pilot

    def text(self) -> str:
        """Everything on the screen, row by row."""
        width, height = self.app.size
        rows = [[" "] * width for _ in range(height)]
        for panel in self.app.screen.query(Drawn):
            if not panel.display:
                continue
            region = panel.region
            for y, line in enumerate(panel.reading().split("\n")):
                for x, sign in enumerate(line):
                    if region.y + y < height and region.x + x < width:
                        rows[region.y + y][region.x + x] = sign
        return "\n".join("".join(row).rstrip() for row in rows)

    def settled(self) -> bool:
        """Whether every panel stands where it belongs and shows what it was given."""
        screen = self.app.screen
        panels = [panel for panel in screen.query(Drawn) if panel.display]
        if isinstance(screen, Overview):
            stands = {panel.id: (*panel.region.offset, *panel.region.size) for panel in panels}
            filled = [(place.x + place.width, place.y + place.height) for place in screen.places.values()]
            if stands != screen.places or tuple(map(max, *filled, (0, 0))) != self.app.size:
                return False
        return all(panel.settled and panel.reading() for panel in panels)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for a condition; fails with the screen's text when it does not come true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE
        while not holds():
            assert loop.time() < deadline, self.text()
            self.app.look_at_clock()
            await self.pilot.pause(0.01)

    async def reads(self, words: str) -> None:
        """Waits until the words are on the screen."""
        await self.until(lambda: words in self.text() and self.settled())

    async def say(self, item: Frame | SourceFault, words: str) -> None:
        """Lets the feed say something and waits for its trace on the screen."""
        self.wall.now += 1.0
        self.feed.say(item)
        await self.reads(words)

    async def press(self, *keys: str) -> None:
        """Presses keys and lets the screen settle."""
        await self.pilot.press(*keys)


@asynccontextmanager
async def watched(
    feed: Told,
    width: int = 80,
    height: int = 24,
    *,
    ascii_only: bool = False,
    pace: float = 0.0,
    past: Past | None = None,
    asks: Asks | None = None,
    bell: Least | None = None,
    ring: Callable[[], None] | None = None,
) -> AsyncIterator[Watched]:
    """The app on a feed, headless, in UTC, with a clock that stands still; it draws at once unless a pace is given."""
    wall = Wall()
    rings = None if bell is None else Bell(bell)
    app = DDWatch(
        feed,
        zone=timezone.utc,
        ascii_only=ascii_only,
        clock=wall,
        pace=pace,
        past=past,
        asks=asks,
        bell=rings,
        ring=ring,
    )
    async with app.run_test(size=(width, height)) as pilot:
        yield Watched(app, feed, wall, pilot)
