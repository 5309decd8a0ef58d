"""A stretch of time is said the same way everywhere."""

import pytest

from ddwatch.core.durations import in_words


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
