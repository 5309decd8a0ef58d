"""Puts a sidecar together from its settings and runs it from the first socket to the last event."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import msgspec
import psutil
from platformdirs import user_state_dir

from ddwatch import __version__
from ddwatch.alert_desk import Desk, desk_folder, passing_name
from ddwatch.core.exits import CommandFailed, Exit
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar.reader import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch_sidecar.clock import Clock, ScaledClock, WallClock
from ddwatch_sidecar.config import DEFAULT_PORT, Settings, zone_of
from ddwatch_sidecar.contract import Endpoint
from ddwatch_sidecar.exports.contract import Supply
from ddwatch_sidecar.exports.guard import Guard, host_of
from ddwatch_sidecar.exports.http import HttpServer
from ddwatch_sidecar.exports.listen import Address, Resolved, Unusable, open_listener, parse_address, resolve, url_of
from ddwatch_sidecar.exports.quiet import quiet_hours
from ddwatch_sidecar.exports.recorder import Recorder, opener, recording_name
from ddwatch_sidecar.exports.recording_file import Limits, RecordingFile
from ddwatch_sidecar.hardware import hardware_endpoints, too_often
from ddwatch_sidecar.keeping import Keeper
from ddwatch_sidecar.log_sources import sources, watched
from ddwatch_sidecar.metering import Meter
from ddwatch_sidecar.model import expecting, keep
from ddwatch_sidecar.narration import LoopTrouble, narrate
from ddwatch_sidecar.service import Service, Stream
from ddwatch_sidecar.sources.contract import Source
from ddwatch_sidecar.sources.orders import OrdersFile
from ddwatch_sidecar.sources.requests import RequestRecords
from ddwatch_sidecar.telling import CLOSING_SECONDS as TELLING_SECONDS
from ddwatch_sidecar.telling import Telling, tell

ANNOUNCE_SCHEMA = "ddwatch.sidecar/1"
MIB = 1024 * 1024
SAVING_SECONDS = 1.0
"""How long the last save of what was learned may take at the end."""
RESTORING_SECONDS = 3.0
"""How long the start waits for what an earlier run recorded."""
RECORDING_SECONDS = 2.0
"""How long the recording may take to write its last batch."""
PARENT_SECONDS = 0.5
"""How often the process of --until-pid is looked at."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """The one line on stdout that says where a sidecar listens."""

    schema: str = ANNOUNCE_SCHEMA
    url: str
    """Where to read, without a path."""
    pid: int
    """Its process id."""


def printed(settings: Settings) -> str:
    """The settings as one JSON document; no token is part of them."""
    return msgspec.json.format(
        msgspec.json.encode({"schema": "ddwatch.config/1", **msgspec.to_builtins(settings)})
    ).decode()


class HostZone(tzinfo):
    """The zone of this host with its daylight saving, as the operating system knows it."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """The offset that held here at a local time."""
        if moment is None:
            return None
        return moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Part of the offset, not told apart."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """The name that held here at a local time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()


