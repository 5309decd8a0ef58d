"""An alert in a real terminal: it rings once, its minute before is one key away, and a key keeps it quiet."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal
from tests.e2e.waiting import until
from tests.sidecar.broken_drafter import broken


@pytest.fixture
def tmux(needs_command: Callable[[str], Path]) -> Path:
    return needs_command("tmux")


def test_it_rings_opens_the_minute_before_and_is_acknowledged(tmp_path: Path, tmux: Path) -> None:
    with (
        broken(tmp_path, "--record", str(tmp_path / "recordings")) as service,
        terminal(tmux, "--url", service.sidecar.url, "--bell", "notice") as screen,
    ):
        screen.tmux("set-option", "-g", "bell-action", "any")
        rang = tmp_path / "rang"
        screen.tmux("set-hook", "-g", "alert-bell", f"run-shell 'echo rang >> {rang}'")
        service.work(5.0, lambda: "live" in screen.text(), "the screen")
        assert not rang.exists()

        service.work(1.15, lambda: "a alerts" in screen.text() and rang.exists(), "the alert and its bell")
        screen.keys("a")
        screen.shows("low accept   firing", "next:")
        screen.keys("Enter")
        past = screen.shows("REPLAY", "b: live", "throughput", "tok/s")
        assert "firing" not in past and "● live" not in past.splitlines()[0]

        screen.keys("b")
        service.work(1.15, lambda: "● live" in screen.text(), "the present")
        screen.keys("a")
        screen.shows("low accept   firing")
        screen.keys("c")
        screen.shows("› low-accept is acknowledged until it is over")
        service.work(1.15, lambda: "low accept   acknowledged" in screen.text(), "the acknowledgement")
        assert service.state() == "acknowledged"
        screen.keys("u")
        service.work(1.15, lambda: "low accept   firing" in screen.text(), "its end")

        screen.keys("Escape")
        screen.shows("throughput")
        screen.keys("q")
        assert screen.exit_code() == 0
        until(lambda: rang.read_text().split() == ["rang"], "one bell, and no second one", seen=rang.read_text)


def test_without_a_recording_one_sentence_says_so(tmp_path: Path, tmux: Path) -> None:
    with (
        broken(tmp_path, "--no-record", "--alerts", "off") as service,
        terminal(tmux, "--url", service.sidecar.url) as screen,
    ):
        service.work(1.15, lambda: service.state() == "firing" and "a alerts" in screen.text(), "the alert")
        screen.keys("a")
        screen.shows("low accept   firing")
        screen.keys("Enter")
        screen.shows("› this sidecar records nothing (--record DIR says where to)")
        screen.keys("m")
        screen.shows("› this sidecar takes no acknowledgements")
