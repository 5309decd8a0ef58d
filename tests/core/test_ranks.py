"""The total is the sum over live ranks; a rank that falls silent expires and is not counted as zero."""

import pytest

from ddwatch.core.positions import Positions
from ddwatch.core.ranks import LiveRanks
from ddwatch.core.records import DecodeBatch, PrefillBatch
from tests.core.lines import decode, last_of_request, prefill


def ranks_after(*records: DecodeBatch | PrefillBatch) -> LiveRanks:
    positions, ranks = Positions(), LiveRanks()
    for record in records:
        sample = positions.see(record)
        rank = ranks.of((record.rank.engine, record.rank.dp))
        if isinstance(record, PrefillBatch):
            rank.prefilled(record)
        elif sample is not None:
            rank.decoded(record, sample)
    return ranks


def test_nothing_is_known_of_no_ranks() -> None:
    ranks = LiveRanks()
    reading = ranks.reading(1.0)
    assert (reading.throughput, reading.batch, reading.at) == (None, None, None)
    assert ranks.idle_since() is None
    assert ranks.running() is None
    assert ranks.cadence() is None


def test_the_total_is_the_sum_of_the_newest_of_each_rank() -> None:
    ranks = ranks_after(
        *(decode(i, dp=0, running=2, tokens=2000 + i, queued=1) for i in range(3)),
        decode(2, dp=1, running=1, tokens=500, accept=6.0, queued=2),
    )
    now = ranks.reading(2.5)
    assert now.throughput == pytest.approx(2 * 3 / 0.03 + 6 / 0.03)
    assert now.batch == 3
    assert now.queued == 3
    assert now.accept_length == pytest.approx((2 * 3 + 6) / 3)
    assert now.context_tokens == pytest.approx(2502 / 3)
    assert now.flags == ("first",)
    assert [view.live for view in ranks.views(2.5)] == [True, True]


def test_a_silent_rank_expires_by_its_own_cadence() -> None:
    slow = [decode(i * 5, dp=0, tokens=1000 + i) for i in range(4)]
    quick = [decode(i, dp=1, tokens=1000 + i) for i in range(16)]
    ranks = ranks_after(*slow, *quick)
    at = 30.0
    assert [view.live for view in ranks.views(at)] == [True, False]
    assert ranks.reading(at).batch == 1
    assert set(ranks.carried(at)) == {(None, 0)}
    assert ranks.running() == 2


def test_contexts_are_unknown_when_one_of_them_is() -> None:
    ranks = ranks_after(decode(0, dp=0), decode(0, dp=1, tokens=20800, flaw="constant"))
    assert ranks.reading(0.5).context_tokens is None
    assert ranks.reading(0.5).batch == 2


def test_a_service_whose_requests_have_all_ended_is_idle_and_its_throughput_is_absent() -> None:
    ranks = ranks_after(decode(0), last_of_request(1))
    assert ranks.idle_since() == 1
    now = ranks.reading(2)
    assert (now.batch, now.throughput, now.at) == (0, None, 1)
    assert ranks.carried(2) == {}


def test_one_busy_rank_keeps_the_service_busy() -> None:
    ranks = ranks_after(decode(0, dp=0), decode(0, dp=1), last_of_request(1, dp=0))
    assert ranks.idle_since() is None
    assert ranks.reading(1.0).batch == 1


def test_a_prefill_ends_the_idle_time_and_a_health_probe_does_not() -> None:
    assert ranks_after(last_of_request(1), prefill(2)).idle_since() is None
    assert ranks_after(last_of_request(1), prefill(2, tokens=1)).idle_since() == 1
    assert ranks_after(prefill(2, tokens=1)).idle_since() == 2
    assert ranks_after(prefill(2, running=3, new=2)).running() == 5
    assert ranks_after(prefill(2, running=None)).running() is None


def test_the_reading_is_the_mean_of_the_clean_lines_of_the_last_seconds() -> None:
    ranks = ranks_after(
        *(decode(i / 10, tokens=1000 + i, accept=a) for i, a in enumerate((3.0, 1.0, 16.0, 1.0, 6.0))),
        decode(9.0, tokens=1100, accept=4.0),
    )
    assert ranks.reading(9.0).accept_length == 4.0
    lately = ranks_after(*(decode(i / 10, tokens=1000 + i, accept=a) for i, a in enumerate((3.0, 1.0, 16.0, 1.0, 6.0))))
    assert lately.reading(0.5).accept_length == pytest.approx(6.0)
    assert lately.reading(0.5).throughput == pytest.approx(6.0 / 0.03)


def test_a_contaminated_word_does_not_replace_the_clean_one_in_sums() -> None:
    ranks = ranks_after(
        decode(0), decode(1, tokens=1001), prefill(1.5, running=1), decode(2, tokens=1002, throughput=1)
    )
    (carried,) = ranks.carried(2.0).values()
    assert carried.throughput == pytest.approx(100.0)
    assert ranks.reading(2.0).throughput == pytest.approx(100.0)
    assert ranks.carried(30.0) == {}
    ranks.clear()
    assert ranks.views(2.0) == ()


def test_graphs_are_off_only_where_they_ran_before() -> None:
    positions, ranks = Positions(), LiveRanks()

    def line(at: float, graph: bool) -> None:
        record = DecodeBatch(at=at, running=1, total_context_tokens=900, accept_length=2.0, graph=graph)
        sample = positions.see(record)
        assert sample is not None
        ranks.of((None, None)).decoded(record, sample)

    line(1.0, False)
    line(2.0, False)
    assert ranks.graph_off_since(3.0) is None, "a server that was started without graphs"
    line(4.0, True)
    assert ranks.graph_off_since(4.5) is None
    line(5.0, False)
    line(6.0, False)
    assert ranks.graph_off_since(6.5) == 5.0
    ranks.clear()
    line(9.0, False)
    assert ranks.graph_off_since(9.5) == 9.0, "a server that ran with graphs before its restart"
