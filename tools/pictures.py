"""Draws docs/pictures from seeded runs of the demo, so that the README shows what the screen really shows."""

import asyncio
import re
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ddwatch import __version__
from ddwatch.app import DDWatch
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar import LogReader
from ddwatch.core.hardware import GpuCard, GpuReading
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, LinesSeen, PrefillBatch, SourceFault, SourceUp
from ddwatch.core.snapshot import Frame
from ddwatch.demo.gpus.cards import Cards
from ddwatch.demo.scenarios import generate, scenario
from ddwatch.feeds.contract import ReplayControls
from ddwatch.profiles.shelf import FOUNDING, Shelf

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
BEGIN = datetime(2026, 5, 1, 12, 0, tzinfo=timezone.utc).timestamp()
SEED = 1
STORIES = {"overview": ("founding", 180.0), "throttle": ("throttle", 75.0)}
"""Picture, scenario, and how far into the story's live part it is taken."""
SOURCE, CARDS = "sglang.log", "nvml"
ATTRIBUTES: dict[str, tuple[str, float]] = {
    "utilization": ("utilization_ratio", 0.01),
    "memory_utilization": ("memory_utilization_ratio", 0.01),
    "sm_clock": ("sm_clock_hertz", 1e6),
    "sm_clock_max": ("sm_clock_max_hertz", 1e6),
    "memory_clock": ("memory_clock_hertz", 1e6),
    "power": ("power_watts", 1e-3),
    "power_limit": ("power_limit_watts", 1e-3),
    "temperature": ("temperature_celsius", 1.0),
    "slowdown": ("slowdown_celsius", 1.0),
    "memory_used": ("memory_used_bytes", 1),
    "memory_total": ("memory_total_bytes", 1),
    "pstate": ("performance_state", 1),
    "reasons": ("reasons", 1),
    "replays": ("pcie_replays", 1),
    "link_gen": ("pcie_generation", 1),
    "link_width": ("pcie_width", 1),
    "link_gen_max": ("pcie_generation_max", 1),
    "link_width_max": ("pcie_width_max", 1),
}
"""What the simulated driver calls a value, and what it is in a reading with the factor between the units."""
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


def reading_of(state: str, at: float) -> GpuReading:
    """What the reader of the cards makes of the simulated driver's state."""
    cards: dict[int, dict[str, Any]] = {}
    for line in state.splitlines():
        kind, index, *rest = line.split(" ", 3)
        if kind == "gpu" and len(rest) == 2:
            values = cards.setdefault(int(index), {})
            key, value = rest
            if key in ATTRIBUTES:
                name, factor = ATTRIBUTES[key]
                values[name] = int(value) * factor
            elif key in ("name", "uuid"):
                values[key] = value
    return GpuReading(at=at, cards=tuple(GpuCard(index=index, **values) for index, values in cards.items()))


def frame_of(name: str, seconds: float) -> Frame:
    """What a sidecar would publish after so many seconds of a scenario."""
    cards, worked = Cards(f"{name}:{SEED}", scenario(name).ailments), BEGIN
    reader = LogReader(timezone.utc, BEGIN)
    expecting = Expecting(built_in=(Shelf().load(FOUNDING),))
    monitor = Monitor(started_at=BEGIN, version=__version__, simulated=True, expecting=expecting)
    for source in (SOURCE, CARDS):
        monitor.accept(SourceUp(at=BEGIN, source=source), source)
    asked = BEGIN
    for number, (at, line) in enumerate(generate(name, SEED, BEGIN, seconds), start=1):
        for record in reader.read(line.encode(), at, number):
            monitor.accept(record, SOURCE)
            worked = at if isinstance(record, (DecodeBatch, PrefillBatch)) else worked
        monitor.accept(LinesSeen(at=at, source=SOURCE, lines=1), SOURCE)
        while asked < at:
            asked += 1.0
            cards.advance(asked - BEGIN, float(asked - worked < 2.0), serving=worked > BEGIN)
            monitor.accept(reading_of(cards.text(), asked), CARDS)
            monitor.at(min(asked, at))
    return Frame(snapshot=monitor.at(BEGIN + seconds), history=monitor.history())


async def draw(frame: Frame, size: tuple[int, int]) -> str:
    """The screen as SVG."""
    feed = Still(frame)
    app = DDWatch(feed, clock=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        for _ in range(LOOKS):
            if app.current.shown is not None:
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
    for picture, (name, seconds) in STORIES.items():
        frame = frame_of(name, scenario(name).lead + seconds)
        (FOLDER / f"{picture}.svg").write_text(asyncio.run(draw(frame, SIZE)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
