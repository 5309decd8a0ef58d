"""Blind: ddwatch cannot judge, because the log is silent, unread, gone, or all its windows are mixed."""

from ddwatch.core.durations import in_words
from ddwatch.core.rules.situation import Situation
from ddwatch.core.snapshot import Verdict

PORT = "loads"
"""Name of the source that asks SGLang's own port."""
SILENCE_SECONDS = 30.0
"""Batch lines are missed only after this, whatever the cadence."""
SILENCE_MULTIPLE = 6.0
"""... and after this many usual distances between them."""
WAIT_SECONDS = 10.0
"""A log whose lines hold no batch line is suspected only after this."""
LINES_WITHOUT_DECODE = 200
UNREAD_LINES = 5
UNREAD_SHARE = 0.2
MIXED_SAMPLES = 30
"""So many samples must be there before their lack of clean ones blinds."""
MIXED_CLEAN_RATIO = 0.05
PORT_SILENCE_SECONDS = 3.0
"""A port that is lost is believed once the log has been silent for this long as well ..."""
PORT_SILENCE_MULTIPLE = 2.0
"""... and for this many usual distances between its lines: a busy port that answers late is not a lost one."""
MORE = "give --sglang-url to tell idle from stuck"
MEND = "mend --sglang-url to tell idle from stuck"


def _blind(situation: Situation, since: float | None, sentence: str, **more: object) -> Verdict:
    evidence: dict[str, float | int | str | None] = {
        key: value for key, value in more.items() if key != "cause" and isinstance(value, (int, float, str))
    }
    steps = more.get("next_steps")
    cause = more.get("cause")
    return Verdict(
        name="blind",
        severity="unknown",
        since=situation.at if since is None else since,
        sentence=sentence,
        evidence=evidence,
        cause=cause if isinstance(cause, str) else None,
        next_steps=steps if isinstance(steps, tuple) else (),
    )


def _no_source(situation: Situation) -> Verdict | None:
    sources = situation.sources
    if not sources or any(source.state == "up" for source in sources):
        return None
    source = sources[0]
    cause = "nothing has been heard of it yet" if source.state == "waiting" else None
    return _blind(situation, source.last_at, source.detail or f"waiting for {source.name}", cause=cause)


def _server_gone(situation: Situation) -> Verdict | None:
    state = situation.server.state
    if state == "crashed":
        answers = any(source.name == PORT and source.state == "up" for source in situation.sources)
        rest = ", and SGLang's port still answers" if answers else "; whether the process is gone needs --sglang-url"
        return _blind(
            situation,
            situation.traffic_at,
            f"the log ends in a crash ({situation.crash_reason}){rest}",
            cause="the server crashed",
        )
    if state == "stopped":
        return _blind(
            situation,
            situation.traffic_at,
            "the server said that it stops; waiting for its next start",
            cause="somebody stopped the server",
        )
    return None


def _port_gone(situation: Situation) -> Verdict | None:
    """SGLang's own port answered once and does no more, and its log is silent too."""
    port = next((source for source in situation.sources if source.name == PORT), None)
    if port is None or port.state != "lost" or port.last_at is None or situation.server.state == "starting":
        return None
    heard = max(situation.traffic_at or 0.0, port.last_at)
    silent = situation.at - heard
    if silent <= max(PORT_SILENCE_SECONDS, PORT_SILENCE_MULTIPLE * (situation.cadence or 0.0)):
        return None
    return _blind(
        situation,
        heard,
        f"SGLang's port is gone and its log is silent for {in_words(silent)}: {port.detail}",
        silent_seconds=silent,
        cause="the server is gone, or its port is closed",
        next_steps=("look whether the process still runs",),
    )


def _unread(situation: Situation) -> Verdict | None:
    unread, heads = situation.recent_unread, situation.recent_heads
    if unread < UNREAD_LINES or unread < UNREAD_SHARE * heads:
        return None
    return _blind(
        situation,
        None,
        f"{unread} of the last {heads} batch lines could not be read: this SGLang is newer than this ddwatch",
        unread=unread,
        lines=heads,
        next_steps=("update ddwatch, or send the masked example (sources panel) with a bug report",),
    )


def _silent(situation: Situation) -> Verdict | None:
    if situation.nothing_runs_since is not None or situation.server.state == "starting":
        return None
    heard = situation.traffic_at
    if heard is None:
        if situation.server.state == "ready":
            return None
        waited = situation.at - situation.started_at
        if situation.lines >= LINES_WITHOUT_DECODE or (situation.lines and waited > WAIT_SECONDS):
            text = f"no batch line in {situation.lines} lines; is this the scheduler's log?"
            return _blind(situation, None, text, lines=situation.lines)
        return _blind(situation, situation.started_at, "waiting for the first batch line", cause="no request yet")
    silent = situation.at - heard
    if silent <= max(SILENCE_SECONDS, SILENCE_MULTIPLE * (situation.cadence or 0.0)):
        return None
    running = situation.running
    last = "" if running is None else f" with {running} running"
    port = next((source for source in situation.sources if source.name == PORT), None)
    return _blind(
        situation,
        heard,
        f"no batch line for {in_words(silent)}{last}: idle or stuck cannot be told from the log alone",
        silent_seconds=silent,
        next_steps=(MORE if port is None else f"{MEND}: {port.detail}" if port.detail else MEND,),
    )


def _mixed(situation: Situation) -> Verdict | None:
    window = situation.window
    settled = window.samples - window.flag_counts.get("warming", 0)
    if situation.warming or settled < MIXED_SAMPLES or window.clean > MIXED_CLEAN_RATIO * settled:
        return None
    counts = {flag: count for flag, count in window.flag_counts.items() if flag != "warming"}
    worst = max(counts.items(), key=lambda item: item[1])[0] if counts else "mixed"
    return _blind(
        situation,
        None,
        f"all windows mixed: {window.clean} of {settled} samples are clean (mostly {worst})",
        clean=window.clean,
        samples=window.samples,
        next_steps=("start SGLang with --decode-log-interval 1",),
    )


def judge(situation: Situation) -> Verdict | None:
    """The first reason that blinds, or None."""
    for reason in (_no_source, _server_gone, _port_gone, _unread, _silent, _mixed):
        verdict = reason(situation)
        if verdict is not None:
            return verdict
    return None
