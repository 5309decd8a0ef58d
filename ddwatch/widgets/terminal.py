"""All dependence on Textual's terminal driver: bytes that are no text, a dead terminal, suspending, plain ASCII.

Three things of the stock driver end or freeze a screen that runs for days in tmux over SSH: a byte over 0x7F
from an old mouse protocol is a decode error, a closed terminal is read in a busy loop, and a write after a
suspend waits for ever for a thread that has gone.
"""

import asyncio
import os
import selectors
from codecs import getincrementaldecoder
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from ddwatch.widgets.rows import to_ascii

CHUNK = 4096


class TerminalDriver(LinuxDriver):
    """The stock driver without those three."""

    def write(self, data: str) -> None:
        """Writes unless the terminal is handed to the shell; what is lost then is painted anew on return."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)

    def _sigtstp_application(self, *_: int | FrameType | None) -> None:
        """Suspends from the event loop: in a signal handler the writer's queue may be locked by this very thread."""
        self._loop.call_soon_threadsafe(self._suspend_now)

    def _suspend_now(self) -> None:
        super()._sigtstp_application()
        # Here the shell has brought us back: everything is painted, at the size that the terminal has now.
        self._app.call_later(self._app.refresh, layout=True)

    def _sigcont_application(self, *_: int | FrameType | None) -> None:
        """Takes the terminal back, again from the event loop."""
        self._loop.call_soon_threadsafe(self._resume_now)

    def _resume_now(self) -> None:
        if self._writer_thread is None or not self._writer_thread.is_alive():
            super()._sigcont_application()
            self._app.call_later(self._app.refresh, layout=True)

    def run_input_thread(self) -> None:
        """Reads keys until the end; bytes that are no UTF-8 become replacement signs, a dead terminal ends the app."""
        selector = selectors.SelectSelector()
        selector.register(self.fileno, selectors.EVENT_READ)
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        try:
            while not self.exit_event.is_set():
                for _ in selector.select(0.1):
                    try:
                        octets = os.read(self.fileno, CHUNK)
                    except OSError:
                        octets = b""
                    if not octets:
                        self._hang_up()
                        return
                    for message in parser.feed(decode(octets)):
                        self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
        finally:
            selector.close()

    def close(self) -> None:
        """Ends the writer, unless it has died with its terminal."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().close()

    def _hang_up(self) -> None:
        """The terminal is gone: nobody can read the screen any more."""
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._app._post_message(HungUp()), loop=self._loop)


class HungUp(Message):
    """The terminal has gone."""


class AsciiDriver(TerminalDriver):
    """The same for a terminal that knows only ASCII: whatever is drawn, nothing else leaves."""

    def write(self, data: str) -> None:
        """Writes with a stand-in for every other sign."""
        super().write(to_ascii(data))


def speaks_utf8(environment: Mapping[str, str]) -> bool:
    """Whether the terminal shows more than ASCII, as far as the environment says.

    Python itself adds LC_CTYPE=C.UTF-8 to a C locale, so that value says nothing about the terminal.
    """
    if environment.get("TERM") in ("linux", "vt100", "vt220"):
        return False
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environment.get(name, "")
        if not value or (name == "LC_CTYPE" and value == "C.UTF-8" and environment.get("LANG") in ("C", "POSIX")):
            continue
        return "utf8" in value.lower().replace("-", "")
    return True


def wants_mouse(environment: Mapping[str, str]) -> bool:
    """Whether mouse reports are safe: over SSH and in tmux a re-attached session can get bytes of an older protocol."""
    return not any(name in environment for name in ("TMUX", "STY", "SSH_CONNECTION", "SSH_TTY"))
