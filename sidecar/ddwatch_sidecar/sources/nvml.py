"""The GPUs of this host, read by a child process that may hang or crash without harm: it is started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from ddwatch.core.hardware import GpuCard, GpuReading
from ddwatch.core.records import GpuNames, SourceFault, SourceUp, Xid
from ddwatch_sidecar.sources.nvml_faults import meaning
from ddwatch_sidecar.sources.nvml_lines import CardLine, Opened, Refused, Round, XidLine, decode

Reading = GpuReading | GpuNames | Xid | SourceFault | SourceUp
"""What a poll delivers, in order."""

Told = Opened | CardLine | Round | XidLine
Pipe = Literal["open", "ended", "refused"]
"""`ended`: the child has closed it; `refused`: NVML cannot be used, and the child is gone."""

CHILD = (sys.executable, "-m", "ddwatch_sidecar.sources.nvml_child")
DEFAULT_SECONDS = 1.0
FLOOR_SECONDS = 0.5
"""Readings more often than this slow the work on the card."""
PAUSE_SECONDS = 0.5
HANG_SECONDS = 10.0
"""A child that has said nothing for this long hangs in the driver."""
OPENING_SECONDS = 60.0
"""The first call may take long: without persistence mode the driver wakes every card."""
FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""A child that has lived this long has proved itself; the pause before the next one is short again."""
SUSPECT_TWICE = 2
"""Hangs or crashes at the same card after which the next child leaves that card alone."""
AMNESTY_SECONDS = 300.0
"""After this a card that was left alone or lost is tried again."""
LEFT_BEHIND = 3
"""Children that the operating system cannot end; with so many of them no further one is started."""
READ_BYTES = 1024 * 1024
LINE_BYTES = 256 * 1024
LAST_WORDS = 4096


