"""Numbers keep three significant digits, and an absent one is never a zero."""

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.widgets import figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.004, "0"),
        (0.934, "0.93"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (32.2, "32.2"),
        (99.96, "100"),
        (138.4, "138"),
        (999.4, "999"),
        (999.6, "1.00k"),
        (5_944, "5.94k"),
        (9_996, "10.0k"),
        (59_300, "59.3k"),
        (593_000, "593k"),
        (999_600, "1.00M"),
        (-41.2, "−41.2"),
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert figures.figure(value) == text


@given(st.floats(min_value=0, max_value=9e11))
def test_no_figure_is_wider_than_its_place(value: float) -> None:
    assert len(figures.figure(value)) <= 5


def test_lengths_in_tokens_are_short() -> None:
    values = (None, 0, 913, 5_944, 98_000, 128_000)
    assert [figures.tokens(value) for value in values] == ["–", "0", "913", "5.9k", "98.0k", "128k"]


def test_whole_numbers_stay_whole() -> None:
    assert [figures.count(value) for value in (None, 0, 7, 1007, 12_345)] == ["–", "0", "7", "1007", "12.3k"]


def test_times_and_shares() -> None:
    assert figures.milliseconds(0.0934) == "93.4"
    assert figures.milliseconds(None) == "–"
    assert [figures.percent(ratio) for ratio in (None, 0.0, 0.004, 0.92, 1.0)] == ["–", "0 %", "<1 %", "92 %", "100 %"]
    assert [figures.size(octets) for octets in (None, 52_000_000, 3_200_000_000)] == ["–", "52 MB", "3.2 GB"]
    assert figures.exact(12_345) == "12 345"


def test_ages_are_coarse_enough_to_stand_still() -> None:
    ages = (None, 0.4, 12.9, 99.0, 150.0, 900.0, 7_500.0, 360_000.0)
    words = ["–", "<1 s", "12 s", "99 s", "2 min", "15 min", "2 h 05 min", "4 d 4 h"]
    assert [figures.age(age) for age in ages] == words


def test_times_of_day_are_local_and_name_their_zone() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert figures.clock(0.0, east) == "05:30:00"
    assert figures.clock(0.0, east, seconds=False) == "05:30"
    assert figures.zone_name(0.0, east) == "UTC+05:30"
    assert figures.zone_name(0.0, timezone.utc) == "UTC"
    assert figures.day_and_clock(0.0, timezone.utc) == "1970-01-01 00:00:00"
