"""Puts the ways together on which incidents leave this process, from the settings."""

import asyncio
import socket
from collections.abc import Callable, Mapping

from ddwatch import __version__
from ddwatch.core.durations import seconds_of
from ddwatch.core.monitor import Monitor
from ddwatch_sidecar.config import Settings
from ddwatch_sidecar.exports.address import Address
from ddwatch_sidecar.exports.contract import Supply
from ddwatch_sidecar.exports.hook import CommandHook
from ddwatch_sidecar.exports.notify import Channel, Notifier, Outbox, record_of
from ddwatch_sidecar.exports.quiet import quiet_hours
from ddwatch_sidecar.exports.webhook import Webhook
from ddwatch_sidecar.narration import narrate

CLOSING_SECONDS = 2.0
"""How long the last messages may take once the sidecar is told to stop."""


class Telling:
    """The channels that the operator asked for; none of them is no fault."""

    def __init__(self, webhook: Address | None, environment: Mapping[str, str]) -> None:
        self._webhook = webhook
        self._environment = environment

    def notifier(self, settings: Settings, monitor: Monitor, now: Callable[[], float]) -> Notifier | None:
        """What tells incidents; None when nobody is to be told."""
        channels: list[Channel] = []
        if self._webhook is not None:
            channels.append(Webhook(self._webhook, version=__version__))
        if settings.notify_command:
            channels.append(CommandHook(settings.notify_command, self._environment))
        if not channels:
            return None

        def tell(name: str, reason: str | None) -> None:
            monitor.accept(record_of(name, reason, now()), name)
            narrate(f"{name}: {reason or 'delivers'}")

        return Notifier(
            [Outbox(channel, tell) for channel in channels],
            host=socket.gethostname(),
            least="page" if settings.notify_severity == "page" else "notice",
            quiet=quiet_hours(settings.quiet_hours) if settings.quiet_hours is not None else None,
            repeat_seconds=seconds_of(settings.notify_repeat) if settings.notify_repeat is not None else None,
        )


async def tell(notifier: Notifier, supply: Supply, stopping: asyncio.Event) -> None:
    """Tells incidents until the sidecar stops, and gives what waits then a last chance."""
    running = asyncio.create_task(notifier.run(supply.changes, supply.latest))
    stopped = asyncio.create_task(stopping.wait())
    try:
        done, _ = await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            running.result()
        if not await notifier.close(CLOSING_SECONDS):
            narrate("incidents could not be told before the end")
    finally:
        for task in (running, stopped):
            task.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)
