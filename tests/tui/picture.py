"""Takes pictures of the screen for a human eye: `python -m tests.tui.picture OUT_FOLDER [NAME…]` writes SVG and PNG."""

import asyncio
import html
import queue
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ddwatch.app import DDWatch
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame
from ddwatch.feeds.contract import ReplayControls
from tests.tui import alert_frames, frames, gpu_frames, model_frames


class Told:
    """A feed that says what it is told to say and then stays silent until it is closed."""

    origin = "http://127.0.0.1:9477"

    def __init__(self, *items: Frame | SourceFault, controls: ReplayControls | None = None) -> None:
        self.controls = controls
        self.closed = False
        self._items: queue.Queue[Frame | SourceFault | None] = queue.Queue()
        for item in items:
            self.say(item)

    def say(self, item: Frame | SourceFault) -> None:
        self._items.put(item)

    def end(self) -> None:
        self._items.put(None)

    def frames(self) -> Iterator[Frame | SourceFault]:
        while (item := self._items.get()) is not None:
            yield item

    def close(self) -> None:
        self.closed = True
        self._items.put(None)


async def picture(feed: Told, size: tuple[int, int], keys: tuple[str, ...] = (), *, ascii_only: bool = False) -> str:
    """The screen as SVG after the feed's frames and some keys."""
    app = DDWatch(feed, ascii_only=ascii_only, clock=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for _ in range(20):
            await pilot.pause(0.02)
        app.hand_over()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause()
        await pilot.pause()
        return app.export_screenshot()


FAULT = SourceFault(
    at=0.0,
    source="sidecar",
    reason="the sidecar at http://127.0.0.1:9477 is gone (connection refused); trying again every 5 s",
)

STORIES = {name: getattr(frames, name) for name in ("founding", "dp8", "idle", "warming", "source_lost", "crash")} | {
    f"model-{name}": getattr(model_frames, name)
    for name in ("founding_end", "narrow", "differing", "outside", "uncalibrated_slow", "slow", "dp8")
}
STORIES |= {
    f"gpus-{name}": getattr(gpu_frames, name)
    for name in (
        "loaded", "idle", "throttled", "lost", "straggler", "power_cap", "pcie", "errors", "stale", "one", "sixteen",
        "unsupported", "shared_memory", "not_permitted", "busy_host",
    )
}  # fmt: skip
STORIES |= {
    f"alerts-{name}": getattr(alert_frames, name)
    for name in ("none", "one", "many", "acknowledged", "muted", "resolved")
}


TEXT = re.compile(
    r'<text class="([^"]+)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" clip-path="[^"]+">([^<]*)</text>'
)
CELL = 12.2
"""Width of a cell in the SVG that Textual writes."""


def one_sign_each(svg: str) -> str:
    """The SVG with every sign at its own place, for converters that collapse blanks and ignore textLength."""

    def signs(match: re.Match[str]) -> str:
        kind, x, y, text = match.groups()
        return "".join(
            f'<text class="{kind}" x="{float(x) + place * CELL:.1f}" y="{y}">{html.escape(sign)}</text>'
            for place, sign in enumerate(html.unescape(text))
            if sign not in " \N{NO-BREAK SPACE}"
        )

    return TEXT.sub(signs, svg)


def write(folder: Path, name: str, svg: str) -> None:
    """The picture as SVG and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.svg"
    target.write_text(svg)
    spaced = folder / f"{name}.spaced.svg"
    spaced.write_text(one_sign_each(svg))
    subprocess.run(["rsvg-convert", "-w", "1400", "-o", str(target.with_suffix(".png")), str(spaced)], check=True)
    spaced.unlink()


def main(folder: Path, names: list[str]) -> None:
    """Pictures of every story at the two sizes that matter most."""
    for name, story in STORIES.items():
        if names and name not in names:
            continue
        for size in ((80, 24), (120, 40)):
            svg = asyncio.run(picture(Told(story()), size))
            write(folder, f"{name}-{size[0]}x{size[1]}", svg)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
