"""What an operator asks of alerts, written where the sidecar of this host reads it; elsewhere one sentence says how."""

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from pathlib import Path

from ddwatch.alert_desk import Unusable, desk_of
from ddwatch.core.alert_orders import Orders
from ddwatch.core.alert_view import AlertAction, AlertView
from ddwatch.core.exits import CommandFailed
from ddwatch.core.snapshot import NoteName, Snapshot

KEY_SECONDS = 3600.0
"""How long the key of the screen mutes."""


def clock_words(at: float, now: float, zone: tzinfo | None) -> str:
    """`15:04`, or with the date where that is another day."""
    moment, today = datetime.fromtimestamp(at, zone), datetime.fromtimestamp(now, zone)
    return f"{moment:%H:%M}" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M}"


class Asking:
    """The way to one sidecar's file. Every method raises CommandFailed with one sentence."""

    def __init__(self, snapshot: Snapshot, *, folder: Path | None = None, zone: tzinfo | None = None) -> None:
        """Prepares to ask.

        Args:
            snapshot: the sidecar's newest.
            folder: where the files of this user's sidecars lie; the platform's state folder when left out.
            zone: of the times in sentences; None is this machine's.
        """
        self._snapshot = snapshot
        self._folder = folder
        self._zone = zone

    def acknowledge(self, alerts: Sequence[AlertView], seconds: float | None = None, note: str = "") -> str:
        """Some open incidents are known to somebody, for so long or until they are over."""
        names = ", ".join(alert.name for alert in alerts)
        now = self._snapshot.at
        until = None if seconds is None else now + seconds
        concerned = [(alert.name, alert.incident) for alert in alerts]
        words = f"ack {names if len(alerts) == 1 else 'all'}"
        self._change(words, lambda orders: orders.acknowledged(concerned, now, until, note))
        end = "it is over" if len(alerts) == 1 else "they are over"
        verb = "is" if len(alerts) == 1 else "are"
        return f"{names} {verb} acknowledged until {end if until is None else self._words(until)}"

    def reopen(self, alerts: Sequence[AlertView]) -> str:
        """Some incidents are not acknowledged any more."""
        names = ", ".join(alert.name for alert in alerts)
        concerned = [alert.incident for alert in alerts]
        words = f"unack {names if len(alerts) == 1 else 'all'}"
        self._change(words, lambda orders: orders.reopened(concerned))
        return f"{names} {'is' if len(alerts) == 1 else 'are'} no longer acknowledged"

    def mute(self, name: NoteName, seconds: float, note: str = "") -> str:
        """What has this name tells nobody for so long."""
        now = self._snapshot.at
        self._change(f"mute {name}", lambda orders: orders.muted(name, now, now + seconds, note))
        return f"{name} tells nobody until {self._words(now + seconds)}"

    def unmute(self, name: NoteName) -> str:
        """What has this name is told again."""
        self._change(f"unmute {name}", lambda orders: orders.unmuted(name))
        return f"{name} is muted no longer"

    def _words(self, until: float) -> str:
        return clock_words(until, self._snapshot.at, self._zone)

    def _change(self, words: str, edit: Callable[[Orders], Orders]) -> None:
        """Changes the sidecar's file; `words` are those of the command that does the same on its host."""
        keeping = self._snapshot.keeping
        if keeping is None or keeping.channel is None:
            reason = next((one.detail for one in self._snapshot.sources if one.name == "acknowledgements"), "")
            raise CommandFailed(f"this sidecar takes no acknowledgements{f': {reason}' if reason else ''}")
        desk = desk_of(keeping.channel, self._folder)
        if desk is None:
            raise CommandFailed(
                f"this must be asked on the sidecar's own host, as the user that it runs as: ddwatch alerts {words}"
            )
        try:
            desk.change(edit)
        except Unusable as error:
            raise CommandFailed(f"this cannot be asked: {error}") from error


def ask(snapshot: Snapshot, action: AlertAction, alert: AlertView) -> str:
    """Does what a key of the screen asks for; one sentence of what has come of it."""
    asking = Asking(snapshot)
    try:
        if action == "mute":
            return asking.mute(alert.name, KEY_SECONDS)
        if action == "acknowledge":
            if alert.open:
                return asking.acknowledge([alert])
            what = "is over" if alert.state == "resolved" else "is only suspected, and nobody was told"
            return f"{alert.name} {what}: there is nothing to acknowledge"
        if any(mute.name == alert.name for mute in snapshot.mutes):
            return asking.unmute(alert.name)
        if alert.state == "acknowledged":
            return asking.reopen([alert])
        return f"{alert.name} is neither acknowledged nor muted"
    except CommandFailed as failure:
        return failure.sentence
