"""Times are those of the clock on the wall, on both sides of a change to daylight saving time."""

import time
from datetime import datetime, timezone

import pytest

from ddwatch.widgets.axis import time_ticks
from ddwatch.widgets.figures import clock, zone_name
from ddwatch.widgets.zones import LocalZone


@pytest.mark.parametrize(
    ("moment", "shown", "name"),
    [("2026-01-15T12:00:00", "13:00:00", "CET"), ("2026-07-15T12:00:00", "14:00:00", "CEST")],
)
def test_summer_and_winter_time(monkeypatch: pytest.MonkeyPatch, moment: str, shown: str, name: str) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        at = datetime.fromisoformat(moment).replace(tzinfo=timezone.utc).timestamp()
        assert clock(at, LocalZone()) == shown
        assert zone_name(at, LocalZone()) == name
        assert time_ticks(at - 300, at, LocalZone(), 5)[0][0] == at - 300
    finally:
        monkeypatch.undo()
        time.tzset()
