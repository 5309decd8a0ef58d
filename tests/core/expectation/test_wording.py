"""Figures read the same everywhere: three digits, no exponents, and plain signs where the terminal has no others."""

import pytest

from ddwatch.core.expectation.wording import duration, factor, milliseconds, range_of, rate, readable, short


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(0, "0"), (64, "64"), (999, "999"), (999.6, "1k"), (1024, "1.02k"), (5989, "5.99k"), (12_800, "12.8k"),
     (128_000, "128k"), (999_600, "1M"), (2_500_000, "2.5M"), (5e9, "5e+09")],
)  # fmt: skip
def test_tokens(tokens: float, text: str) -> None:
    assert short(tokens) == text


def test_rates_and_times() -> None:
    assert [rate(value) for value in (4.213, 32.2, 138.0, 12_400.0)] == ["4.21", "32.2", "138", "12400"]
    assert milliseconds(0.1042) == "104"
    assert [duration(value) for value in (4.21, 119.9, 125.0, 7300.0)] == ["4.2 s", "119.9 s", "2 min 5 s", "2 h 2 min"]
    assert range_of(3239, 5989) == "3.24k … 5.99k"
    assert range_of(5989, 5990) == "5.99k"


def test_factors() -> None:
    assert [factor(value) for value in (None, 0.392, 0.001, 250.0)] == ["–", "×0.39", "×0.001", "×2.5e+02"]


def test_plain_terminals_get_plain_signs() -> None:
    assert readable("✓ ×0.39 … –", "utf-8") == "✓ ×0.39 … –"
    assert readable("✓ ×0.39 … –", "ascii") == "+ x0.39 - -"
    assert readable("×", None) == "x"
    assert readable("×", "no-such-encoding") == "x"
    assert readable("ж", "ascii") == "?"
