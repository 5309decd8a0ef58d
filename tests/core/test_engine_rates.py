"""Counters that rise in jumps become honest rates, and a fall is a restart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.engine import EngineMetrics, RankMetrics
from ddwatch.core.engine_rates import EngineRates, RankRate


def read(at: float, **values: float) -> EngineMetrics:
    return EngineMetrics(at=at, ranks=(RankMetrics(dp_rank=0, **values),))  # type: ignore[arg-type]


def seen(rates: EngineRates, metrics: EngineMetrics) -> RankRate:
    (rate,) = rates.see(metrics)
    return rate


def test_the_first_reading_says_nothing() -> None:
    rate = seen(EngineRates(), read(0.0, decode_tokens=1e6, retracted=5, graph_passes=9))
    assert (rate.moved, rate.decode_tokens_per_second, rate.retracted, rate.graph_ratio) == (False, None, 0, None)


def test_a_counter_that_jumps_every_four_seconds_is_read_as_its_mean() -> None:
    """100 tokens/s, counted in jumps of 400, looked at every 5 s."""
    rates = EngineRates()
    found = [seen(rates, read(t, decode_tokens=400.0 * (t // 4))) for t in range(0, 300, 5)]
    told = [rate for rate in found if rate.decode_tokens_per_second is not None]
    assert len(told) > 50
    for rate in told:
        assert rate.error is not None
        assert rate.decode_tokens_per_second == pytest.approx(100.0, rel=rate.error + 0.01)
    last = told[-1]
    assert last.error is not None
    assert last.error < 0.1
    assert not last.prefilled


def test_what_stands_still_has_no_rate() -> None:
    rates = EngineRates()
    for t in range(0, 30, 5):
        rate = seen(rates, read(t, decode_tokens=10.0 * t, running=1))
    assert rate.decode_tokens_per_second == pytest.approx(10.0)
    for t in range(30, 60, 5):
        rate = seen(rates, read(t, decode_tokens=250.0, running=1))
    assert rate.decode_tokens_per_second is None
    assert not rate.moved


def test_a_prefill_within_the_stretch_is_told() -> None:
    rates = EngineRates()
    for t in range(0, 40, 5):
        rate = seen(rates, read(t, decode_tokens=10.0 * t, prefill_tokens=0.0 if t < 20 else 800.0))
    assert rate.prefilled
    for t in range(40, 120, 5):
        rate = seen(rates, read(t, decode_tokens=10.0 * t, prefill_tokens=800.0))
    assert not rate.prefilled


@pytest.mark.parametrize("name", ["decode_tokens", "prefill_tokens", "graph_passes", "plain_passes"])
def test_a_counter_that_falls_is_a_restart_and_no_rate(name: str) -> None:
    rates = EngineRates()
    for t in range(0, 30, 5):
        seen(rates, read(t, **{"decode_tokens": 10.0 * t, name: 10.0 * t + 5}))
    rate = seen(rates, read(30.0, **{"decode_tokens": 300.0, name: 1.0}))
    assert rate.restarted
    assert rate.decode_tokens_per_second is None
    assert rate.retracted == 0
    after = seen(rates, read(35.0, **{"decode_tokens": 400.0, name: 2.0}))
    assert not after.restarted


def test_graphs_and_retractions_are_counted_since_the_last_reading() -> None:
    rates = EngineRates()
    seen(rates, read(0.0, graph_passes=100.0, plain_passes=0.0))
    rate = seen(rates, read(5.0, graph_passes=130.0, plain_passes=10.0, retracted=3.0))
    assert rate.graph_ratio == pytest.approx(0.75)
    assert rate.retracted == 3, "the counter appears with its first count"
    rate = seen(rates, read(10.0, graph_passes=130.0, plain_passes=10.0, retracted=3.0))
    assert (rate.graph_ratio, rate.retracted) == (None, 0)


def test_ranks_are_kept_apart_and_forgotten_when_they_go() -> None:
    rates = EngineRates()
    both = tuple(RankMetrics(dp_rank=dp, decode_tokens=100.0 * dp) for dp in (1, 2))
    assert [rate.reading.dp_rank for rate in rates.see(EngineMetrics(at=0.0, ranks=both))] == [1, 2]
    rates.see(EngineMetrics(at=5.0, ranks=both[:1]))
    (_, second) = rates.see(EngineMetrics(at=10.0, ranks=(both[0], RankMetrics(dp_rank=2, decode_tokens=1.0))))
    assert not second.restarted


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=40))
def test_no_rate_is_ever_negative(counts: list[float | None]) -> None:
    rates = EngineRates()
    for i, count in enumerate(counts):
        reading = RankMetrics(decode_tokens=count, retracted=count, graph_passes=count)
        (rate,) = rates.see(EngineMetrics(at=5.0 * i, ranks=(reading,)))
        assert rate.decode_tokens_per_second is None or rate.decode_tokens_per_second > 0
        assert rate.retracted >= 0
        assert rate.graph_ratio is None or 0 <= rate.graph_ratio <= 1
