"""Starts the real sidecar as a process on a free port and ends it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

COMMAND = (sys.executable, "-m", "ddwatch_sidecar.cli")
DECODE = (
    "[2026-05-01 12:00:{second:02d}] Decode batch, #running-req: 1, #token: {tokens}, token usage: 0.01, "
    "accept len: 2.90, accept rate: 0.06, cuda graph: True, gen throughput (token/s): 32.20, #queue-req: 0"
)


def decode_line(number: int) -> str:
    """One genuine decode line."""
    return DECODE.format(second=number % 60, tokens=5000 + number)


def run(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a sidecar command that is expected to end by itself."""
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


class Sidecar:
    """A running sidecar; what it says on stderr is collected."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.wait(10)
            self._listener.join(10)
            raise AssertionError(f"the sidecar did not start: {self.said}")
        self.announced = json.loads(line)
        self.url: str = self.announced["url"]

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip("\n"))

    def get(self, path: str, **headers: str) -> httpx.Response:
        """One request."""
        return httpx.get(self.url + path, headers=headers, timeout=10, trust_env=False, verify=False)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, timeout: float = 10) -> int:
        """The exit code once it has left."""
        code = self.process.wait(timeout)
        self._listener.join(10)
        return code


@contextmanager
def running(
    *words: str,
    environment: Mapping[str, str] | None = None,
    stdin: int | None = subprocess.DEVNULL,
    command: Sequence[str] = COMMAND,
    cwd: Path | None = None,
    port: int = 0,
) -> Iterator[Sidecar]:
    """A sidecar on a free port (or on this one), killed at the end if it still runs."""
    process = subprocess.Popen(
        [*command, *words, "--port", str(port), "--announce"],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield Sidecar(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
