"""A sidecar of one's own: started for a log, asked for its address, ended with whoever needed it."""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from ddwatch.core.exits import CommandFailed

START_SECONDS = 30.0
"""How long it may take to say where it listens."""
HANDED_ON = ("DDWATCH_SGLANG_KEY", "DDWATCH_NVML")
"""Settings of the environment that hold for a sidecar of one's own as well."""
END_SECONDS = 3.0
"""How long it may take to end before it is killed."""


class SidecarChild:
    """A running sidecar process that serves one log on a free port of this machine."""

    def __init__(self, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
        self._process = process
        self._complaints = complaints
        self.url = ""

    def last_words(self) -> str | None:
        """Its last sentence on stderr once it has ended; None while it runs."""
        if self._process.poll() is None:
            return None
        code = self._process.returncode
        if code < 0:
            # What it said before has nothing to do with this.
            return f"it was killed ({signal_name(-code)})"
        self._complaints.seek(0)
        text = self._complaints.read().decode("utf-8", "replace").strip()
        if text:
            return text.splitlines()[-1].removeprefix("ddwatch-sidecar: ")
        return f"it ended with exit code {code} and without a word"

    def wait_for_address(self) -> None:
        """Reads the announcement; raises CommandFailed with the child's own sentence when there is none."""
        said = self._first_line()
        try:
            self.url = str(json.loads(said)["url"])
        except (ValueError, KeyError, TypeError) as error:
            raise CommandFailed(f"ddwatch: the sidecar announced {said!r} instead of its address") from error

    def _first_line(self) -> str:
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in said:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise CommandFailed(f"ddwatch: the sidecar did not start within {START_SECONDS:.0f} s")
                part = os.read(self._process.stdout.fileno(), 4096)
                if not part:
                    self._process.wait(END_SECONDS)
                    raise CommandFailed(f"ddwatch: {self.last_words()}")
                said += part
        return said.split(b"\n", 1)[0].decode("utf-8", "replace")

    def end(self) -> None:
        """Ends it and waits until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def signal_name(number: int) -> str:
    """The name of a signal; its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def sidecar_for(
    log: str | None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    more: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[SidecarChild]:
    """A sidecar that follows `log` (`-`: what `stdin` delivers; None: no log); gone at the end however one leaves.

    `more` are further words of its command line, `variables` further ones of its environment.

    It watches this process too (--until-pid), so that it goes even when this one is killed.
    """
    # Without a name: nothing is left behind, however both of them end.
    with tempfile.TemporaryFile() as complaints:
        words = [sys.executable, "-m", "ddwatch_sidecar.cli", "--listen", "127.0.0.1:0", "--announce"]
        words += [] if log is None else ["--log", log]
        # A sidecar of one's own is the same for everybody: empty settings keep the machine's out of it.
        words += ["--until-pid", str(os.getpid()), "--config", os.devnull, *more]
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("DDWATCH_") or key in HANDED_ON
        } | dict(variables or {})
        try:
            process = subprocess.Popen(
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=environment,
                # Ctrl-C and Ctrl-Z are the screen's; its child must not see them.
                start_new_session=True,
            )
        except OSError as error:
            raise CommandFailed(f"ddwatch: cannot start a sidecar: {error.strerror}") from error
        child = SidecarChild(process, complaints)
        try:
            child.wait_for_address()
            yield child
        finally:
            child.end()
