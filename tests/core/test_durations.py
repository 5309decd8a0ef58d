"""A stretch of time is said the same way everywhere, and a typed one is read or refused."""

import pytest

from ddwatch.core.durations import LONGEST_SECONDS, in_words, seconds_of


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0.44, "0.4 s"),
        (42.4, "42 s"),
        (59.6, "1 min 00 s"),
        (598, "9 min 58 s"),
        (11100, "3 h 05 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("15 min", 900), ("4h", 14_400), ("1h30m", 5400), ("1D", 86_400), ("0.5h", 1800)],
)
def test_a_typed_duration(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "4", "h", "-1h", "4 hours", "1e3s", "0s", "367d", "1h x", "nan", "inf"])
def test_another_text_is_refused_with_a_phrase(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        seconds_of(text)


def test_a_year_is_the_most() -> None:
    assert seconds_of("366d") == LONGEST_SECONDS
