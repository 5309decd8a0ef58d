"""Where the lines of a replayed log stand in time."""

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.grammar import LogReader
from ddwatch.core.grammar.placement import Placement
from ddwatch.core.records import DecodeBatch
from tests.core.grammar.golden import BASE, KEY, drain

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")


def moment(text: str, zone: tzinfo = UTC) -> float:
    """Epoch seconds of an ISO time."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()


def places(stamps: list[str], zone: tzinfo | None = UTC, base: float = BASE) -> list[float]:
    """Where these stamps stand, one after the other."""
    placement = Placement(zone, base)
    return [placement.stamp(stamp) for stamp in stamps]


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        (["2026-05-01 12:00:00", "2026-05-01 12:00:01.250"], ["2026-05-01T12:00:00", "2026-05-01T12:00:01.250"]),
        (["2026-05-01 12:00:00", "2026-05-01 12:00:00"], ["2026-05-01T12:00:00"] * 2),
        # Lines of several processes are a little out of order.
        (["2026-05-01 12:00:30", "2026-05-01 12:00:00"], ["2026-05-01T12:00:30", "2026-05-01T12:00:00"]),
        # A stamp that is no time stays where the line before was.
        (["2026-05-01 12:00:00", "2026-02-30 12:00:00", "soon"], ["2026-05-01T12:00:00"] * 3),
        (["2026-05-01 12:00:00", "2026-05-01 12:00:xx"], ["2026-05-01T12:00:00"] * 2),
    ],
)
def test_dated_stamps(stamps: list[str], expected: list[str]) -> None:
    assert places(stamps) == [moment(text) for text in expected]


def test_a_clock_set_back_continues_the_timeline_until_it_has_caught_up() -> None:
    found = places(["2026-05-01 12:00:00", "2026-05-01 11:00:00", "2026-05-01 11:00:10", "2026-05-01 13:00:00"])
    noon = moment("2026-05-01T12:00:00")
    assert found == [noon, noon, noon + 10, noon + 3600]


def test_an_hour_that_comes_twice_is_told_apart_by_what_came_before() -> None:
    times = ["01:59:59", "02:30:00", "02:59:59", "02:00:01", "03:00:00"]
    found = places([f"2026-10-25 {time}" for time in times], BERLIN)
    assert [later - found[0] for later in found] == [0, 1801, 3600, 3602, 7201]


def test_an_hour_that_is_left_out_passes_in_one_second() -> None:
    first, second = places(["2026-03-29 01:59:59", "2026-03-29 03:00:00"], BERLIN)
    assert second - first == 1


def test_times_without_a_date_pass_midnight() -> None:
    base = moment("2026-05-01T09:00:00")
    found = places(["23:59:58", "23:59:59.500", "00:00:00", "23:59:59", "12:30:00"], base=base)
    start = moment("2026-05-01T23:59:58")
    assert found == [start, start + 1.5, start + 2, start + 1, start + 2 + 12.5 * 3600]


def test_a_zone_of_this_machine_is_meant_without_a_zone() -> None:
    assert places(["2026-05-01 12:00:00"], None) == [moment("2026-05-01T12:00:00")]


@pytest.mark.parametrize(
    ("base", "stamp", "expected"),
    [
        ("2026-05-20T00:00:00", "May 18 10:00:00", "2026-05-18T10:00:00"),
        ("2026-01-02T00:00:00", "Dec 31 23:00:00", "2025-12-31T23:00:00"),
        ("2025-12-31T00:00:00", "Jan  1 01:00:00", "2026-01-01T01:00:00"),
        ("2028-01-01T00:00:00", "Feb 29 01:00:00", "2028-02-29T01:00:00"),
        ("2026-01-01T00:00:00", "Feb 30 01:00:00", "2026-01-01T00:00:00"),
        ("2026-01-01T00:00:00", "Foo  1 01:00:00", "2026-01-01T00:00:00"),
    ],
)
def test_stamps_without_a_year_lie_near(base: str, stamp: str, expected: str) -> None:
    assert places([stamp], base=moment(base)) == [moment(expected)]


@settings(max_examples=100)
@given(st.lists(st.integers(0, 3 * 86_400), min_size=1, max_size=30))
def test_in_order_stamps_never_go_back_and_are_exact(seconds: list[int]) -> None:
    begin = moment("2026-10-24T00:00:00", BERLIN)
    ordered = sorted(begin + second for second in seconds)
    stamps = [datetime.fromtimestamp(at, BERLIN).strftime("%Y-%m-%d %H:%M:%S") for at in ordered]
    found = places(stamps, BERLIN)
    assert found == sorted(found)
    # A stamp of the second of two equal hours cannot be told from the first when nothing stands before it.
    assert all(place - at in (0, -3600) for place, at in zip(found, ordered, strict=True))


def decode(tokens: int, rate: str, *, rank: str = "", running: int = 1, accept: str = "") -> bytes:
    """A decode line without a time."""
    between = f", accept len: {accept}" if accept else ""
    return (
        f"{rank}Decode batch, #running-req: {running}, #token: {tokens}{between}, gen throughput (token/s): {rate}"
    ).encode()


def estimated(lines: list[bytes]) -> list[float]:
    """Seconds after the base of each decode line."""
    records = drain(LogReader(UTC, BASE, KEY), lines)
    return [round(record.at - BASE, 6) for record in records if isinstance(record, DecodeBatch)]


def test_without_any_time_windows_follow_from_tokens_and_rate() -> None:
    assert estimated([decode(16440, "0.20"), decode(16480, "20.00"), decode(16520, "40.00")]) == [0, 2, 3]


def test_without_growth_a_window_is_the_log_interval() -> None:
    assert estimated([decode(100, "1.0"), decode(50, "40.0"), decode(50, "80.0", running=2, accept="2.00")]) == [
        0,
        1,
        3,
    ]


def test_a_prefill_between_makes_growth_say_nothing() -> None:
    lines = [decode(100, "40.0"), b"Prefill batch, #new-seq: 1, #new-token: 9000", decode(9140, "40.0")]
    assert estimated(lines) == [0, 1]


def test_a_prefill_before_anything_is_no_trouble() -> None:
    assert estimated([b"Prefill batch, #new-seq: 1, #new-token: 9000", decode(9140, "40.0")]) == [0]


def test_the_announced_interval_counts() -> None:
    start = b"server_args=ServerArgs(decode_log_interval=10)"
    assert estimated([start, decode(100, "40.0"), decode(50, "10.0")]) == [0, 1]


def test_ranks_have_clocks_of_their_own() -> None:
    lines = [decode(10, "1.0", rank="[DP0] "), decode(10, "1.0", rank="[DP1] ")] + [
        decode(10 + 40 * index, "40.0", rank=f"[DP{rank}] ") for index in (1, 2) for rank in (0, 1)
    ]
    assert estimated(lines) == [0, 0, 1, 1, 2, 2]


def test_a_line_without_a_rate_takes_no_time_and_no_window_is_endless() -> None:
    line = b"Decode batch, #running-req: 1, #token: 7, spec tokens: 3, spec rounds: 1"
    assert estimated([decode(7, "1.0"), line, decode(8, "0.00"), decode(900_000, "0.10")]) == [0, 0, 0, 3600]


def test_many_ranks_and_many_minutes_stay_bounded() -> None:
    lines = [decode(10, "1.0", rank=f"[DP{rank}] ") for rank in range(3000)]
    reader = LogReader(UTC, BASE, KEY)
    assert len(drain(reader, lines)) == 3000
    placement = Placement(UTC, BASE)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for minute in range(2000):
        placement.stamp((start + timedelta(minutes=minute)).strftime("%Y-%m-%d %H:%M:%S"))
    assert len(placement._minutes) <= 513
    assert len(placement._clocks) == 0


def test_a_reader_says_whether_its_log_has_times() -> None:
    for lines, stamped in (
        ([decode(1, "1.0")], False),
        ([b"[12:00:00] " + decode(1, "1.0")], True),
        ([b"[2026-05-01 12:00:00] " + decode(1, "1.0")], True),
        ([b"2026-05-01T12:00:00Z " + decode(1, "1.0")], True),
    ):
        for arrived in (None, 5.0):
            reader = LogReader(UTC, BASE, KEY)
            records = drain(reader, lines, arrived)
            assert reader.stamped is stamped
            assert arrived is None or records[0].at == 6.0
