"""What `ddwatch backtest` prints: the table, and the JSON document."""

from datetime import datetime, tzinfo
from typing import Any

from msgspec import Struct

from ddwatch.core.detection.backtest import Backtest, Found, Interval
from ddwatch.core.expectation.profile import Profile
from ddwatch.core.expectation.wording import duration
from ddwatch.core.wire import iso

SCHEMA = "ddwatch.backtest/1"
ABSENT = "–"


class Tested(Struct, frozen=True, kw_only=True):
    """A finished backtest with what it was made of."""

    source: str
    profile: Profile
    fitted: int | None
    """Clean samples of the earlier part; None when a profile was given."""
    begins_at: float | None
    """Time of the first tested sample; None when the log has no times."""
    ends_at: float | None
    seed: int
    left_out: tuple[str, ...]
    found: Backtest


def document(tested: Tested) -> dict[str, Any]:
    """The JSON document."""
    found = tested.found
    return {
        "schema": SCHEMA,
        "source": tested.source,
        "profile": {
            "name": tested.profile.name,
            "fitted_on": tested.fitted,
            "fit_error": tested.profile.fit_error,
            "lag1_autocorrelation": tested.profile.lag1,
        },
        "tested": {
            "from": iso(tested.begins_at) if tested.begins_at is not None else None,
            "to": iso(tested.ends_at) if tested.ends_at is not None else None,
            "samples": found.samples,
            "judged": found.judged,
            "judged_hours": found.hours,
        },
        "left_out": list(tested.left_out),
        "seed": tested.seed,
        "alarms": {
            "count": sum(found.incidents.values()),
            "by_name": dict(sorted(found.incidents.items())),
            "per_day": _interval(found.false_per_day),
        },
        "changes": [
            {
                "name": one.change.name,
                "finds": one.change.finds,
                "trials": one.trials,
                "found": one.found,
                "wrong": one.wrong,
                "lines": _interval(one.lines),
                "seconds": _interval(one.seconds),
            }
            for one in found.found
        ],
    }


def _interval(interval: Interval | None) -> dict[str, float | None] | None:
    return None if interval is None else {"value": interval.value, "low": interval.low, "high": interval.high}


def page(tested: Tested, zone: tzinfo | None) -> list[str]:
    """The table for a terminal of 80 columns."""
    found, profile = tested.found, tested.profile
    error = "" if profile.fit_error is None else f", fit error {profile.fit_error * 100:.1f} %"
    lag = "" if profile.lag1 is None else f", lag 1 {profile.lag1:.2f}"
    made = profile.name if tested.fitted is None else f"fitted on {tested.fitted} earlier clean samples"
    lines = [
        tested.source,
        f"  profile   {made}{error}{lag}",
        f"  tested    {found.samples} later samples, {found.judged} judged, {_hours(found.hours)} of traffic",
    ]
    if tested.begins_at is not None and tested.ends_at is not None:
        lines.append(f"            {_clock(tested.begins_at, zone)} to {_clock(tested.ends_at, zone)}")
    lines += [f"  left out  {words}" for words in tested.left_out]
    lines += ["", *_alarms(found), ""]
    width = max(len(one.change.name) for one in found.found)
    lines.append(f"  {'injected':<{width}}  {'found':>9}  {'wrong':>5}  {'clean lines to find':>20}  {'time':>12}")
    lines += [_row(one, width) for one in found.found]
    lines += ["", "  Medians with 95 % intervals; what is not found within 30 min is missed."]
    return lines


def _alarms(found: Backtest) -> list[str]:
    count = sum(found.incidents.values())
    rate = found.false_per_day
    named = ", ".join(f"{name} {number}" for name, number in sorted(found.incidents.items()))
    if rate is None or rate.high is None:
        return [f"  alarms with nothing injected: {count}{f' ({named})' if named else ''}"]
    if not count:
        return [
            f"  no alarm with nothing injected in {_hours(found.hours)}: at most {_few(rate.high)} false a day (95 %)"
        ]
    return [
        f"  {count} alarm{'' if count == 1 else 's'} with nothing injected ({named}); if all were false:",
        f"  {_few(rate.value)} a day ({_few(rate.low)} … {_few(rate.high)})",
    ]


def _row(one: Found, width: int) -> str:
    lines = ABSENT
    if one.lines is not None:
        high = ABSENT if one.lines.high is None else f"{one.lines.high:.0f}"
        lines = f"{one.lines.value:.0f} ({one.lines.low:.0f} … {high})"
    time = ABSENT if one.seconds is None else duration(one.seconds.value)
    return f"  {one.change.name:<{width}}  {one.found:>3} of {one.trials:<2}  {one.wrong:>5}  {lines:>20}  {time:>12}"


def _few(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 0.995 else f"{hours * 60.0:.0f} min"


def _clock(at: float, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S")
