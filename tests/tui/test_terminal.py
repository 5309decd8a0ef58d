"""The screen in a real terminal: odd bytes, suspend, hang-up, plain ASCII, no colour, and how little it writes."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from ddwatch.screens.overview import Overview
from ddwatch.screens.page import Page
from ddwatch.widgets.lean import LeanScreen
from ddwatch.widgets.terminal import speaks_utf8, wants_mouse
from tests.fakes.sidecar_http import FakeSidecar, event
from tests.tui import frames, model_frames
from tests.tui.terminal import Terminal


@pytest.fixture
def sidecar() -> Iterator[FakeSidecar]:
    """A sidecar that says one frame and then only that it is alive."""
    with FakeSidecar() as found:
        found.serve([found.stream(event(replace(frames.founding(), history=frames.founding().history)))])
        yield found


def test_the_screen_is_drawn_and_q_gives_the_terminal_back(sidecar: FakeSidecar) -> None:
    with Terminal(["--url", sidecar.url]) as terminal:
        terminal.reads("● live")
        terminal.reads("30.8 tok/s")
        begun = time.monotonic()
        terminal.press(b"q")
        assert terminal.process.wait(10) == 0
        assert time.monotonic() - begun < 3
        terminal.until(
            lambda: b"\x1b[?1049l" in terminal.raw and b"\x1b[?25h" in terminal.raw, "cursor and screen back"
        )


def stopped(terminal: Terminal) -> bool:
    return psutil.Process(terminal.process.pid).status() == psutil.STATUS_STOPPED


@pytest.fixture(scope="module")
def open_terminal() -> Iterator[Terminal]:
    """One screen for the tests that leave it as they found it."""
    with FakeSidecar() as found:
        found.serve([found.stream(event(frames.founding()))])
        with Terminal(["--url", found.url]) as terminal:
            terminal.reads("● live")
            yield terminal


def test_bytes_of_an_old_mouse_protocol_do_no_harm(open_terminal: Terminal) -> None:
    open_terminal.press(b"\x1b[M \xf0\xe1")
    open_terminal.press(b"\xff\xfe\x80")
    open_terminal.press(b"e")
    open_terminal.reads("esc back")
    open_terminal.press(b"\x1b")
    open_terminal.reads("accept length")


@pytest.mark.parametrize("way", ["key", "signal"])
def test_suspend_and_resume_answer_again(open_terminal: Terminal, way: str) -> None:
    drawn = open_terminal.raw.count(b"\x1b[?1049h")
    if way == "key":
        open_terminal.press(b"\x1a")
    else:
        open_terminal.process.send_signal(signal.SIGTSTP)
    open_terminal.until(lambda: stopped(open_terminal), f"suspended by {way}")
    open_terminal.process.send_signal(signal.SIGCONT)
    open_terminal.until(lambda: open_terminal.raw.count(b"\x1b[?1049h") > drawn, "drawn again")
    answers(open_terminal)


def test_a_resume_without_a_suspend_is_harmless(open_terminal: Terminal) -> None:
    open_terminal.process.send_signal(signal.SIGCONT)
    answers(open_terminal)


def answers(terminal: Terminal) -> None:
    """The picture is there, and a key still leads to a page and back."""
    terminal.reads("accept length")
    terminal.press(b"e")
    terminal.reads("esc back")
    terminal.press(b"e")
    terminal.reads("accept length")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(sidecar: FakeSidecar, number: signal.Signals) -> None:
    with Terminal(["--url", sidecar.url]) as terminal:
        terminal.reads("● live")
        terminal.process.send_signal(number)
        assert terminal.process.wait(10) == 0
        terminal.until(lambda: b"\x1b[?1049l" in terminal.raw, "screen given back")


def test_a_closed_terminal_ends_it_and_its_sidecar(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.touch()
    with Terminal(["--log", str(log)]) as terminal:
        terminal.reads("● live")
        children = psutil.Process(terminal.process.pid).children()
        assert len(children) == 1
        terminal.hang_up()
        terminal.process.wait(10)
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []


def test_a_sidecar_of_its_own_that_dies_says_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "sglang.log"
    log.touch()
    with Terminal(["--log", str(log)]) as terminal:
        terminal.reads("● live")
        os.kill(psutil.Process(terminal.process.pid).children()[0].pid, signal.SIGKILL)
        terminal.reads("the sidecar that ddwatch started is gone: it was killed")
        terminal.reads("(SIGKILL)")
        terminal.press(b"q")
        assert terminal.process.wait(10) == 0


def test_ascii_alone_leaves_a_c_locale_terminal(sidecar: FakeSidecar) -> None:
    with Terminal(["--url", sidecar.url], LC_ALL="C") as terminal:
        terminal.reads("* live")
        terminal.press(b"\x10")
        terminal.reads("Search for commands")
        terminal.press(b"\x1b")
        terminal.until(lambda: "Search for commands" not in terminal.text(), "palette closed")
        terminal.press(b"q")
        terminal.process.wait(10)
        assert terminal.raw.isascii()


COLOURS = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:[34]8;[25]|[349][0-7]|10[0-7])[;m]")


def test_no_color_means_no_colour(sidecar: FakeSidecar) -> None:
    with Terminal(["--url", sidecar.url], NO_COLOR="1") as terminal:
        terminal.reads("● live")
        terminal.reads("30.8 tok/s")
        assert COLOURS.search(terminal.raw) is None


def test_sixteen_colours_are_enough(sidecar: FakeSidecar) -> None:
    with Terminal(["--url", sidecar.url], TERM="xterm", TEXTUAL_COLOR_SYSTEM="standard") as terminal:
        terminal.reads("● live")
        terminal.reads("30.8 tok/s")
        assert b"38;2;" not in terminal.raw
        assert b"38;5;" not in terminal.raw


def test_without_news_a_second_writes_next_to_nothing(sidecar: FakeSidecar) -> None:
    with Terminal(["--url", sidecar.url], columns=120, rows=40) as terminal:
        terminal.reads("● live")
        terminal.reads("log 1 s ago")
        written = len(terminal.raw)
        terminal.reads("log 3 s ago")
        assert len(terminal.raw) - written < 2 * 200


def test_no_mouse_in_tmux_and_over_ssh_unless_asked(sidecar: FakeSidecar) -> None:
    asked: tuple[tuple[list[str], str, bool], ...] = (
        ([], "SSH_CONNECTION", False),
        (["--mouse"], "TMUX", True),
    )
    for words, name, wanted in asked:
        with Terminal(["--url", sidecar.url, *words], 80, 24, **{name: "set"}) as terminal:
            terminal.reads("● live")
            assert (b"\x1b[?1000h" in terminal.raw) is wanted
    assert wants_mouse({})
    assert not any(wants_mouse({name: "set"}) for name in ("STY", "TMUX", "SSH_CONNECTION"))


@pytest.mark.parametrize(
    ("environment", "wide"),
    [
        ({}, True),
        ({"LANG": "en_GB.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, True),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "POSIX"}, False),
        ({"LANG": "en_US.ISO-8859-1"}, False),
        ({"LANG": "en_GB.UTF-8", "TERM": "linux"}, False),
    ],
)
def test_whether_the_terminal_shows_more_than_ascii(environment: dict[str, str], wide: bool) -> None:
    assert speaks_utf8(environment) is wide


def test_what_was_drawn_in_pieces_equals_what_is_drawn_at_once(sidecar: FakeSidecar) -> None:
    later = [
        replace(frames.dp8(), snapshot=replace(frames.dp8().snapshot, at=frames.NOON + second)) for second in (1, 2)
    ]
    parts = [event(frame) for frame in (frames.idle(), model_frames.slow(), *later, model_frames.slow())]
    sidecar.serve([sidecar.stream(*parts, pause=0.4)])
    with Terminal(["--url", sidecar.url], columns=120, rows=40) as terminal:
        terminal.reads("7 of 8 live")
        terminal.reads("SLOW STEP")
        terminal.until(lambda: "7 of 8 live" not in terminal.text(), "back to one rank")
        terminal.press(b" ")
        terminal.reads("FROZEN")
        pieces = terminal.text()
        terminal.press(b"\x1a")
        terminal.until(lambda: stopped(terminal), "suspended")
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until(lambda: terminal.raw.count(b"\x1b[?1049h") == 2, "back")
        terminal.reads("FROZEN")
        terminal.until(lambda: without_ages(terminal.text()) == without_ages(pieces), f"the same picture as\n{pieces}")


def test_every_screen_of_ours_writes_leanly() -> None:
    assert issubclass(Overview, LeanScreen)
    assert issubclass(Page, LeanScreen)


def without_ages(text: str) -> str:
    return re.sub(r"[<\d]+ s\b", "some s", text)