class Plan:
    """A sidecar that is ready to run: everything that could be refused has been looked at."""

    def __init__(
        self,
        settings: Settings,
        guard: Guard,
        listener: socket.socket,
        found: Sequence[Source],
        *,
        sglang_key: str | None,
        expecting: Expecting,
        keeper: Keeper | None,
        telling: Telling,
        recording: Callable[[float], RecordingFile] | None,
        port: int,
        parent: psutil.Process | None,
        announce: bool,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._listener = listener
        self._sources = found
        self._sglang_key = sglang_key
        self._expecting = expecting
        self._keeper = keeper
        self._telling = telling
        self._recording = recording
        self._port = port
        self._parent = parent
        self._announce = announce

    async def serve(self) -> bool:
        """Serves until a signal, or until the parent is gone; False when a source had to be left behind."""
        clock: Clock = WallClock()
        if self._settings.time_scale != 1.0:
            clock = ScaledClock(clock, self._settings.time_scale)
        now = clock.now()
        zone = zone_of(self._settings.tz) or HostZone()
        monitor = Monitor(
            started_at=now, version=__version__, simulated=self._settings.simulated, expecting=self._expecting
        )
        meter = Meter()
        # Secrets in server arguments are only told to have changed; the key keeps their digests unguessable.
        key = os.urandom(32)
        streams = [Stream(source, LogReader(zone, now, key), narrate) for source in self._sources]
        recorder = await self._recorder(monitor, clock)
        orders = self._orders(recorder)
        for record in await orders.poll(now):
            # Before anything is told: what is muted must not be told in the first second.
            monitor.accept(record, orders.name)
        endpoints = [*self._endpoints(key), orders]
        service = Service(streams, monitor, clock, meter, endpoints, tap=recorder, tell=narrate)
        publication = service.publication
        supply = Supply(publication.latest, monitor.history, monitor.tallies, meter.figures, publication)
        server = HttpServer(supply, self._guard)
        url = url_of(self._listener)
        # From here on a signal is a wish to leave, not an end.
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopTrouble())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.stop)
        await server.start(self._listener)
        self._say(url)
        watching = [asyncio.create_task(server.failed())]
        keeping = [asyncio.create_task(keep(monitor, self._keeper, service.stopping))] if self._keeper else []
        notifier = self._telling.notifier(self._settings, monitor, clock.now)
        if notifier is not None:
            keeping.append(asyncio.create_task(tell(notifier, supply, service.stopping)))
        watching += keeping
        if self._parent is not None:
            watching.append(asyncio.create_task(_gone(self._parent, service.stop)))
        running = asyncio.create_task(service.run())
        waiting: set[asyncio.Task[Any]] = {running, *watching}
        try:
            while not running.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            if keeping:
                await asyncio.wait(keeping, timeout=max(SAVING_SECONDS, TELLING_SECONDS))
        finally:
            for task in (running, *watching):
                task.cancel()
            await asyncio.gather(running, *watching, return_exceptions=True)
            await server.stop("the sidecar was told to stop")
            if recorder is not None and not await asyncio.to_thread(recorder.close, RECORDING_SECONDS):
                narrate("the disk would not take the end of the recording in time")
        narrate("stopped")
        return await running

    async def _recorder(self, monitor: Monitor, clock: Clock) -> Recorder | None:
        """Starts recording, and gives the monitor back what earlier runs recorded."""
        if self._recording is None:
            return None
        recorder = Recorder(
            self._recording,
            drain=monitor.drain,
            history=monitor.history,
            tell=lambda sentence: narrate(f"recording: {sentence}"),
            watches=watched(self._settings),
            clock=clock.now,
        )
        recorder.start()
        opened, _ = await asyncio.wait({asyncio.wrap_future(recorder.past)}, timeout=RESTORING_SECONDS)
        for future in opened:
            past = future.result()
            if past is not None:
                recorder.resume(past, monitor.restore(past.history, past.alerts, past.ended_at))
        return recorder

    def _endpoints(self, digest_key: bytes) -> list[Endpoint]:
        found = hardware_endpoints(self._settings)
        url = self._settings.sglang_url
        if url is not None:
            # A web client is loaded only where it is asked for.
            from ddwatch_sidecar.sources.loads import LoadsEndpoint

            found.append(LoadsEndpoint(url, api_key=self._sglang_key, digest_key=digest_key))
        if url is not None and self._settings.metrics:
            from ddwatch_sidecar.sources.metrics import MetricsEndpoint

            found.append(MetricsEndpoint(url, api_key=self._sglang_key))
        if self._settings.fpm is not None:
            from ddwatch_sidecar.sources.fpm import FpmEndpoint

            found.append(FpmEndpoint(self._settings.fpm))
        if self._settings.request_metrics is not None:
            found.append(RequestRecords(Path(self._settings.request_metrics)))
        return found

    def _orders(self, recorder: Recorder | None) -> Endpoint:
        """What reads acknowledgements and mutes, and says where the recording lies."""
        settings = self._settings
        quiet = None if settings.quiet_hours is None else quiet_hours(settings.quiet_hours)
        name = _stem(settings, self._port)
        folder = Path(settings.alerts) if settings.alerts is not None else desk_folder()
        path = folder / f"{name if name is not None else passing_name(os.getpid())}.json"
        return OrdersFile(
            None if settings.alerts == "off" else Desk(path),
            passing=name is None,
            recording=lambda: None if recorder is None else recorder.path,
            quiet=None if quiet is None else lambda now: quiet.holds(now, None),
        )

    def _say(self, url: str) -> None:
        narrate(f"{__version__} serves {watched(self._settings)} on {url}")
        if self._announce:
            # Whoever asked for the line may have left already.
            with suppress(OSError, ValueError):
                sys.stdout.write(msgspec.json.encode(Announcement(url=url, pid=os.getpid())).decode() + "\n")
                sys.stdout.flush()


