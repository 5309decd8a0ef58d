"""The records of finished requests that SGLang writes by the hour (`--export-metrics-to-file-dir`): numbers only."""

import os
import re
from pathlib import Path

from ddwatch.core import exported
from ddwatch.core.records import Gap, LinesSeen, RequestDone, SourceFault, SourceUp, Unread

Reading = RequestDone | Unread | LinesSeen | Gap | SourceFault | SourceUp

NAME = re.compile(r"sglang-request-metrics-\d{8}_\d{2}\.log")
PAUSE_SECONDS = 1.0
ALIVE_SECONDS = 10.0
PAST_BYTES = 256 * 1024
"""How much of the newest file is read at the start."""
PIECE_BYTES = 1024 * 1024
"""Most that one poll reads."""
LINE_BYTES = 64 * 1024
"""Of a longer line (its request's text is in it) only the end is kept, where the numbers are."""
REMEDY = "SGLang writes there with --export-metrics-to-file --export-metrics-to-file-dir"


class Lines:
    """Splits a stream of bytes into lines of bounded length; of a longer one the end is kept."""

    def __init__(self, number: int | None = 0, *, torn: bool = False) -> None:
        """Begins behind line `number`, None where nobody counted; `torn` inside of one, whose rest tells nothing."""
        self._torn = torn
        self._rest = b""
        self._cut = False
        self._number = number

    def take(self, data: bytes) -> list[tuple[bytes, int | None, bool]]:
        """The lines that this piece completes: text, number, whether the beginning is missing."""
        found: list[tuple[bytes, int | None, bool]] = []
        *whole, rest = (self._rest + data).split(b"\n")
        if self._torn and whole:
            del whole[0]
            self._torn = False
        for line in whole:
            if self._number is not None:
                self._number += 1
            found.append((line[-LINE_BYTES:], self._number, self._cut or len(line) > LINE_BYTES))
            self._cut = False
        self._cut = self._cut or len(rest) > LINE_BYTES
        self._rest = rest[-LINE_BYTES:]
        return found


class RequestRecords:
    """Follows a folder of hourly files; see `ddwatch_sidecar.contract.Endpoint`."""

    name = "requests"

    def __init__(self, folder: Path) -> None:
        """Prepares to follow; nothing is opened before the first poll."""
        self.pause_seconds = PAUSE_SECONDS
        self._folder = folder
        self._file: int | None = None
        self._file_name = ""
        self._place = 0
        self._lines = Lines()
        self._past_until = 0
        self._started = False
        self._said_at: float | None = None
        self._fault: str | None = None

    async def poll(self, now: float) -> list[Reading]:
        """The requests that were over since the last poll; returns at once."""
        try:
            with os.scandir(self._folder) as entries:
                names = sorted(entry.name for entry in entries if NAME.fullmatch(entry.name))
        except FileNotFoundError:
            # What appears here later was all written after the watch began.
            self._started = True
            return self._lost(now, f"there is no folder {self._folder}; {REMEDY}", waiting=True)
        except NotADirectoryError:
            return self._lost(now, f"{self._folder} is no folder; {REMEDY}")
        except OSError as error:
            return self._lost(now, f"{self._folder} cannot be read: {(error.strerror or 'refused').lower()}")
        found: list[Reading] = []
        self._started = self._started or not names
        try:
            self._follow(names, now, found)
        except OSError as error:
            self._release()
            reason = (error.strerror or "refused").lower()
            return [*found, *self._lost(now, f"{self._folder / self._file_name} cannot be read: {reason}")]
        if not names and self._file is None:
            return self._lost(now, f"no request was over yet: {self._folder} holds no record file", waiting=True)
        if self._said_at is None or now - self._said_at >= ALIVE_SECONDS or found:
            self._said_at, self._fault = now, None
            found.insert(0, SourceUp(at=now, source=self.name))
        return found

    async def close(self) -> None:
        """Lets go of the file."""
        self._release()

    def _follow(self, names: list[str], now: float, found: list[Reading]) -> None:
        """Reads on in the open file, and in the next one once the open one is read to its end."""
        left = PIECE_BYTES
        while left > 0:
            if self._file is None and not self._open_next(names):
                return
            data = self._piece(min(left, PIECE_BYTES), now, found)
            left -= len(data)
            lines = self._lines.take(data)
            if lines:
                found.append(LinesSeen(at=now, source=self.name, lines=len(lines)))
            for line, number, cut in lines:
                record = exported.read(line, now, number, live=self._place > self._past_until, cut=cut)
                if record is not None:
                    found.append(record)
            if data:
                continue
            if not any(name > self._file_name for name in names):
                return
            # SGLang has gone on to the next hour, so nothing more comes here.
            self._release()

    def _open_next(self, names: list[str]) -> bool:
        """Opens the oldest file behind the one that was read last; at the start the newest, near its end."""
        behind = [name for name in names if name > self._file_name]
        if not behind:
            return False
        self._file_name = behind[0] if self._started else behind[-1]
        self._file = os.open(self._folder / self._file_name, os.O_RDONLY | os.O_CLOEXEC)
        self._lines, self._place, self._past_until = Lines(), 0, 0
        if not self._started:
            self._past_until = os.fstat(self._file).st_size
            self._place = max(0, self._past_until - PAST_BYTES)
            if self._place:
                self._lines = Lines(None, torn=True)
        self._started = True
        return True

    def _piece(self, most: int, now: float, found: list[Reading]) -> bytes:
        """The next bytes of the open file; a file that shrank is read anew, behind a gap."""
        assert self._file is not None
        if os.fstat(self._file).st_size < self._place:
            detail = f"{self._file_name} was truncated: records of requests may be lost"
            found.append(Gap(at=now, source=self.name, reason="truncated", detail=detail))
            self._lines, self._place, self._past_until = Lines(), 0, 0
        if self._place < self._past_until:
            # No piece lies on both sides of the line between the past and what is live.
            most = min(most, self._past_until - self._place)
        data = os.pread(self._file, most, self._place)
        self._place += len(data)
        return data

    def _lost(self, now: float, sentence: str, *, waiting: bool = False) -> list[Reading]:
        told, self._fault, self._said_at = self._fault == sentence, sentence, None
        return [] if told else [SourceFault(at=now, source=self.name, reason=sentence, waiting=waiting)]

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
