"""Opens what a sidecar recorded at a past moment, where that file lies on this machine; elsewhere says where it is."""

import shlex
from datetime import datetime, timezone
from pathlib import Path

from ddwatch import __version__
from ddwatch.alert_desk import desk_of
from ddwatch.core.exits import CommandFailed
from ddwatch.core.snapshot import Snapshot
from ddwatch.feeds.recording import Recording, open_recording
from ddwatch.feeds.recording_tape import RecordingFeed

SAME_RUN_SECONDS = 60.0
"""A run of the recording that began this soon after a watch is that watch's."""


def past_of(snapshot: Snapshot, at: float) -> RecordingFeed | str:
    """The recording from a moment on at its own pace, or one sentence why there is none."""
    named = snapshot.keeping.recording if snapshot.keeping is not None else None
    if named is None:
        why = "a simulation is not recorded" if snapshot.simulated else "this sidecar records nothing"
        return f"{why} (--record DIR says where to), so there is no past to show"
    try:
        path = str(Path(named).expanduser())
        with open_recording(path) as recording:
            bounds = recording.bounds()
            ours = _is_of(recording, snapshot)
    except (CommandFailed, RuntimeError):
        bounds, ours = None, False
    if not ours:
        return f"the recording lies on the sidecar's own host; there: {replay_words(named, at)}"
    if bounds is None or bounds[0] > at + SAME_RUN_SECONDS:
        return "the recording does not go back that far"
    start = max(at - bounds[0], 0.0)
    return RecordingFeed(
        lambda: open_recording(path), origin=named, bounds=bounds, speed=1.0, version=__version__, start=start
    )


def _is_of(recording: Recording, snapshot: Snapshot) -> bool:
    """Whether it is the one of this watch, and not one of the same name on another host."""
    channel = snapshot.keeping.channel if snapshot.keeping is not None else None
    if desk_of(channel) is not None:
        return True
    began = snapshot.started_at
    return began is not None and any(0 <= run.began_at - began <= SAME_RUN_SECONDS for run in recording.runs()[-20:])


def replay_words(named: str, at: float) -> str:
    """The command that shows a recording from a moment on."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    # A quoted ~ would not be a home any more.
    place = f"~/{shlex.quote(named[2:])}" if named.startswith("~/") else shlex.quote(named)
    return f"ddwatch replay {place} --at '{moment:%Y-%m-%d %H:%M:%S}' --tz UTC"