async def _gone(parent: psutil.Process, stop: Callable[[], None]) -> None:
    """Calls `stop` once a process is gone; a new process with its number is not it."""
    while _lives(parent):
        await asyncio.sleep(PARENT_SECONDS)
    narrate(f"process {parent.pid} is gone, so this sidecar leaves")
    stop()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except OSError:
        # Without a free descriptor nobody can tell.
        return True


def _address(settings: Settings) -> tuple[Address, Resolved]:
    address = parse_address(settings.listen, DEFAULT_PORT)
    if settings.port is not None:
        address = address._replace(port=settings.port)
    return address, resolve(address)


def _guard(settings: Settings, address: Address, token: str | None) -> Guard:
    for name in settings.allow_host:
        if host_of(name) is None:
            raise CommandFailed(f"--allow-host {name!r} is not a host name", Exit.USAGE)
    return Guard(token=token, hosts=(address.host, *settings.allow_host))


def _stem(settings: Settings, port: int) -> str | None:
    """By what the files of this service are found again; None where nothing is.

    What is piped to a port that is free just now has no name, and what is simulated is gone with its simulation.
    """
    if settings.simulated or ("-" in settings.log and port == 0):
        return None
    return recording_name(settings.log, settings.sglang_url, port)


def _recording(settings: Settings, port: int) -> Callable[[float], RecordingFile] | None:
    """What opens the recording; None where nothing is to be recorded."""
    folder = settings.record
    if folder == "off" or (folder is None and _stem(settings, port) is None):
        return None
    return opener(
        Path(folder) if folder is not None else Path(user_state_dir("ddwatch", appauthor=False)) / "recordings",
        recording_name(settings.log, settings.sglang_url, port),
        Limits.of(int(settings.record_size * MIB), settings.record_days * 86400.0),
        __version__,
        lambda sentence: narrate(f"recording: {sentence}"),
    )


def plan(
    settings: Settings,
    token: str | None,
    sglang_key: str | None,
    *,
    telling: Telling,
    until_pid: int | None,
    announce: bool,
) -> Plan:
    """Looks at everything that can be refused and opens the socket; raises CommandFailed with one sentence."""
    found = sources(settings)
    try:
        address, resolved = _address(settings)
    except Unusable as unusable:
        raise CommandFailed(str(unusable), Exit.USAGE) from unusable
    if token is None and not resolved.loopback:
        raise CommandFailed(
            f"{address.host} can be reached from other hosts, so it needs a token: "
            "give --token-file FILE or set DDWATCH_TOKEN",
            Exit.USAGE,
        )
    guard = _guard(settings, address, token)
    clamped = too_often(settings)
    if clamped is not None:
        narrate(clamped)
    keeper = Keeper(narrate) if settings.learn and not settings.simulated else None
    model_side = expecting(settings.profile, keeper)
    parent: psutil.Process | None = None
    if until_pid is not None:
        try:
            parent = psutil.Process(until_pid)
        except (psutil.NoSuchProcess, OverflowError) as error:
            raise CommandFailed(f"there is no process {until_pid} to stay for", Exit.INPUT) from error
    try:
        listener = open_listener(address, resolved)
    except Unusable as unusable:
        raise CommandFailed(str(unusable), Exit.INPUT) from unusable
    return Plan(
        settings,
        guard,
        listener,
        found,
        sglang_key=sglang_key,
        expecting=model_side,
        keeper=keeper,
        telling=telling,
        recording=_recording(settings, address.port),
        port=address.port,
        parent=parent,
        announce=announce,
    )
