"""Tells incidents to whoever is not looking: when they fire and when they are over, through bounded queues."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from ddwatch.core.alert_view import AlertView
from ddwatch.core.durations import in_words
from ddwatch.core.records import SourceFault, SourceUp
from ddwatch.core.snapshot import Snapshot
from ddwatch.core.wire import iso
from ddwatch_sidecar.exports.contract import Changes
from ddwatch_sidecar.exports.quiet import Quiet

SCHEMA = "ddwatch.alert/1"
QUEUE = 64
"""Messages that wait for one channel; when there are more the oldest is dropped, which is told."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
RETRY_SECONDS = 900.0
"""A message that cannot be delivered for this long is given up, which is told."""
LONGEST_TEXT = 1000

LeastSeverity = Literal["page", "notice"]


class Failed(NamedTuple):
    """Why a message was not delivered."""

    reason: str
    """One phrase; no address and no secret is part of it."""
    again: bool
    """Whether trying again may help."""


class Channel(Protocol):
    """A way out of this process."""

    name: str

    async def deliver(self, message: bytes) -> Failed | None:
        """Delivers one JSON document; what the world does is a value, and it ends within a stated time."""


def _plain(text: str) -> str:
    return "".join(mark for mark in text if mark.isprintable())[:LONGEST_TEXT]


def _slack(text: str) -> str:
    """Slack reads three characters as its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def message(alert: AlertView, snapshot: Snapshot, host: str, *, again: bool = False) -> dict[str, Any]:
    """The document of an incident that fires or is resolved; `text` is all that Slack and its like need."""
    over = alert.resolved_at
    service = snapshot.server.model or "SGLang"
    head = f"[{'resolved' if over is not None else alert.severity}] {alert.name} on {host} ({service})"
    if over is not None:
        words = f"{head}: over after {in_words(max(0.0, over - alert.since))}. It was: {alert.sentence}"
    else:
        cause = f". Cause: {alert.cause}" if alert.cause else ""
        step = f". Next: {alert.next_steps[0]}" if alert.next_steps else ""
        still = f" still holds after {in_words(max(0.0, snapshot.at - alert.since))}" if again else ""
        words = f"{head}{still}: {alert.sentence}{cause}{step}"
    if snapshot.simulated:
        words = f"SIMULATED {words}"
    return {
        "schema": SCHEMA,
        "text": _slack(_plain(words)),
        "state": "fired" if over is None else "resolved",
        "at": iso(snapshot.at),
        "again": again,
        "incident": alert.incident,
        "alert": alert.name,
        "severity": alert.severity,
        "since": iso(alert.since),
        "resolved_at": None if over is None else iso(over),
        "sentence": _plain(alert.sentence),
        "cause": None if alert.cause is None else _plain(alert.cause),
        "next_steps": [_plain(step) for step in alert.next_steps],
        "evidence": alert.evidence,
        "host": host,
        "model": snapshot.server.model,
        "simulated": snapshot.simulated,
        "ddwatch_version": snapshot.ddwatch_version,
    }


class Outbox:
    """The queue of one channel and the task that empties it."""

    def __init__(
        self,
        channel: Channel,
        tell: Callable[[str, str | None], None],
        *,
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        room: int = QUEUE,
    ) -> None:
        """Prepares a queue.

        Args:
            channel: where messages go.
            tell: takes the channel's name and what is wrong with it, None once it works again.
            first_pause_seconds: before the second attempt; each further pause is twice as long.
            retry_seconds: how long one message is tried.
            room: messages that may wait.
        """
        self._channel = channel
        self._tell = tell
        self._first_pause = first_pause_seconds
        self._retry = retry_seconds
        self._room = room
        self._waiting: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._trouble: str | None = None
        self.dropped = 0
        """Messages that nobody will get."""

    def put(self, document: bytes) -> None:
        """Takes a message and returns at once."""
        if len(self._waiting) >= self._room:
            self._waiting.popleft()
            self._lost("too many messages wait; the oldest is dropped")
        self._waiting.append(document)
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Delivers until cancelled."""
        while True:
            while not self._waiting:
                self._idle.set()
                self._news.clear()
                await self._news.wait()
            await self._deliver(self._waiting.popleft())

    async def _deliver(self, document: bytes) -> None:
        loop = asyncio.get_running_loop()
        pause, ends_at = self._first_pause, loop.time() + self._retry
        while (failed := await self._channel.deliver(document)) is not None:
            if not failed.again or loop.time() + pause > ends_at:
                self._lost(f"{failed.reason}; a message is lost")
                return
            self._say(f"{failed.reason}; trying again")
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE_SECONDS)
        self._say(None)

    def _lost(self, reason: str) -> None:
        self.dropped += 1
        self._say(reason)

    def _say(self, reason: str | None) -> None:
        if reason != self._trouble:
            self._trouble = reason
            self._tell(self._channel.name, reason)

    async def drained(self, seconds: float) -> bool:
        """Waits until nothing waits any more, but no longer than this; says whether that was so."""
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True


