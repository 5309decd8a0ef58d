"""A real journal on disk, written entry by entry through systemd-journal-remote, for the real journalctl to read."""

import shutil
import struct
import subprocess
from pathlib import Path

from tests.e2e.waiting import until

BOOT = "0" * 31 + "1"
SUPPRESSED = "a596d6fe7bfa4994828e72309e95d61e"
START_MICROSECONDS = 1_777_636_800_000_000
"""2026-05-01 12:00:00 UTC."""


def exported(second: float, message: bytes, **fields: str) -> bytes:
    """One entry in the export format of journald."""
    microseconds = int(second * 1_000_000)
    head = {
        "__REALTIME_TIMESTAMP": str(START_MICROSECONDS + microseconds),
        "__MONOTONIC_TIMESTAMP": str(100_000_000_000 + microseconds),
        "_BOOT_ID": BOOT,
        "_SYSTEMD_UNIT": "sglang.service",
        "_SYSTEMD_INVOCATION_ID": "f" * 32,
        "_PID": "123",
        **fields,
    }
    lines = b"".join(f"{name}={value}\n".encode() for name, value in head.items())
    return lines + b"MESSAGE\n" + struct.pack("<Q", len(message)) + message + b"\n\n"


class Journal:
    """A directory of journal files; the newest one grows."""

    def __init__(self, folder: Path, writer: Path) -> None:
        self.folder = folder
        self._writer = writer
        self._reader = shutil.which("journalctl") or "journalctl"
        self._number = 0
        self._entries = 0
        """In the newest file."""
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)

    @property
    def command(self) -> tuple[str, ...]:
        """The journalctl that reads it."""
        return ("journalctl", f"--directory={self.folder}")

    def write(self, second: float, *messages: str | bytes, step: float = 0.001, **fields: str) -> None:
        """Entries of sglang.service, a little apart; returns when they can be read."""
        if self._process is None:
            self._number += 1
            self._entries = 0
            self._process = subprocess.Popen(
                [self._writer, "--output", self.folder / f"{self._number}.journal", "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        assert self._process.stdin is not None
        for index, message in enumerate(messages):
            data = message if isinstance(message, bytes) else message.encode()
            self._process.stdin.write(exported(second + index * step, data, **fields))
        self._process.stdin.flush()
        self._entries += len(messages)
        until(lambda: self._readable() >= self._entries, f"{self._entries} entries in the journal")

    def manage(self, second: float, *messages: str, invocation: str) -> None:
        """What systemd says of sglang.service."""
        self.write(
            second,
            *messages,
            _PID="1",
            _SYSTEMD_UNIT="init.scope",
            UNIT="sglang.service",
            INVOCATION_ID=invocation,
        )

    def _readable(self) -> int:
        path = self.folder / f"{self._number}.journal"
        command = [self._reader, f"--file={path}", "--output=json"]
        return subprocess.run(command, capture_output=True, timeout=30, check=False).stdout.count(b"\n")

    def rotate(self) -> None:
        """Closes the present file, so that all of it is on disk; the next entry begins another."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)

    def vacuum(self) -> None:
        """Removes all files but the present one."""
        newest = f"{self._number}.journal" if self._process is not None else ""
        for path in self.folder.iterdir():
            if path.name != newest:
                path.unlink()
