"""Records in, one snapshot out: the same records and the same time give the same snapshot."""

import pytest

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import (
    Crash,
    Gap,
    GraphSizes,
    JitCompile,
    LinesSeen,
    LoadProgress,
    PoolSized,
    Rank,
    Record,
    Retraction,
    Rotation,
    SelfReading,
    ServerReady,
    ServerStop,
    SourceFault,
    SourceUp,
    SpeculationSetup,
    Unread,
    Xid,
)
from ddwatch.core.snapshot import Snapshot
from tests.core.lines import decode, last_of_request, prefill, start


def watched(*records: Record, started_at: float = 0.0) -> Monitor:
    monitor = Monitor(started_at=started_at, version="1.2.3")
    for record in records:
        monitor.accept(record)
    return monitor


def texts(monitor: Monitor) -> list[str]:
    return [event.text for event in monitor.history().events]


def kinds(monitor: Monitor) -> list[str]:
    return [event.kind for event in monitor.history().events]


def verdict(monitor: Monitor, now: float) -> str:
    return monitor.at(now).verdict.name


def steady(begin: int = 0, end: int = 10, step: float = 0.03) -> list[Record]:
    return [decode(float(i), tokens=1000 + i, step=step) for i in range(begin, end)]


def test_before_anything_arrives_everything_is_absent_and_the_verdict_is_blind() -> None:
    snapshot = watched().at(1.0)
    assert snapshot.now.throughput is None
    assert snapshot.ranks == ()
    assert snapshot.verdict.name == "blind"
    assert "waiting for the first batch line" in snapshot.verdict.sentence


def test_a_steady_service_without_a_model_is_learning_with_its_numbers() -> None:
    snapshot = watched(*steady()).at(10.0)
    assert snapshot.verdict.name == "learning"
    assert snapshot.now.throughput == pytest.approx(100.0)
    assert snapshot.now.step_seconds == pytest.approx(0.03)
    assert snapshot.window.clean == 9
    assert snapshot.window.clean_ratio == pytest.approx(0.9)


def test_the_same_records_and_time_give_an_equal_snapshot() -> None:
    def told() -> Snapshot:
        monitor = watched(start(0), *steady(1), Gap(at=11, source="log", reason="lost", detail="x"))
        monitor.at(5.0)
        return monitor.at(12.0)

    assert told() == told()


def test_a_point_is_closed_when_its_second_is_over() -> None:
    monitor = watched(*steady(0, 3))
    assert [p.at for p in monitor.history().points] == [0.0, 1.0]
    monitor.at(3.1)
    points = monitor.history().points
    assert [p.at for p in points] == [0.0, 1.0, 2.0]
    assert [p.contaminated for p in points] == [True, False, False]


def test_the_snapshot_names_the_newest_history_item() -> None:
    monitor = watched(*steady())
    snapshot = monitor.at(10.0)
    assert snapshot.seq == max(p.seq for p in monitor.history().points)
    assert monitor.history(snapshot.seq).points == ()


def test_after_the_last_request_the_service_is_idle_and_not_slow() -> None:
    monitor = watched(*steady(), last_of_request(10.0))
    assert verdict(monitor, 11.0) == "learning"
    assert verdict(monitor, 12.5) == "idle"
    snapshot = monitor.at(400.0)
    assert snapshot.verdict.name == "idle"
    assert snapshot.verdict.since == 10.0
    assert (snapshot.now.batch, snapshot.now.throughput) == (0, None)
    assert monitor.history().points[-1].state == "idle"


def test_silence_while_requests_run_is_blind_and_never_idle() -> None:
    monitor = watched(*steady())
    assert verdict(monitor, 30.0) == "learning"
    snapshot = monitor.at(45.0)
    assert snapshot.verdict.name == "blind"
    assert "1 running" in snapshot.verdict.sentence
    assert snapshot.verdict.since == 9.0
    assert monitor.history().points[-1].state == "gap"
    assert kinds(monitor)[-1] == "verdict"
    monitor.accept(decode(46.0, tokens=1400))
    assert verdict(monitor, 46.5) == "learning"
    assert texts(monitor)[-1].startswith("learning")


def test_prefill_without_decode_is_not_silence() -> None:
    monitor = watched(*steady(), *(prefill(float(t), running=1, tokens=8192) for t in range(10, 300, 5)))
    snapshot = monitor.at(296.0)
    assert snapshot.verdict.name == "starved"
    assert snapshot.verdict.severity == "notice"
    assert snapshot.verdict.next_steps


