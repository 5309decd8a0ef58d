"""The driver's faults (Xid) in the kernel log: from /dev/kmsg or else the journal, where this user may read them."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ddwatch.core.grammar import xid
from ddwatch.core.grammar.message import Message
from ddwatch.core.records import NO_RANK, SourceFault, SourceUp, Xid

Reading = Xid | SourceFault | SourceUp

JOURNAL = ("journalctl", "--dmesg", "--follow", "--output=json", "--since=-10min")
PAUSE_SECONDS = 2.0
PAST_SECONDS = 600.0
"""Faults of the last minutes are still news when the watch begins."""
ALIVE_SECONDS = 10.0
RETRY_SECONDS = 60.0
RECORDS_AT_ONCE = 2000
RECORD_BYTES = 16 * 1024
JOURNAL_BYTES = 1024 * 1024
DRIVER = "NVRM: "
REMEDY = "Xid faults are known from NVML only; add this user to the group systemd-journal or adm"


class _Entry(msgspec.Struct):
    """What is read of one journal entry."""

    message: str | list[int] | None = msgspec.field(default=None, name="MESSAGE")
    microseconds: str | None = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")


class KernelLog:
    """Delivers Xid records; see `ddwatch_sidecar.service.Endpoint`."""

    name = "kernel log"

    def __init__(
        self,
        *,
        kmsg: Path = Path("/dev/kmsg"),
        journal: Sequence[str] = JOURNAL,
        environment: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepares to read; nothing is opened before the first poll.

        Args:
            kmsg: the kernel's own log.
            journal: command that prints its entries as JSON lines, used where `kmsg` may not be read.
            environment: environment of that command; None is this process's own.
            monotonic: the clock that the kernel's stamps are read against: seconds since boot.
        """
        self._kmsg = kmsg
        self._journal = tuple(journal)
        self._environment = dict(environment) if environment is not None else None
        self._monotonic = monotonic
        self._file: int | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._retry_at = monotonic()
        self._alive_at: float | None = None
        self._fault: str | None = None
        self._decoder = msgspec.json.Decoder(_Entry)
        self.pause_seconds = PAUSE_SECONDS

    async def poll(self, now: float) -> list[Reading]:
        """The faults since the last poll; returns at once."""
        at = self._monotonic()
        if self._file is None and self._child is None:
            if at < self._retry_at:
                return []
            refused = self._open()
            if refused is not None:
                return self._lost(now, at, refused)
        found = self._read_kmsg(now, at) if self._file is not None else self._read_journal(now, at)
        if self._file is None and self._child is None:
            return found
        if self._alive_at is None or at - self._alive_at >= ALIVE_SECONDS:
            self._alive_at, self._fault = at, None
            found.insert(0, SourceUp(at=now, source=self.name))
        return found

    async def close(self) -> None:
        """Lets go of the log."""
        self._release()

    def _open(self) -> str | None:
        """Opens what can be opened; otherwise a sentence that says why not."""
        try:
            self._file = os.open(self._kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            return None
        except OSError as error:
            refusal = error.strerror or "refused"
        try:
            self._child = subprocess.Popen(
                self._journal,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError:
            return f"{self._kmsg} cannot be read ({refusal.lower()}) and there is no journal here: {REMEDY}"
        for pipe in (self._child.stdout, self._child.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._buffer = b""
        return None

    def _read_kmsg(self, now: float, at: float) -> list[Reading]:
        """Each read gives one record: `priority,number,microseconds,flags;text`."""
        found: list[Reading] = []
        for _ in range(RECORDS_AT_ONCE):
            assert self._file is not None
            try:
                data = os.read(self._file, RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                # Records were overwritten before they were read; the next read goes on behind the gap.
                continue
            except OSError as error:
                self._release()
                return [*found, *self._lost(now, at, f"{self._kmsg} cannot be read ({error.strerror}): {REMEDY}")]
            if not data:
                break
            for line in data.decode("utf-8", "replace").split("\n"):
                head, divider, text = line.partition(";")
                fields = head.split(",")
                if divider and len(fields) > 2 and fields[2].isdigit() and text.startswith(DRIVER):
                    age = max(0.0, at - int(fields[2]) * 1e-6)
                    self._add(found, text, now, age)
        return found

    def _read_journal(self, now: float, at: float) -> list[Reading]:
        found: list[Reading] = []
        assert self._child is not None and self._child.stdout is not None
        ended = False
        try:
            data = os.read(self._child.stdout.fileno(), JOURNAL_BYTES)
            ended = not data
            self._buffer = (self._buffer + data)[-JOURNAL_BYTES:]
        except BlockingIOError:
            pass
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            try:
                entry = self._decoder.decode(line)
            except msgspec.DecodeError:
                continue
            text = (
                entry.message
                if isinstance(entry.message, str)
                else bytes(entry.message or ()).decode("utf-8", "replace")
            )
            if text.startswith(DRIVER) and entry.microseconds is not None and entry.microseconds.isdigit():
                self._add(found, text, now, max(0.0, now - int(entry.microseconds) * 1e-6))
        words = self._complaint()
        if ended or "permission" in words or "not seeing messages" in words:
            self._release()
            return [*found, *self._lost(now, at, f"the kernel log may not be read by this user: {REMEDY}")]
        return found

    def _add(self, found: list[Reading], text: str, now: float, age: float) -> None:
        if age > PAST_SECONDS:
            return
        record = xid.read(Message(text, now - age, None, NO_RANK, None))
        if isinstance(record, Xid):
            found.append(record)

    def _complaint(self) -> str:
        assert self._child is not None and self._child.stderr is not None
        try:
            return os.read(self._child.stderr.fileno(), RECORD_BYTES).decode("utf-8", "replace").lower()
        except BlockingIOError:
            return ""

    def _lost(self, now: float, at: float, sentence: str) -> list[Reading]:
        self._retry_at = at + RETRY_SECONDS
        told, self._fault, self._alive_at = self._fault == sentence, sentence, None
        # It was never promised: where it cannot be read, that is said beside the source and nowhere else.
        return [] if told else [SourceFault(at=now, source=self.name, reason=sentence, waiting=True)]

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
            child.wait()
