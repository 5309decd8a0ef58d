"""Warming: the server starts, or its rate has not settled since a start or a compilation."""

from ddwatch.core.durations import in_words
from ddwatch.core.rules.idle import SETTLE_SECONDS
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict


def judge(situation: Situation) -> Verdict | None:
    """Holds while the server loads, and from its first traffic until the rate is stable.

    A server that is ready and has had no traffic is idle, not warming: nothing is there to settle.
    """
    server = situation.server
    if server.state == "starting":
        began = situation.at if server.started_at is None else server.started_at
        took = situation.at - began
        return Verdict(
            name="warming",
            severity="unknown",
            since=began,
            sentence=f"the server is starting, {in_words(took)} so far" if took >= 1.0 else "the server is starting",
        )
    if not situation.warming or situation.decode_at is None:
        return None
    quiet = situation.nothing_runs_since
    if quiet is not None and situation.at - quiet >= SETTLE_SECONDS:
        return None
    if server.started_at is not None and situation.decode_at < server.started_at:
        return None
    since = server.ready_at or server.started_at or situation.decode_at
    return Verdict(
        name="warming",
        severity="unknown",
        since=since,
        sentence="warming up: the rate has not settled since the start",
        evidence={"samples": situation.window.samples},
    )
