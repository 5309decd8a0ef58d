"""What the engine's own mouths add: queue and context where nothing better tells them, differences, retractions."""

from collections.abc import Callable
from typing import Any

import pytest

from ddwatch.core.engine import EngineMetrics, ForwardPass, RankMetrics
from ddwatch.core.history import EVENTS_KEPT
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import Loads, RankLoad, ServerStart
from ddwatch.core.snapshot import Event, Snapshot
from tests.core.lines import decode, start


class Page:
    """A server whose counters go on, and whose page is read."""

    def __init__(self, monitor: Monitor, **gauges: Any) -> None:
        self.monitor = monitor
        self.counters = {"decode_tokens": 1000.0, "prefill_tokens": 500.0, "graph_passes": 100.0, "plain_passes": 0.0}
        self.gauges: dict[str, Any] = {"running": 2, "queued": 1, "total_context_tokens": 4000, "accept_length": 3.0}
        self.gauges |= gauges
        self.at = 0.0

    def run(self, seconds: float, rate: float = 100.0, beside: Callable[[float], None] | None = None) -> Snapshot:
        """Lets it generate, its page read every 5 s."""
        end = self.at + seconds
        while self.at < end:
            self.at += 5.0
            self.counters["decode_tokens"] += 5.0 * rate
            self.counters["graph_passes"] += 5.0 * rate / 6.0
            if beside is not None:
                beside(self.at)
            self.read()
        return self.monitor.at(self.at + 0.5)

    def read(self) -> None:
        values: dict[str, Any] = {**self.gauges, **self.counters}
        ranks = (RankMetrics(dp_rank=0, **values),)
        self.monitor.accept(EngineMetrics(at=self.at, ranks=ranks), "metrics")


def watched() -> Monitor:
    return Monitor(started_at=0.0)


def events(monitor: Monitor) -> list[Event]:
    return list(monitor.history().events)


def test_alone_it_shows_what_runs_and_judges_nothing() -> None:
    monitor = watched()
    snapshot = Page(monitor).run(60.0)
    now = snapshot.now
    assert (now.provenance, now.batch, now.queued) == ("metrics", 2, 1)
    assert now.throughput == pytest.approx(100.0)
    assert (now.total_context_tokens, now.context_tokens, now.accept_length) == (4000, 2000.0, 3.0)
    assert now.step_seconds is None
    assert (snapshot.ratio, snapshot.expected) == (None, None)
    assert snapshot.verdict.name == "learning"
    assert "/metrics" in snapshot.verdict.sentence
    assert any(point.throughput == pytest.approx(100.0) for point in monitor.history().points)
    assert monitor.tallies().step_seconds == {}
    assert snapshot.engine is not None
    assert snapshot.engine.decode_tokens_per_second == pytest.approx(100.0)
    assert snapshot.engine.graph_ratio == 1.0


def test_at_rest_its_gauges_that_stand_still_are_not_believed() -> None:
    monitor = watched()
    page = Page(monitor)
    page.run(40.0)
    page.gauges |= {"running": 0, "queued": 0}
    snapshot = page.run(40.0, rate=0.0)
    assert snapshot.verdict.name == "idle"
    assert snapshot.now.total_context_tokens is None
    assert snapshot.engine is not None
    assert snapshot.engine.total_context_tokens is None
    assert snapshot.engine.decode_tokens_per_second is None


def test_gauges_of_an_engine_that_no_longer_moves_are_no_sign_of_life() -> None:
    monitor = watched()
    page = Page(monitor)
    page.run(40.0)
    snapshot = page.run(120.0, rate=0.0)
    assert snapshot.now.throughput is None
    assert snapshot.verdict.name not in ("idle", "as-expected")


def test_log_lines_are_better_and_what_they_leave_out_is_filled_in() -> None:
    monitor = watched()

    def line(at: float) -> None:
        monitor.accept(decode(at, running=2, tokens=None, queued=None, accept=3.0, throughput=100.0))

    snapshot = Page(monitor).run(60.0, beside=line)
    assert snapshot.now.provenance == "log"
    assert (snapshot.now.total_context_tokens, snapshot.now.queued) == (4000, 1)
    assert monitor.drain()[-1].total_context_tokens is None, "what is judged and kept is the line as it is"


def test_a_lasting_difference_in_tokens_per_second_is_told_once() -> None:
    monitor = watched()

    def line(at: float) -> None:
        monitor.accept(decode(at, running=2, tokens=4000, accept=3.0, throughput=60.0))

    Page(monitor).run(300.0, beside=line)
    told = [event for event in events(monitor) if "tokens per second by log" in event.text]
    assert len(told) == 1
    assert "-40 %" in told[0].text
    assert told[0].severity == "notice"


