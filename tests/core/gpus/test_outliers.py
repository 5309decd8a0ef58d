"""One straggler of eight is named, noise names none, and two cards cannot be told apart."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.gpus.outliers import low

CLOCKS = {f"GPU-{index}": 2370.0 + index for index in range(8)}


def test_one_straggler_of_eight_is_named_with_what_the_others_do() -> None:
    found = low({**CLOCKS, "GPU-3": 1200.0})

    assert list(found) == ["GPU-3"]
    assert 2370 <= found["GPU-3"] <= 2377


def test_equal_cards_have_no_spread_and_still_need_a_tenth() -> None:
    equal = dict.fromkeys(CLOCKS, 2000.0)

    assert low({**equal, "GPU-1": 1801.0}) == {}
    assert list(low({**equal, "GPU-1": 1799.0})) == ["GPU-1"]


def test_a_card_within_the_usual_spread_is_none_though_it_is_a_tenth_lower() -> None:
    wide = {"a": 1000.0, "b": 1200.0, "c": 1400.0, "d": 1600.0, "e": 1800.0}

    assert low(wide) == {}


def test_a_faster_card_is_no_straggler() -> None:
    assert low({**CLOCKS, "GPU-3": 3000.0}) == {}


def test_of_two_cards_nobody_can_say_which_one_is_odd() -> None:
    assert low({"a": 100.0, "b": 2000.0}) == {}
    assert list(low({"a": 100.0, "b": 2000.0, "c": 2000.0})) == ["a"]


@given(st.dictionaries(st.text(max_size=3), st.floats(1.0, 1e10), max_size=16))
def test_who_is_named_is_lower_than_most_others(values: dict[str, float]) -> None:
    for name, others in low(values).items():
        assert values[name] < 0.9 * others
        assert sum(1 for value in values.values() if value > values[name]) >= len(values) / 2 - 1


@given(st.lists(st.floats(2300.0, 2450.0), min_size=3, max_size=16))
def test_healthy_cards_name_nobody(clocks: list[float]) -> None:
    assert low({str(number): clock for number, clock in enumerate(clocks)}) == {}
