"""Draws docs/pictures from a seeded run of the demo, so that the README shows what the screen really shows."""

import asyncio
import re
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from ddwatch import __version__
from ddwatch.app import DDWatch
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import LinesSeen, SourceFault, SourceUp
from ddwatch.core.snapshot import Frame
from ddwatch.demo.scenarios import generate, scenario
from ddwatch.feeds.contract import ReplayControls
from ddwatch.profiles.shelf import FOUNDING, Shelf

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
BEGIN = datetime(2026, 5, 1, 12, 0, tzinfo=timezone.utc).timestamp()
SEED = 1
SCENARIO = "founding"
SECONDS_AFTER_LEAD = 180.0
"""How far into the story's live part the picture is taken."""
SOURCE = "sglang.log"
SIZE = (120, 40)
LOOKS = 200
"""How often to look whether the frame is shown, every 50 ms."""


class Still:
    """A feed with one frame."""

    origin = "http://127.0.0.1:9477"
    controls: ReplayControls | None = None

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._closed = threading.Event()

    def frames(self) -> Iterator[Frame | SourceFault]:
        """The frame, then nothing until the feed is closed."""
        yield self._frame
        self._closed.wait()

    def close(self) -> None:
        """Ends `frames`."""
        self._closed.set()


def frame_of(name: str, seconds: float) -> Frame:
    """What a sidecar would publish after so many seconds of a scenario."""
    reader = LogReader(timezone.utc, BEGIN)
    expecting = Expecting(built_in=(Shelf().load(FOUNDING),))
    monitor = Monitor(started_at=BEGIN, version=__version__, simulated=True, expecting=expecting)
    monitor.accept(SourceUp(at=BEGIN, source=SOURCE), SOURCE)
    asked = BEGIN
    for number, (at, line) in enumerate(generate(name, SEED, BEGIN, seconds), start=1):
        for record in reader.read(line.encode(), at, number):
            monitor.accept(record, SOURCE)
        monitor.accept(LinesSeen(at=at, source=SOURCE, lines=1), SOURCE)
        while asked < at:
            asked += 1.0
            monitor.at(min(asked, at))
    return Frame(snapshot=monitor.at(BEGIN + seconds), history=monitor.history())


async def draw(frame: Frame, size: tuple[int, int]) -> str:
    """The screen as SVG."""
    feed = Still(frame)
    app = DDWatch(feed, clock=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        for _ in range(LOOKS):
            if app._shown is not None:
                break
            await pilot.pause(0.05)
            app.hand_over()
        else:
            raise TimeoutError("the app did not show the frame")
        await pilot.pause()
        picture = app.export_screenshot(title="ddwatch demo")
        feed.close()
    return sober(picture)


def sober(picture: str) -> str:
    """Without fonts from the net and without a name that changes from run to run."""
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = re.sub(r"terminal-\d+", "terminal", picture)
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def main() -> None:
    """Writes every picture."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    frame = frame_of(SCENARIO, scenario(SCENARIO).lead + SECONDS_AFTER_LEAD)
    (FOLDER / "overview.svg").write_text(asyncio.run(draw(frame, SIZE)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