class NvmlEndpoint:
    """Delivers a reading of all cards about every second; see `ddwatch_sidecar.service.Endpoint`."""

    name = "nvml"

    def __init__(
        self,
        *,
        seconds: float = DEFAULT_SECONDS,
        throughput: bool = False,
        library: str | None = None,
        command: Sequence[str] = CHILD,
        environment: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        hang_seconds: float = HANG_SECONDS,
        first_retry_seconds: float = FIRST_RETRY_SECONDS,
    ) -> None:
        """Prepares to read; nothing is started before the first poll.

        Args:
            seconds: time between two readings, at least FLOOR_SECONDS.
            throughput: whether PCIe throughput is read too, which blocks for a while.
            library: path of the driver's library; None is the machine's own.
            command: the child.
            environment: its environment; None is this process's own.
            monotonic: a clock for pauses and patience, in real seconds even when the watch runs faster.
            hang_seconds: patience with a silent child.
            first_retry_seconds: pause before the first restart.
        """
        self._seconds = max(FLOOR_SECONDS, seconds)
        own = () if library is None else ("--library", library)
        self._command = (*command, "--seconds", str(self._seconds), *(("--throughput",) if throughput else ()), *own)
        self._environment = dict(environment) if environment is not None else None
        self._monotonic = monotonic
        self._hang_seconds = max(hang_seconds, 3 * self._seconds)
        self._first_retry = first_retry_seconds
        self._retry = first_retry_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._left_behind: list[subprocess.Popen[bytes]] = []
        self._start_at = monotonic()
        self._started_at = 0.0
        self._heard_at = 0.0
        self._buffer = b""
        self._opened: Opened | None = None
        self._round: list[GpuCard] = []
        self._missing = False
        self._known: dict[int, GpuCard] = {}
        self._names: tuple[str, ...] = ()
        self._fault: str | None = None
        self._up = False
        self._suspects: dict[int, int] = {}
        self._skipped: dict[int, float] = {}
        self.pause_seconds = PAUSE_SECONDS

    async def poll(self, now: float) -> list[Reading]:
        """What the child has said since the last poll; returns at once."""
        at = self._monotonic()
        self._left_behind = [child for child in self._left_behind if child.poll() is None]
        if self._child is None:
            return self._start(now, at) if at >= self._start_at else []
        found: list[Reading] = []
        pipe = self._read(now, at, found)
        if pipe == "refused":
            return found
        if pipe == "ended":
            found += self._ended(now, at)
        elif at - self._heard_at > (self._hang_seconds if self._opened else OPENING_SECONDS):
            found += self._stop_hanging(now, at)
        elif self._revisit(at):
            self._end_child()
            self._start_at = at
        return found

    async def close(self) -> None:
        """Ends the child."""
        self._end_child()

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        return None if self._child is None else self._child.pid

    def _start(self, now: float, at: float) -> list[Reading]:
        if len(self._left_behind) >= LEFT_BEHIND:
            self._start_at = at + LAST_RETRY_SECONDS
            return self._lost(
                now, "NVML hangs in the driver and its readers cannot be ended: look at dmesg, a reboot may be needed"
            )
        self._skipped = {index: until for index, until in self._skipped.items() if until > at}
        skips = [word for index in self._skipped for word in ("--skip", str(index))]
        try:
            child = subprocess.Popen(
                [*self._command, *skips],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            self._pause(at)
            return self._lost(now, f"the NVML reader cannot be started: {error.strerror}")
        for pipe in (child.stdout, child.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._child = child
        self._started_at = self._heard_at = at
        self._buffer, self._opened, self._round, self._missing = b"", None, [], False
        return []

    def _read(self, now: float, at: float, found: list[Reading]) -> Pipe:
        """Takes what stands in the pipe."""
        assert self._child is not None and self._child.stdout is not None
        state: Pipe = "open"
        taken = 0
        while taken < READ_BYTES:
            try:
                data = os.read(self._child.stdout.fileno(), READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                state = "ended"
                break
            taken += len(data)
            self._heard_at = at
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        newest: GpuReading | None = None
        for data in lines:
            try:
                line = decode(data)
            except msgspec.DecodeError:
                continue
            if isinstance(line, Refused):
                self._refused(line, now, at, found)
                return "refused"
            newest = self._take(line, now, at, found) or newest
        self._buffer = self._buffer[-LINE_BYTES:]
        if newest is not None:
            # Of several rounds that waited in the pipe only the last is of now.
            found.append(newest)
        return state

    def _take(self, line: Told, now: float, at: float, found: list[Reading]) -> GpuReading | None:
        match line:
            case Opened():
                self._opened = line
            case CardLine(card=card):
                self._round.append(self._completed(card))
            case XidLine():
                bus = line.pci_bus.rpartition(".")[0] or line.pci_bus if line.pci_bus else None
                found.append(Xid(at=now, code=line.code, pci_bus=bus))
            case Round():
                return self._close_round(now, at, found)
        return None

    def _refused(self, line: Refused, now: float, at: float, found: list[Reading]) -> None:
        told = meaning(line.code, line.words)
        self._end_child()
        self._start_at = at + told.retry_seconds
        found += self._lost(now, told.sentence, waiting=told.waiting)

    def _close_round(self, now: float, at: float, found: list[Reading]) -> GpuReading:
        cards, self._round = tuple(self._round), []
        self._missing = any(card.lost is not None for card in cards)
        if at - self._started_at >= STEADY_SECONDS:
            self._retry = self._first_retry
            self._suspects.clear()
        if not self._up:
            self._up, self._fault = True, None
            found.append(SourceUp(at=now, source=self.name, detail=self._described(len(cards))))
        names = tuple(card.name for card in cards if card.name is not None)
        if names and names != self._names and len(names) == len(cards):
            self._names = names
            found.append(GpuNames(at=now, names=names))
        driver = self._opened.driver if self._opened else None
        return GpuReading(at=now, cards=cards, source=self.name, driver=driver)

    def _described(self, cards: int) -> str:
        opened = self._opened
        words = [f"{cards} GPU{'' if cards == 1 else 's'}"]
        if opened is not None and opened.driver:
            words.append(f"driver {opened.driver}")
        if opened is not None and not opened.watches_xids:
            words.append("no Xid from NVML here")
        return ", ".join(words)

    def _completed(self, card: GpuCard) -> GpuCard:
        """A card that cannot say who it is keeps the names that it had."""
        known = self._known.get(card.index)
        if card.uuid is not None:
            self._known[card.index] = GpuCard(index=card.index, uuid=card.uuid, pci_bus=card.pci_bus, name=card.name)
        elif card.lost is not None and known is not None:
            return replace(known, lost=card.lost)
        return card

    def _revisit(self, at: float) -> bool:
        """Whether a lost card is worth another look, which only a new child can give."""
        return self._missing and not self._round and at - self._started_at >= AMNESTY_SECONDS

    def _ended(self, now: float, at: float) -> list[Reading]:
        assert self._child is not None
        try:
            code = self._child.wait(1.0)
        except subprocess.TimeoutExpired:
            return self._stop_hanging(now, at)
        words = self._last_words()
        where = self._suspect(at)
        self._end_child()
        if code == 0:
            # Cards came or went, so all are counted anew.
            self._start_at = at
            return []
        self._pause(at)
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            return self._lost(now, f"the NVML reader crashed{where} ({name}); it is started again")
        return self._lost(now, f"the NVML reader ended with code {code}{f' ({words})' if words else ''}")

    def _stop_hanging(self, now: float, at: float) -> list[Reading]:
        where = self._suspect(at)
        self._end_child()
        self._pause(at)
        return self._lost(now, f"NVML does not answer{where}; its reader is started again")

    def _suspect(self, at: float) -> str:
        """Notes the card at which a child stopped, and names it."""
        if self._opened is None or len(self._round) >= self._opened.cards:
            return ""
        index = self._round[-1].index + 1 if self._round else 0
        self._suspects[index] = self._suspects.get(index, 0) + 1
        if self._suspects[index] >= SUSPECT_TWICE:
            self._skipped[index] = at + AMNESTY_SECONDS
            self._suspects.pop(index)
        return f" at GPU {index}"

    def _pause(self, at: float) -> None:
        self._start_at = at + self._retry
        self._retry = min(LAST_RETRY_SECONDS, 2 * self._retry)

    def _lost(self, now: float, sentence: str, *, waiting: bool = False) -> list[Reading]:
        told = self._fault == sentence
        self._fault, self._up = sentence, False
        return [] if told else [SourceFault(at=now, source=self.name, reason=sentence, waiting=waiting)]

    def _last_words(self) -> str:
        """The last line of what the child wrote on stderr."""
        assert self._child is not None and self._child.stderr is not None
        try:
            text = os.read(self._child.stderr.fileno(), 64 * 1024)[-LAST_WORDS:].decode("utf-8", "replace")
        except BlockingIOError:
            return ""
        lines = [line for line in text.splitlines() if line.strip()]
        return "".join(mark for mark in lines[-1] if mark.isprintable())[:200] if lines else ""

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        try:
            child.wait(0.2)
        except subprocess.TimeoutExpired:
            # It hangs inside the kernel, where no signal reaches it; it is looked at again later.
            self._left_behind.append(child)
