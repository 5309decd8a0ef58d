"""Idle: the log itself says that nothing runs."""

from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict

SETTLE_SECONDS = 2.0
"""A pause between two requests is not called idle."""


def judge(situation: Situation) -> Verdict | None:
    """Holds when the last batch lines say that nothing runs, or a ready server has had no traffic."""
    since = situation.nothing_runs_since
    server = situation.server
    if since is None and server.state == "ready":
        untouched = situation.traffic_at is None or (
            server.started_at is not None and situation.traffic_at < server.started_at
        )
        since = server.ready_at if untouched else None
    elif since is not None and situation.at - since < SETTLE_SECONDS:
        return None
    if since is None:
        return None
    return Verdict(name="idle", severity="ok", since=since, sentence="nothing to do: no request runs")