def test_only_prefill_so_far_says_so() -> None:
    assert "prefill" in watched(prefill(1.0)).at(2.0).verdict.sentence


def test_a_log_without_batch_lines_is_suspected() -> None:
    monitor = watched(LinesSeen(at=1.0, source="x.log", lines=300))
    assert "no batch line in 300 lines" in monitor.at(2.0).verdict.sentence
    few = watched(LinesSeen(at=1.0, source="x.log", lines=3))
    assert "waiting" in few.at(2.0).verdict.sentence
    assert "no batch line in 3 lines" in few.at(20.0).verdict.sentence


def test_unread_batch_lines_blind_and_are_counted() -> None:
    unread = [Unread(at=10.0 + i, head="Decode batch", example="#running-req: #") for i in range(6)]
    monitor = watched(*steady(), *unread)
    snapshot = monitor.at(17.0)
    assert snapshot.verdict.name == "blind"
    assert "6 of the last 16" in snapshot.verdict.sentence
    assert snapshot.sources[0].unread == 6
    assert monitor.tallies().lines_unread == {"log": 6}
    assert kinds(monitor).count("unread") == 1
    assert snapshot.unread_examples[-1].example == "#running-req: #"


def test_a_few_unread_lines_do_not_blind() -> None:
    monitor = watched(*steady(), Unread(at=10.0, head="Decode batch", example="#x: #"))
    assert verdict(monitor, 11.0) == "learning"


def test_all_windows_mixed_blinds_with_the_remedy() -> None:
    mixed: list[Record] = []
    for i in range(40):
        mixed += [prefill(i + 0.5, running=1), decode(i + 1.0, tokens=1000 + i)]
    snapshot = watched(*mixed).at(41.0)
    assert snapshot.verdict.name == "blind"
    assert "all windows mixed" in snapshot.verdict.sentence
    assert "prefill" in snapshot.verdict.sentence
    assert "decode-log-interval 1" in snapshot.verdict.next_steps[0]


def test_a_start_is_told_from_loading_to_ready_to_warm() -> None:
    monitor = watched(
        start(
            0.0, served_model_name="kimi", speculative_algorithm="DDTREE", tp_size=8, port=30000, context_length=65536
        ),
        SpeculationSetup(at=1.0, algorithm="DDTREE", block_size=16, tree_budget=32),
        LoadProgress(at=2.0, phase="weights-begin"),
        GraphSizes(at=3.0, sizes=(1, 2, 4)),
        PoolSized(at=4.0, max_total_tokens=2_000_000, context_limit=None),
    )
    loading = monitor.at(300.0)
    assert loading.verdict.name == "warming"
    assert loading.server.state == "starting"
    monitor.accept(ServerReady(at=598.0))
    ready = monitor.at(610.0)
    assert ready.verdict.name == "idle"
    server = ready.server
    assert (server.model, server.algorithm, server.tree_budget, server.block_size) == ("kimi", "DDTREE", 32, 16)
    assert (server.tp, server.address, server.context_limit) == (8, "127.0.0.1:30000", 65536)
    assert server.graph_sizes == (1, 2, 4)
    assert server.max_total_tokens == 2_000_000
    assert "ready after 9 min 58 s" in texts(monitor)
    monitor.accept(prefill(700.0))
    monitor.accept(decode(701.0))
    assert verdict(monitor, 701.5) == "warming"
    for i in range(14):
        monitor.accept(decode(702.0 + i, tokens=1001 + i))
    assert verdict(monitor, 716.5) == "learning"


def test_a_restart_is_an_event_with_the_changed_arguments() -> None:
    before: dict[str, str | int] = {"served_model_name": "kimi", "port": 30000}
    monitor = watched(start(0.0, **before), ServerReady(at=10.0), *steady(20, 40))
    monitor.accept(start(100.0, **before, tool_call_parser="kimi_k2"))
    snapshot = monitor.at(101.0)
    assert snapshot.server.restarts == 1
    assert snapshot.ranks == ()
    assert snapshot.now.throughput is None
    told = [text for text in texts(monitor) if text.startswith("restart")]
    assert len(told) == 1
    assert "tool_call_parser" in told[0]
    assert monitor.history().points[-1].state == "gap"
    assert monitor.tallies().restarts == 1


def test_a_restart_with_equal_arguments_says_so_and_a_repeated_announcement_is_none() -> None:
    monitor = watched(start(0.0, port=1), start(1.0, port=1), ServerReady(at=5.0), start(50.0, port=1))
    assert monitor.at(51.0).server.restarts == 1
    assert "restart: same arguments" in texts(monitor)


