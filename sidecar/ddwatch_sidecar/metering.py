"""ddwatch meters itself: CPU and memory of this process, read every few seconds."""

import os
import time

import psutil
from msgspec import Struct

from ddwatch.core.records import SelfReading


class OwnFigures(Struct, frozen=True, kw_only=True):
    """The newest reading of this process; None where the platform does not tell."""

    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    virtual_bytes: int | None = None
    started_at: float | None = None
    open_files: int | None = None
    max_files: int | None = None


def _open_files_limit() -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Meter:
    """Reads this process through psutil."""

    def __init__(self) -> None:
        self._process = psutil.Process(os.getpid())
        self._started_at = self._process.create_time()
        self._last: tuple[float, float] | None = None
        self._figures = OwnFigures(started_at=self._started_at)

    def figures(self) -> OwnFigures:
        """The newest reading."""
        return self._figures

    def read(self, now: float) -> SelfReading | None:
        """Takes a reading; the first one has no CPU share yet and gives no record.

        The share is over real time, also when `now` runs on a scaled clock. Where the system does not answer (no free
        descriptor, /proc not mounted) the figures are absent until it does.
        """
        try:
            with self._process.oneshot():
                times = self._process.cpu_times()
                memory = self._process.memory_info()
                open_files = self._process.num_fds() if hasattr(self._process, "num_fds") else None
        except (OSError, psutil.Error):
            self._last = None
            self._figures = OwnFigures(started_at=self._started_at, max_files=_open_files_limit())
            return None
        cpu_seconds = times.user + times.system
        self._figures = OwnFigures(
            cpu_seconds=cpu_seconds,
            resident_bytes=memory.rss,
            virtual_bytes=memory.vms,
            started_at=self._started_at,
            open_files=open_files,
            max_files=_open_files_limit(),
        )
        moment = time.monotonic()
        last, self._last = self._last, (moment, cpu_seconds)
        if last is None or moment <= last[0]:
            return None
        ratio = max(0.0, cpu_seconds - last[1]) / (moment - last[0])
        return SelfReading(at=now, cpu_ratio=ratio, resident_bytes=memory.rss)
