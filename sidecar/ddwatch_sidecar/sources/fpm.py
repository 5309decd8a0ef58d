"""Hears SGLang's forward passes over ZMQ: one socket per DP rank, never waiting, lost passes shown by their numbers."""

import os
import stat
from pathlib import Path

import zmq
from msgspec.structs import replace
from zmq.utils.monitor import recv_monitor_message

from ddwatch.core.engine import ForwardPass
from ddwatch.core.fpm import FpmUnreadable, FpmVersionUnknown, read_pass
from ddwatch.core.records import SourceFault, SourceUp
from ddwatch_sidecar.sources.look import shown

Heard = ForwardPass | SourceFault | SourceUp
"""What a poll delivers."""

POLL_SECONDS = 0.25
LOOK_SECONDS = 2.0
"""Time between two looks for the sockets of ranks that were not there before."""
SILENT_SECONDS = 30.0
"""An engine at rest says so every second; one that works is silent for as long as its longest pass."""
CUT_SECONDS = 4.0
"""A socket that nobody serves is believed after this: ZMQ connects again by itself, at once or two seconds later."""
REFUSED_SECONDS = 60.0
"""Time until a rank whose version is not known is heard again: it may be another engine by then."""
UNREADABLE_SECONDS = 5.0
"""A rank that sends what is no forward pass is in trouble once nothing else came for this long."""
RANKS_AT_MOST = 64
MESSAGES_AT_MOST = 2000
"""Messages of one rank that are taken at one poll; the rest waits for the next."""
HIGH_WATER = 5000
"""Messages of one rank that wait here: a minute of passes. What is beyond is lost, and SGLang never waits."""
LARGEST_MESSAGE = 64 * 1024
IPC, TCP = "ipc://", "tcp://"
FLAGS = "SGLang publishes with --enable-forward-pass-metrics --forward-pass-metrics-ipc-name"


class _Rank:
    """One engine rank's socket, and what became of what it said."""

    def __init__(self, address: str, name: str, now: float) -> None:
        self.address = address
        self.name = name
        self.socket: zmq.Socket[bytes] | None = None
        self._news: zmq.Socket[bytes] | None = None
        """Tells when somebody serves the address, and when nobody does any more."""
        self._cut_at: float | None = now
        """Since when nobody serves it."""
        self.heard_at: float | None = None
        """When it last sent a forward pass."""
        self.since = now
        self.polled_at = now
        self.trouble = ""
        """What is wrong with what it sends."""
        self.refused_at: float | None = None

    def connect(self, context: "zmq.Context[zmq.Socket[bytes]]", high_water: int) -> None:
        """Connects; ZMQ goes on trying, and connects again, by itself."""
        socket = context.socket(zmq.SUB)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, high_water)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
        socket.setsockopt(zmq.RECONNECT_IVL, 200)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._news = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self.socket = socket
        try:
            socket.connect(self.address)
        except zmq.ZMQError as error:
            self.disconnect()
            self.trouble = f"{self.address} cannot be connected to: {zmq.strerror(error.errno or 0)}"

    def disconnect(self) -> None:
        """Lets go of the socket."""
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close()
        if self._news is not None:
            self._news.close(linger=0)
        self.socket = self._news = None

    def _follow(self, now: float) -> None:
        """Notes whether somebody serves the address."""
        while self._news is not None and self._news.poll(0):
            served = recv_monitor_message(self._news)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
            self._cut_at = None if served else now
            self.since = now

    def take(self, now: float, source: str) -> list[ForwardPass]:
        """The passes that have come, each with the time at which it is likely to have ended."""
        found: list[ForwardPass] = []
        self._follow(now)
        for _ in range(MESSAGES_AT_MOST):
            if self.socket is None:
                break
            try:
                frames = self.socket.recv_multipart(flags=zmq.NOBLOCK)
            except zmq.Again:
                break
            try:
                found.append(read_pass(frames, now, source))
            except FpmVersionUnknown as unknown:
                self.trouble, self.refused_at = str(unknown), now
                self.disconnect()
            except FpmUnreadable as unreadable:
                if now - (self.heard_at or self.since) >= UNREADABLE_SECONDS and not found:
                    self.trouble = f"{self.address} sends {unreadable}; is it SGLang's FPM socket?"
        if found:
            self.heard_at = now
            if self.refused_at is None:
                self.trouble = ""
        spread = _spread(found, self.polled_at, now)
        self.polled_at = now
        return spread

    def condition(self, now: float) -> str:
        """What is wrong with it, in a sentence; empty when nothing is."""
        if self.trouble:
            return self.trouble
        if self._cut_at is not None and now - self._cut_at > CUT_SECONDS:
            return f"nobody serves {shown(self.address)} ({self.name}); does SGLang still run?"
        if now - max(self.since, self.heard_at or 0.0) > SILENT_SECONDS:
            what = "has said nothing" if self.heard_at is None else "has fallen silent"
            return f"{self.name} at {shown(self.address)} {what} for {SILENT_SECONDS:.0f} s; does SGLang still run?"
        return ""