def test_a_restart_whose_former_arguments_were_not_seen() -> None:
    monitor = watched(*steady(), start(50.0, port=1))
    assert "restart: its arguments before were not seen" in texts(monitor)
    loading = watched(*steady(), LoadProgress(at=50.0, phase="weights-begin"))
    assert loading.at(51.0).server.restarts == 1
    first = watched(
        LoadProgress(at=5.0, phase="weights-begin"), LoadProgress(at=6.0, phase="weights-end", model_type="X")
    )
    assert (first.at(7.0).server.restarts, first.at(7.0).server.model) == (0, "X")


def test_signs_of_one_crash_are_one_event_with_the_best_reason() -> None:
    monitor = watched(
        *steady(),
        Crash(at=10.0, kind="sigquit"),
        Crash(at=10.0, kind="exception", rank=Rank(tp=3), reason="RuntimeError: NPU out of memory"),
        Crash(at=10.5, kind="exception", rank=Rank(tp=1), reason="RuntimeError: other"),
    )
    snapshot = monitor.at(11.0)
    assert snapshot.server.state == "crashed"
    assert snapshot.verdict.name == "blind"
    assert "NPU out of memory" in snapshot.verdict.sentence
    crashes = [e for e in monitor.history().events if e.kind == "crash"]
    assert [(e.severity, e.count) for e in crashes] == [("page", 1)]
    assert "NPU out of memory" in crashes[0].text
    monitor.accept(decode(12.0, tokens=1200))
    assert monitor.at(12.5).server.state == "unknown"


def test_a_crash_after_a_restart_is_another_incident() -> None:
    monitor = watched(Crash(at=1.0, kind="sigquit"), start(5.0), Crash(at=9.0, kind="watchdog"))
    assert kinds(monitor).count("crash") == 2


def test_sixteen_ranks_that_retract_at_once_are_one_event() -> None:
    retractions = [Retraction(at=10.0, rank=Rank(tp=i), requests=1) for i in range(16)]
    monitor = watched(*steady(), *retractions)
    told = [e for e in monitor.history().events if e.kind == "retract"]
    assert [(e.count, e.text) for e in told] == [(1, "KV pool full: 1 request sent back to the queue")]
    monitor.accept(Retraction(at=30.0))
    assert [e.count for e in monitor.history().events if e.kind == "retract"] == [2]


def test_a_stop_on_request_is_told_once() -> None:
    monitor = watched(*steady(), ServerStop(at=10.0), ServerStop(at=10.1))
    assert kinds(monitor) == ["stop"]
    assert "stops" in monitor.at(11.0).verdict.sentence


def test_trouble_on_the_timeline() -> None:
    monitor = watched(
        *steady(),
        JitCompile(at=10.0, what="_fwd_kernel"),
        JitCompile(at=11.0, what="_other"),
        Xid(at=12.0, code=79, pci_bus="0000:44:00"),
        Xid(at=12.0, code=45, pci_bus="0000:dc:00", previous_code=149),
        Xid(at=13.0, code=None, pci_bus="0000:b3:00.0"),
        SpeculationSetup(at=14.0, warning="falling back to flashinfer"),
    )
    assert kinds(monitor) == ["jit", "xid", "xid", "xid", "speculation"]
    assert "consequence of Xid 149" in texts(monitor)[2]
    assert verdict(monitor, 14.5) == "warming"


def test_a_gap_is_counted_drawn_and_told() -> None:
    monitor = watched(*steady(), Gap(at=10.0, source="x.log", reason="truncated", detail="x.log was truncated"))
    assert monitor.history().points[-1].state == "gap"
    assert monitor.at(11.0).sources[0].gaps == 1
    assert monitor.tallies().gaps == {"x.log": 1}
    monitor.accept(decode(12.0, tokens=2000))
    monitor.at(13.0)
    assert monitor.history().points[-1].contaminated


def test_missing_forward_passes_are_a_gap_on_the_timeline_and_a_counter() -> None:
    monitor = watched(*(decode(float(i), iteration=40 * (i + 1), tokens=1000 + i) for i in range(5)))
    monitor.accept(decode(5.0, iteration=484, tokens=1400))
    assert monitor.tallies().gaps == {"log": 1}
    assert [event.kind for event in monitor.history().events] == ["gap"]
    assert monitor.at(5.5).sources[0].gaps == 1