def test_a_rate_over_a_minute_is_compared_with_the_same_minute() -> None:
    """A text that becomes harder makes the newest line slower than the mean of the minute before it."""
    monitor = watched()
    page, rate = Page(monitor), 140.0

    def line(at: float) -> None:
        monitor.accept(decode(at, running=2, tokens=4000, accept=rate / 40.0, throughput=rate))

    for rate in (140.0, 60.0, 140.0, 60.0):
        page.run(70.0, rate=rate, beside=line)
    assert [event.text for event in events(monitor) if event.kind == "source"] == []


def test_shared_prefixes_are_told_as_such() -> None:
    monitor = watched()

    def line(at: float) -> None:
        monitor.accept(decode(at, running=2, tokens=25_000, accept=3.0, throughput=100.0))

    Page(monitor, total_context_tokens=40_000).run(300.0, beside=line)
    (told,) = [event for event in events(monitor) if "total context" in event.text]
    assert "-38 %" in told.text or "-37 %" in told.text
    assert "share prefixes" in told.text
    assert told.severity == "ok"


def test_requests_that_come_and_go_between_two_readings_are_no_shared_prefix() -> None:
    """As many run as before, and others: the load is as old as its poll, the page is newer."""
    monitor = watched()
    page = Page(monitor, running=2, total_context_tokens=40_000)

    def line(at: float) -> None:
        page.gauges["total_context_tokens"] = 40_000 if at % 10 else 60_000
        page.counters["prefill_tokens"] += 30_000
        monitor.accept(decode(at, running=2, tokens=30_000, accept=3.0, throughput=100.0))

    page.run(300.0, beside=line)
    assert [event.text for event in events(monitor) if "total context" in event.text] == []


def test_a_prompt_that_is_computed_meanwhile_leaves_a_pass_uncompared() -> None:
    monitor = watched()
    passes = Passes(monitor)
    for i in range(300):
        monitor.accept(decode(1.0 * i, tokens=30_000, throughput=100.0))
        passes.prefill(1.0 * i + 0.5)
        passes.decode(1.0 * i + 0.6, context=40_000)
    assert [event.text for event in events(monitor) if "total context" in event.text] == []


def test_a_pass_that_tells_of_more_context_than_the_pool_is_told() -> None:
    monitor = watched()
    passes = Passes(monitor)
    for i in range(300):
        monitor.accept(decode(1.0 * i, tokens=30_000, throughput=100.0))
        passes.decode(1.0 * i + 0.6, context=40_000)
    (told,) = [event for event in events(monitor) if "total context" in event.text]
    assert "forward passes: requests share prefixes" in told.text


def test_a_short_context_changes_too_fast_to_be_compared() -> None:
    monitor = watched()

    def line(at: float) -> None:
        monitor.accept(decode(at, running=2, tokens=2500, accept=3.0, throughput=100.0))

    Page(monitor).run(300.0, beside=line)
    assert [event for event in events(monitor) if "total context" in event.text] == []


def test_witnesses_that_agree_say_nothing() -> None:
    monitor = watched()

    def line(at: float) -> None:
        monitor.accept(decode(at, running=2, tokens=39_000, accept=3.0, throughput=98.0))

    Page(monitor, total_context_tokens=40_000).run(600.0, beside=line)
    assert [event for event in events(monitor) if event.kind == "source"] == []


def test_the_load_is_the_better_witness_of_the_queue() -> None:
    monitor = watched()

    def load(at: float) -> None:
        told = RankLoad(dp_rank=0, running=4, queued=7, used_tokens=100, max_total_tokens=1000)
        monitor.accept(Loads(at=at, source="loads", ranks=(told,)))

    assert Page(monitor).run(30.0, beside=load).now.queued == 7


def test_retractions_that_the_log_did_not_tell_are_told() -> None:
    monitor = watched()
    page = Page(monitor)
    page.run(20.0)
    page.gauges["retracted"] = 3.0
    page.run(10.0)
    (told,) = [event for event in events(monitor) if event.kind == "retract"]
    assert "3 requests" in told.text


def test_counters_that_begin_anew_are_a_restart_and_no_rate() -> None:
    monitor = watched()
    page = Page(monitor)
    page.run(40.0)
    page.counters = dict.fromkeys(page.counters, 1.0)
    page.read()
    assert any("begin anew" in event.text for event in events(monitor))
    snapshot = monitor.at(page.at + 0.5)
    assert snapshot.engine is not None
    assert snapshot.engine.decode_tokens_per_second is None
    page.run(60.0)
    assert all(point.throughput is None or point.throughput > 0 for point in monitor.history().points)


def test_an_old_page_is_not_shown() -> None:
    monitor = watched()
    page = Page(monitor)
    page.run(20.0)
    assert monitor.at(page.at + 14.0).engine is not None
    assert monitor.at(page.at + 16.0).engine is None