def _spread(passes: list[ForwardPass], since: float, now: float) -> list[ForwardPass]:
    """Places passes that were taken at once where they are likely to have ended: one after another, the last now."""
    placed: list[ForwardPass] = []
    at = now
    for one in reversed(passes):
        placed.append(one if at == now else replace(one, at=at))
        at = max(since, at - one.seconds)
    return placed[::-1]


class FpmEndpoint:
    """All DP ranks of one engine, found by the name that SGLang was given."""

    name = "fpm"

    def __init__(self, endpoint: str, *, high_water: int = HIGH_WATER) -> None:
        """Prepares to listen.

        Args:
            endpoint: as SGLang's --forward-pass-metrics-ipc-name: `ipc:///run/fpm` (ranks are at `.0`, `.1`, …), or
                `tcp://host:port` of a single rank; a bare path is an ipc name.
            high_water: messages of one rank that may wait.
        """
        self._high_water = high_water
        self._endpoint = endpoint if "://" in endpoint else IPC + endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._ranks: dict[str, _Rank] = {}
        self._looked_at: float | None = None
        self._told: tuple[bool, str] | None = None
        self._blocked = ""
        self.pause_seconds = POLL_SECONDS
        """How long to wait until the next poll."""

    async def poll(self, now: float) -> list[Heard]:
        """What has come since; what the world does is a SourceFault, told once per change of reason."""
        if self._context is None:
            self._context = zmq.Context()
        if self._looked_at is None or now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look(self._context, now)
        found: list[Heard] = []
        for rank in self._ranks.values():
            found += rank.take(now, self.name)
        return [*self._condition(now, bool(found)), *found]

    async def close(self) -> None:
        """Lets go of all sockets."""
        for rank in self._ranks.values():
            rank.disconnect()
        self._ranks.clear()
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def _look(self, context: "zmq.Context[zmq.Socket[bytes]]", now: float) -> None:
        """Connects to ranks that have appeared, and forgets those whose socket is gone."""
        places = self._places()
        for address in self._ranks.keys() - places.keys():
            if now - (self._ranks[address].heard_at or 0.0) > UNREADABLE_SECONDS:
                self._ranks.pop(address).disconnect()
        for address, name in places.items():
            rank = self._ranks.get(address)
            if rank is None:
                rank = self._ranks[address] = _Rank(address, name, now)
                rank.connect(context, self._high_water)
            elif rank.refused_at is not None and now - rank.refused_at >= REFUSED_SECONDS:
                # Whether the trouble is over shows with the first pass.
                rank.refused_at = None
                rank.connect(context, self._high_water)

    def _places(self) -> dict[str, str]:
        """Addresses of the ranks that are there now, with their names."""
        self._blocked = ""
        if not self._endpoint.startswith(IPC):
            return {self._endpoint: "the engine"}
        base = self._endpoint[len(IPC) :]
        found: dict[str, str] = {}
        for number in range(RANKS_AT_MOST):
            if self._is_socket(f"{base}.{number}"):
                found[f"{IPC}{base}.{number}"] = f"DP{number}"
        if not found and self._is_socket(base):
            # The name of one rank's own socket.
            found[self._endpoint] = "the engine"
        return found

    def _is_socket(self, path: str) -> bool:
        try:
            if not stat.S_ISSOCK(os.stat(path).st_mode):  # noqa: PTH116 - one look at each of many names
                return False
        except (OSError, ValueError) as error:
            if isinstance(error, PermissionError):
                self._blocked = f"{shown(Path(path).parent)} may not be looked into: permission denied"
            return False
        if os.access(path, os.R_OK | os.W_OK):
            return True
        self._blocked = f"{shown(path)} may not be connected to: permission denied; run as the user of SGLang"
        return False

    def _condition(self, now: float, heard: bool) -> list[Heard]:
        """How the source stands, when that has changed."""
        troubles = [trouble for rank in self._ranks.values() if (trouble := rank.condition(now))]
        if not self._ranks:
            sentence = self._blocked or f"no socket at {shown(self._endpoint)}.0 (yet); {FLAGS}"
            state, waiting = (False, sentence), not self._blocked
        elif len(troubles) == len(self._ranks):
            state, waiting = (False, "; ".join(dict.fromkeys(troubles))), False
        elif not heard and (self._told is None or not self._told[0]):
            # Connected, and nothing has come yet.
            return []
        else:
            state, waiting = (True, "; ".join(dict.fromkeys(troubles))), False
        if state == self._told:
            return []
        self._told = state
        if state[0]:
            return [SourceUp(at=now, source=self.name, detail=state[1])]
        return [SourceFault(at=now, source=self.name, reason=state[1], waiting=waiting)]