def test_a_lost_source_blinds_with_its_sentence_and_comes_back() -> None:
    monitor = watched(*steady(), LinesSeen(at=10.0, source="x.log", lines=10))
    monitor.accept(SourceFault(at=11.0, source="x.log", reason="x.log is gone"))
    monitor.accept(SourceFault(at=12.0, source="x.log", reason="x.log is gone"))
    snapshot = monitor.at(12.0)
    assert (snapshot.verdict.name, snapshot.verdict.sentence) == ("blind", "x.log is gone")
    assert kinds(monitor).count("source") == 1
    monitor.accept(SourceUp(at=13.0, source="x.log"))
    monitor.accept(LinesSeen(at=13.0, source="x.log", lines=1))
    monitor.accept(Rotation(at=13.5, source="x.log", detail="x.log was rotated"))
    snapshot = monitor.at(14.0)
    assert snapshot.verdict.name == "learning"
    assert (snapshot.sources[0].lines, snapshot.sources[0].rotations, snapshot.sources[0].last_at) == (11, 1, 13.0)
    assert monitor.tallies().lines_read == {"x.log": 11}


def test_a_source_that_has_not_appeared_is_waited_for_and_is_no_event() -> None:
    monitor = watched(SourceFault(at=1.0, source="x.log", reason="waiting for x.log", waiting=True))
    snapshot = monitor.at(2.0)
    assert snapshot.verdict.sentence == "waiting for x.log"
    assert snapshot.sources[0].state == "waiting"
    assert texts(monitor) == []
    monitor.accept(LinesSeen(at=3.0, source="x.log", lines=1))
    monitor.accept(decode(3.0))
    monitor.at(4.0)
    assert texts(monitor) == []


def test_an_idle_window_breaks_the_line_in_the_plot() -> None:
    monitor = watched(*steady(), prefill(300.0), decode(301.0, tokens=700))
    assert [p.state for p in monitor.history().points[-1:]] == ["idle"]


def test_ddwatch_tells_its_own_cost_and_whether_times_are_real() -> None:
    monitor = watched(SelfReading(at=1.0, cpu_ratio=0.004, resident_bytes=50_000_000))
    monitor.unstamped()
    snapshot = monitor.at(2.0)
    assert snapshot.watch.cpu_ratio == 0.004
    assert not snapshot.stamped
    assert snapshot.ddwatch_version == "1.2.3"


def test_a_verdict_keeps_the_time_it_began() -> None:
    monitor = watched(*steady())
    first = monitor.at(41.0).verdict.since
    assert monitor.at(80.0).verdict.since == first == 9.0


def test_a_slow_step_pages_with_its_numbers_its_cause_and_the_next_command_and_resolves() -> None:
    monitor = watched(*(decode(0.2 * i, tokens=1000 + i, accept=5.0, step=0.050) for i in range(300)))
    monitor.at(60.0)
    monitor.accept(Retraction(at=60.0, requests=1))
    for i in range(150):
        monitor.accept(decode(60.0 + 0.2 * i, tokens=1300, accept=5.0, step=0.081))
        monitor.at(60.0 + 0.2 * i)
    snapshot = monitor.at(90.0)
    verdict = snapshot.verdict
    assert (verdict.name, verdict.severity) == ("slow-step", "page")
    assert "31 ms" in verdict.sentence
    assert abs(verdict.since - 60.0) < 3.0
    assert verdict.cause is not None
    assert "KV pool" in verdict.cause
    assert verdict.next_steps
    assert snapshot.ratio == pytest.approx(0.05 / 0.081, rel=0.05)
    for i in range(150):
        monitor.accept(decode(90.2 + 0.2 * i, tokens=1300, accept=5.0, step=0.050))
        monitor.at(90.2 + 0.2 * i)
    assert monitor.at(120.4).verdict.name == "as-expected"
    told = [event.text for event in monitor.history().events if event.kind == "verdict"]
    assert [text.split(":")[0] for text in told] == ["slow-step", "as-expected"]


def test_slow_steps_are_never_learned() -> None:
    monitor = watched(*(decode(0.2 * i, tokens=1000 + i, accept=5.0, step=0.050) for i in range(300)))
    for i in range(900):
        monitor.accept(decode(60.0 + 0.2 * i, tokens=1300, accept=5.0, step=0.065))
        monitor.at(60.0 + 0.2 * i)
    assert monitor.at(240.2).verdict.name == "slow-step"


def test_nothing_seen_claims_no_prefill() -> None:
    seen = watched().at(1.0)
    assert "prefill" not in " ".join(verdict.sentence for verdict in (seen.verdict, *seen.notes))