class _Told(Struct):
    """What the channels know of an incident."""

    at: float
    """When they were last told that it fires."""
    hushed: bool = False
    """Whether it has been acknowledged or muted since."""


class Notifier:
    """Sees the alerts of every published snapshot and puts what begins, goes on and ends into each outbox."""

    def __init__(
        self,
        outboxes: Sequence[Outbox],
        *,
        host: str,
        least: LeastSeverity = "notice",
        quiet: Quiet | None = None,
        zone: tzinfo | None = None,
        repeat_seconds: float | None = None,
    ) -> None:
        """Prepares to tell.

        Args:
            outboxes: one per channel.
            host: what this host is called in messages.
            least: the least severity that is told.
            quiet: hours in which notices wait.
            zone: of the quiet hours; None is this host's.
            repeat_seconds: an incident that nobody acknowledges is told again after this time; None for never.
        """
        self._outboxes = outboxes
        self._host = host
        self._severities = ("page",) if least == "page" else ("page", "notice")
        self._quiet = quiet
        self._zone = zone
        self._repeat = repeat_seconds
        self._told: dict[str, _Told] = {}

    async def follow(self, changes: Changes, latest: Callable[[], Snapshot]) -> None:
        """Sees each newest snapshot until cancelled."""
        version = changes.version
        while True:
            self.see(latest())
            version = await changes.after(version)

    async def run(self, changes: Changes, latest: Callable[[], Snapshot]) -> None:
        """Follows and delivers until cancelled; an exception in our own code ends it."""
        await asyncio.gather(self.follow(changes, latest), *(outbox.run() for outbox in self._outboxes))

    def see(self, snapshot: Snapshot) -> None:
        """Takes a snapshot; returns at once."""
        quiet = self._quiet is not None and self._quiet.holds(snapshot.at, self._zone)
        muted = {mute.name for mute in snapshot.mutes}
        for alert in reversed(snapshot.alerts):
            if alert.severity in self._severities and alert.state != "pending":
                waits = alert.name in muted or (quiet and alert.severity != "page")
                self._consider(alert, snapshot, waits=waits)
        known = {alert.incident for alert in snapshot.alerts}
        self._told = {incident: told for incident, told in self._told.items() if incident in known}

    def _consider(self, alert: AlertView, snapshot: Snapshot, *, waits: bool) -> None:
        told = self._told.get(alert.incident)
        if alert.state == "resolved":
            # Who was not told that it began is not told that it ended.
            if told is not None and not waits:
                self._send(alert, snapshot)
                del self._told[alert.incident]
            return
        if told is None and snapshot.started_at is not None and alert.began_at < snapshot.started_at and not waits:
            # It comes from before this process, and the one before has told it.
            told = self._told[alert.incident] = _Told(snapshot.at)
        if alert.state != "firing":
            if told is not None:
                told.hushed = True
        elif told is None and not waits:
            self._send(alert, snapshot)
            self._told[alert.incident] = _Told(snapshot.at)
        elif told is not None and not waits and (told.hushed or self._due(told, snapshot.at)):
            self._send(alert, snapshot, again=True)
            self._told[alert.incident] = _Told(snapshot.at)

    def _due(self, told: _Told, now: float) -> bool:
        return self._repeat is not None and now - told.at >= self._repeat

    def _send(self, alert: AlertView, snapshot: Snapshot, *, again: bool = False) -> None:
        document = msgspec.json.encode(message(alert, snapshot, self._host, again=again))
        for outbox in self._outboxes:
            outbox.put(document)

    async def close(self, seconds: float) -> bool:
        """Gives what waits a last chance; says whether all of it was delivered or given up."""
        return all(await asyncio.gather(*(outbox.drained(seconds) for outbox in self._outboxes)))


def record_of(name: str, reason: str | None, now: float) -> SourceFault | SourceUp:
    """What a channel's trouble, or its end, is to the monitor."""
    if reason is None:
        return SourceUp(at=now, source=name, detail="delivers")
    return SourceFault(at=now, source=name, reason=reason)
