"""What is said of an incident, in words and signs, the same on the screen and in plain text."""

from datetime import datetime, tzinfo

from ddwatch.core.alert_view import AlertView
from ddwatch.core.snapshot import Snapshot
from ddwatch.widgets.events import SIGNS, when
from ddwatch.widgets.figures import clock, duration, figure, milliseconds
from ddwatch.widgets.rows import Role, clean


def until_words(until: float, now: float, zone: tzinfo) -> str:
    """`15:04`, or with the date where that is another day."""
    moment, today = datetime.fromtimestamp(until, zone), datetime.fromtimestamp(now, zone)
    return f"{moment:%H:%M}" if moment.date() == today.date() else f"{moment:%b %d %H:%M}"


def state_words(alert: AlertView, now: float, zone: tzinfo) -> tuple[str, str, Role]:
    """Sign, words and look of an incident's state."""
    end = "" if alert.until is None else f" until {until_words(alert.until, now, zone)}"
    if alert.state == "firing":
        sign, role = SIGNS[alert.severity]
        return sign, "firing", role
    if alert.state == "acknowledged":
        return "○", f"acknowledged{end}", "strong"
    if alert.state == "muted":
        return "‖", f"muted{end}", "strong"
    return ("…", "suspected", "label") if alert.state == "pending" else ("✓", "over", "ok")


def quiet_words(snapshot: Snapshot, zone: tzinfo) -> str:
    """What stands beside the verdict while it is acknowledged or muted: `acknowledged until 15:00`; else nothing."""
    name = snapshot.verdict.name
    alert = next((one for one in snapshot.alerts if one.name == name and one.open), None)
    if alert is not None and alert.state != "firing":
        return state_words(alert, snapshot.at, zone)[1]
    mute = next((one for one in snapshot.mutes if one.name == name), None)
    return "" if mute is None else f"muted until {until_words(mute.until, snapshot.at, zone)}"


def times_words(alert: AlertView, now: float, zone: tzinfo) -> str:
    """When it was, and how long it lasted or lasts."""
    begin = when(alert.since, now, zone).strip()
    if alert.resolved_at is None:
        return f"since {begin} · {duration(max(0.0, now - alert.since))}"
    if ":" not in begin:
        begin += f" {clock(alert.since, zone)}"
    lasted = duration(max(0.0, alert.resolved_at - alert.since))
    return f"{begin} – {clock(alert.resolved_at, zone)} · {lasted}"


def evidence_words(alert: AlertView) -> str:
    """The numbers that it was reached by."""
    parts = []
    for name, value in alert.evidence.items():
        if value is None:
            continue
        words, said = clean(name).replace("_", " "), clean(str(value))
        if name.endswith("_seconds") and isinstance(value, (int, float)):
            words = words.removesuffix(" seconds")
            said = f"{milliseconds(value)} ms" if abs(value) < 1 else duration(value)
        elif isinstance(value, float):
            said = figure(value)
        parts.append(f"{words} {said}")
    return " · ".join(parts)
