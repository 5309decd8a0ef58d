"""The real app without a terminal, on a real sidecar: what it says while the sidecar lives, dies and comes back."""

import asyncio
import re
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from textual.pilot import Pilot

from ddwatch.app import DDWatch
from ddwatch.feeds.live import LiveFeed
from tests.e2e.live_log import LiveLog
from tests.e2e.waiting import PATIENCE
from tests.sidecar.running import running

TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def said(app: DDWatch) -> str:
    """All words on the screen."""
    return unescape(" ".join(TEXT.findall(app.export_screenshot()))).replace("\N{NO-BREAK SPACE}", " ")


async def shown(pilot: Pilot[None], app: DDWatch, *texts: str, work: Callable[[], bool] = lambda: True) -> str:
    """Waits until all these stand on the screen, while the server works."""
    deadline = time.monotonic() + PATIENCE
    while not (work() and all(text in said(app) for text in texts)):
        assert time.monotonic() < deadline, f"{texts} never came: {said(app)}"
        await pilot.pause(0.05)
    return said(app)


async def live_and_die(tmp_path: Path, size: tuple[int, int]) -> None:
    with LiveLog(tmp_path / "server.log") as log, running("--log", str(log.path), "--tz", "UTC") as sidecar:
        port = urlsplit(sidecar.url).port
        assert port is not None
        app = DDWatch(LiveFeed(sidecar.url, None))
        async with app.run_test(size=size) as pilot:
            await shown(pilot, app, "32.2", "tok/s", "live", work=lambda: log.work(32.2))
            log.copytruncate()
            await shown(pilot, app, "48.6", "server.log was truncated", work=lambda: log.work(48.6))
            sidecar.process.kill()
            sidecar.process.wait(10)
            await shown(pilot, app, "NO DATA", "is not there")
            with running("--log", str(log.path), "--tz", "UTC", port=port) as again:
                words = await shown(pilot, app, "64.8", "live", work=lambda: log.work(64.8))
                assert "NO DATA" not in words
                assert again.end() == 0
                words = await shown(pilot, app, "NO DATA")
            await pilot.press("q")
        assert app.return_code == 0


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_it_shows_the_server_and_says_when_the_sidecar_is_gone(tmp_path: Path, size: tuple[int, int]) -> None:
    asyncio.run(live_and_die(tmp_path, size))
