"""A source without a world behind it: it delivers what a test hands to it."""

from collections import deque

from ddwatch_sidecar.sources.contract import Item, Line

from ddwatch.core.records import SourceFault, SourceUp


class ScriptedSource:
    """Keeps to the contract of sources; `hand` queues bytes as lines, `end` lets it run dry for good."""

    def __init__(self, name: str = "log", lines_per_poll: int = 100) -> None:
        self.name = name
        self.behind = False
        self._lines_per_poll = lines_per_poll
        self._queue: deque[Item] = deque()
        self._number = 0
        self._up = False
        self._ended = False
        self._closed = False

    def hand(self, *lines: bytes, live: bool = True) -> None:
        """Queues whole lines, numbered on."""
        for data in lines:
            self._number += 1
            self._queue.append(Line(data, self._number, live))

    def put(self, *items: Item) -> None:
        """Queues gaps, rotations and faults."""
        self._queue.extend(items)

    def end(self) -> None:
        """After what is queued, one fault and then nothing."""
        self._ended = True

    def poll(self, now: float) -> list[Item]:
        """See `Source.poll`."""
        if self._closed:
            return []
        items: list[Item] = []
        if not self._up:
            self._up = True
            items.append(SourceUp(at=now, source=self.name))
        items += [self._queue.popleft() for _ in range(min(self._lines_per_poll, len(self._queue)))]
        self.behind = bool(self._queue)
        if self._ended and not self._queue:
            items.append(SourceFault(at=now, source=self.name, reason="the script ended"))
            self._closed = True
        return items

    def close(self) -> None:
        """See `Source.close`."""
        self._closed = True
        self.behind = False
