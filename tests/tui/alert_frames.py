"""Frames with alert logs for looking at: none, one that fires, many, acknowledged, muted, over."""

from msgspec.structs import replace

from ddwatch.core.alert_view import AlertView, KeepingView, MuteView
from ddwatch.core.snapshot import Frame
from tests.tui import model_frames
from tests.tui.frames import NOON

SLOW = AlertView(
    incident="slow-step-1777633200",
    name="slow-step",
    severity="page",
    state="firing",
    since=NOON - 840,
    began_at=NOON - 810,
    sentence="+31 ms on every step, at all contexts",
    cause="GPU 5 is slowed by heat, 1.62 GHz against 2.41 on the others; CUDA graph is off at this batch",
    next_steps=("nvidia-smi -q -d PERFORMANCE -i 5, and look at the airflow", "ddwatch compare --at 11:46"),
    evidence={"offset_seconds": 0.0308, "ratio": 0.76, "clean_steps": 412, "strength": 3.4},
)
RETRACTIONS = AlertView(
    incident="retractions-1777636600",
    name="retractions",
    severity="notice",
    state="firing",
    since=NOON - 200,
    began_at=NOON - 190,
    sentence="the KV pool keeps filling up: 9 requests sent back in 3 min",
    next_steps=("lower --max-running-requests, or raise --mem-fraction-static",),
)
SUSPECTED = AlertView(
    incident="low-accept-1777636790",
    name="low-accept",
    severity="notice",
    state="pending",
    since=NOON - 10,
    began_at=NOON - 10,
    sentence="accept length 1.21, below every text that was learned",
    evidence={"accept_length": 1.21},
)


def over(number: int) -> AlertView:
    """One that is over; the higher the number the longer ago."""
    base = (SLOW, RETRACTIONS, replace(SUSPECTED, state="firing"))[number % 3]
    since = NOON - 7200.0 * number - 3000.0
    return replace(
        base,
        incident=f"{base.name}-{int(since)}",
        state="resolved",
        since=since,
        began_at=since + 20.0,
        resolved_at=since + 431.0 + 100.0 * number,
    )


def frame_with(*alerts: AlertView, mutes: tuple[MuteView, ...] = ()) -> Frame:
    """The slow service with this log."""
    frame = model_frames.slow()
    keeping = KeepingView(channel="a-mark", recording="~/.local/state/ddwatch/recordings/sglang.log-1.sqlite")
    return replace(frame, snapshot=replace(frame.snapshot, alerts=alerts, mutes=mutes, keeping=keeping))


def none() -> Frame:
    """Nothing was ever wrong."""
    return frame_with()


def one() -> Frame:
    """One that fires."""
    return frame_with(SLOW)


def many() -> Frame:
    """All states at once, and more than a screen of what is over."""
    acknowledged = replace(RETRACTIONS, state="acknowledged", until=NOON + 3 * 3600.0, note="known, fixed tonight")
    return frame_with(acknowledged, SLOW, SUSPECTED, *(over(number) for number in range(1, 20)))


def acknowledged() -> Frame:
    """Somebody knows."""
    return frame_with(replace(SLOW, state="acknowledged", until=NOON + 3 * 3600.0, note="Ann looks at the fans"))


def muted() -> Frame:
    """It tells nobody; another verdict does not either and is not wrong."""
    until = NOON + 1800.0
    mutes = (MuteView(name="slow-step", until=until), MuteView(name="blind", until=until, note="log moves"))
    return frame_with(replace(SLOW, state="muted", until=until), mutes=mutes)


def resolved() -> Frame:
    """Nothing is wrong any more."""
    frame = frame_with(over(0), over(1))
    fine = replace(frame.snapshot.verdict, name="as-expected", severity="ok", sentence="as it should be", cause=None)
    return replace(frame, snapshot=replace(frame.snapshot, verdict=replace(fine, next_steps=())))
