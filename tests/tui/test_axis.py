"""Axes hold still: the limit is round, includes the peak, and noise never moves it."""

from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.widgets.axis import label, limit, round_up, time_ticks

NOON = 1_777_636_800.0


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_round_limits_lie_above_and_near(value: float) -> None:
    assert value * (1 - 1e-9) <= round_up(value) <= 1.51 * value


@given(st.lists(st.floats(min_value=0.1, max_value=1e6), max_size=30))
def test_the_peak_is_always_inside(peaks: list[float]) -> None:
    current: float | None = None
    for peak in peaks:
        current = limit(current, peak, 10.0)
        assert current >= peak


@given(st.floats(min_value=1, max_value=1e5), st.lists(st.floats(min_value=-1, max_value=1), min_size=1, max_size=60))
def test_noise_of_ten_percent_moves_the_limit_once_at_most(level: float, noise: list[float]) -> None:
    limits = []
    current: float | None = None
    for part in [0.0, *noise]:
        current = limit(current, level * (1 + 0.09 * part), 0.1)
        limits.append(current)
    assert len(set(limits)) == 1


def test_the_axis_shrinks_only_after_a_real_fall() -> None:
    assert limit(160.0, 70.0, 10.0) == 160.0
    assert limit(160.0, 32.0, 10.0) == 40.0
    assert limit(160.0, None, 10.0) == 160.0
    assert limit(None, None, 10.0) == 10.0


def test_labels_fit_the_gutter() -> None:
    assert [label(value) for value in (0.5, 75.0, 150.0, 1500.0, 16_000.0, 1.2e6)] == [
        "0.5", "75", "150", "1.5k", "16k", "1.2M",
    ]  # fmt: skip


@given(st.floats(min_value=0.1, max_value=9e8))
def test_every_limit_and_its_half_fit_the_gutter(value: float) -> None:
    assert len(label(round_up(value))) <= 4
    assert len(label(round_up(value) / 2)) <= 4


def test_ticks_are_round_local_times() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    assert time_ticks(NOON - 300, NOON, zone, 5) == [
        (NOON - 300, "17:25"),
        (NOON - 240, "17:26"),
        (NOON - 180, "17:27"),
        (NOON - 120, "17:28"),
        (NOON - 60, "17:29"),
    ]
    assert time_ticks(NOON - 60, NOON, timezone.utc, 3)[0] == (NOON - 60, "11:59:00")
    assert time_ticks(NOON, NOON, timezone.utc, 3) == []