class Passes:
    """A rank that publishes its passes."""

    def __init__(self, monitor: Monitor, dp: int = 0) -> None:
        self.monitor = monitor
        self.dp = dp
        self.counter = 0

    def decode(self, at: float, seconds: float = 0.015, requests: int = 1, context: int = 1000) -> None:
        self._say(
            ForwardPass(
                at=at,
                dp_rank=self.dp,
                counter=self.counter,
                seconds=seconds,
                decode_requests=requests,
                decode_context_tokens=context,
            )
        )

    def prefill(self, at: float, seconds: float = 0.2, tokens: int = 8000) -> None:
        self._say(
            ForwardPass(
                at=at,
                dp_rank=self.dp,
                counter=self.counter,
                seconds=seconds,
                prefill_requests=1,
                prefill_tokens=tokens,
            )
        )

    def heartbeat(self, at: float) -> None:
        self._say(ForwardPass(at=at, dp_rank=self.dp, counter=self.counter, seconds=0.0))

    def _say(self, one: ForwardPass) -> None:
        self.monitor.accept(one, "fpm")
        self.counter += 1


def test_passes_are_shown_and_counted_and_never_judged() -> None:
    monitor = watched()
    passes = Passes(monitor)
    for i in range(500):
        at = 0.02 * i
        passes.decode(at)
        if i % 10 == 0:
            monitor.accept(decode(at, step=0.020, tokens=1000))
    snapshot = monitor.at(10.0)
    assert snapshot.now.provenance == "log"
    assert snapshot.now.span == "step"
    assert snapshot.now.step_seconds == pytest.approx(0.020)
    assert snapshot.forward is not None
    assert snapshot.forward.forward_seconds == pytest.approx(0.015)
    assert snapshot.forward.wait_seconds == pytest.approx(0.005)
    tallies = monitor.tallies()
    (key,) = [key for key in tallies.step_seconds if key.span == "forward"]
    assert (key.provenance, key.resolution, key.dp_rank) == ("fpm", "step", None)
    assert sum(tallies.step_seconds[key].counts) == 500
    assert tallies.steps == {None: 500}, "a pass counts a step, and its line does not count it again"
    assert all(point.step_seconds == pytest.approx(0.020) for point in monitor.history().points)
    drained = monitor.drain()
    assert sum(sample.span == "forward" for sample in drained) == 500


def test_lost_passes_are_a_gap_of_their_source_and_contaminate_no_line() -> None:
    monitor = watched()
    passes = Passes(monitor)
    monitor.accept(decode(0.0))
    monitor.accept(decode(1.0, tokens=1030))
    passes.decode(1.1)
    passes.counter += 12
    passes.decode(1.5)
    monitor.accept(decode(2.0, tokens=1060))
    assert monitor.drain()[-1].clean
    snapshot = monitor.at(2.5)
    (source,) = [one for one in snapshot.sources if one.name == "fpm"]
    assert source.gaps == 1
    assert snapshot.forward is not None
    assert snapshot.forward.lost == 12
    assert any("12 forward passes did not arrive" in event.text for event in events(monitor))


def test_heartbeats_tell_idle_from_silent_where_only_the_log_is_read() -> None:
    monitor = watched()
    passes = Passes(monitor)
    for i in range(20):
        monitor.accept(decode(0.5 * i, tokens=1000 + i))
        passes.decode(0.5 * i)
    for second in range(12, 80):
        passes.heartbeat(float(second))
    assert monitor.at(80.0).verdict.name == "idle"


def test_two_ranks_are_kept_apart() -> None:
    monitor = watched()
    both = Passes(monitor, 0), Passes(monitor, 1)
    for i in range(100):
        for one in both:
            monitor.accept(decode(0.02 * i, dp=one.dp))
            one.decode(0.02 * i, seconds=0.010 + 0.010 * one.dp)
    keys = {key.dp_rank for key in monitor.tallies().step_seconds if key.span == "forward"}
    assert keys == {0, 1}
    snapshot = monitor.at(2.0)
    assert snapshot.forward is not None
    assert snapshot.forward.ranks == 2


def test_a_restart_begins_anew() -> None:
    monitor = watched()
    monitor.accept(start(0.0, model_path="m"))
    passes = Passes(monitor)
    for i in range(10):
        passes.decode(0.02 * i)
        monitor.accept(decode(0.02 * i))
    monitor.accept(ServerStart(at=5.0, arguments={"model_path": "m"}))
    assert monitor.at(5.0).forward is None


def test_what_is_told_again_and_again_stays_bounded() -> None:
    monitor = watched()
    passes = Passes(monitor)
    for i in range(2000):
        passes.counter += 3
        passes.decode(0.5 * i)
    assert len(events(monitor)) <= EVENTS_KEPT
    assert len([event for event in events(monitor) if event.kind == "gap"]) <= 20
