"""SGLang's own port is the better witness: its moments are preferred, its load tells idle from silent."""

import pytest

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import GpuNames, Loads, RankLoad, Record, ServerInfo, ServerReady
from tests.core.lines import decode, start


class Port:
    """A server that adds up its steps and answers `/v1/loads`."""

    def __init__(self) -> None:
        self.sums = [0.0] * 6

    def ran(self, steps: int, seconds: float, accept: float = 3.0) -> None:
        micros = steps * seconds * 1e6
        for i, value in enumerate((steps, steps, micros, steps, micros, steps * accept)):
            self.sums[i] += value

    def read(self, at: float, running: int = 1, used: int = 1000, queued: int = 0) -> Loads:
        a, b, c, d, e, f = self.sums
        load = RankLoad(
            dp_rank=0,
            running=running,
            queued=queued,
            used_tokens=used,
            max_total_tokens=10_000,
            moments=(a, b, c, d, e, f),
        )
        return Loads(at=at, source="loads", ranks=(load,))


def watched(*records: Record) -> Monitor:
    monitor = Monitor(started_at=0.0)
    for record in records:
        monitor.accept(record)
    return monitor


def test_moments_are_preferred_to_log_lines_and_it_says_so() -> None:
    port = Port()
    monitor = watched(port.read(0.0))
    port.ran(40, 0.050)
    monitor.accept(decode(1.0, step=0.030))
    monitor.accept(decode(1.5, step=0.030, tokens=1010))
    monitor.accept(port.read(2.0))
    snapshot = monitor.at(2.5)
    assert snapshot.now.provenance == "moments"
    assert snapshot.now.step_seconds == pytest.approx(0.050)
    assert snapshot.now.throughput == pytest.approx(60.0)
    assert len(snapshot.ranks) == 1
    assert monitor.at(14.0).now.provenance in ("log", None)


def test_log_lines_do_not_enter_the_plots_while_moments_speak() -> None:
    port = Port()
    monitor = watched(port.read(0.0))
    port.ran(40, 0.050)
    monitor.accept(port.read(2.0))
    monitor.accept(decode(3.0, step=0.030))
    port.ran(40, 0.050)
    monitor.accept(port.read(4.0))
    monitor.at(5.0)
    assert [p.step_seconds for p in monitor.history().points] == [pytest.approx(0.050)] * 2
    assert monitor.tallies().steps == {None: 80}
    assert monitor.tallies().tokens == {None: pytest.approx(240.0)}


def test_the_load_tells_idle_from_silent() -> None:
    port = Port()
    monitor = watched(*(decode(float(i), tokens=1000 + i) for i in range(5)), port.read(6.0, running=0))
    assert monitor.at(7.0).verdict.name == "learning"
    monitor.accept(port.read(100.0, running=0))
    snapshot = monitor.at(101.0)
    assert snapshot.verdict.name == "idle"
    assert snapshot.now.batch == 0
    monitor.accept(port.read(102.0, running=2, queued=3))
    snapshot = monitor.at(102.5)
    assert snapshot.verdict.name == "learning"
    assert snapshot.now.queued == 3


def test_a_restart_seen_by_the_port_breaks_the_line() -> None:
    port, monitor = Port(), Monitor(started_at=0.0)
    port.ran(100, 0.03)
    monitor.accept(port.read(0.0))
    port.ran(100, 0.03)
    monitor.accept(port.read(2.0))
    monitor.accept(Port().read(4.0))
    assert monitor.history().points[-1].state == "gap"


def test_witnesses_that_differ_are_an_event() -> None:
    port = Port()
    monitor = watched(port.read(0.0))
    for round_ in range(1, 30):
        for i in range(5):
            monitor.accept(decode(2.0 * round_ - 1.5 + i * 0.2, step=0.030, tokens=1000 + 10 * round_ + i))
        port.ran(40, 0.050)
        monitor.accept(port.read(2.0 * round_))
    told = [e.text for e in monitor.history().events if e.kind == "source"]
    assert len(told) == 1
    assert "step time by the log is -40 %" in told[0]


def test_the_port_fills_in_what_the_log_did_not_say() -> None:
    info = ServerInfo(at=1.0, source="loads", version="0.5.23", arguments={"served_model_name": "kimi", "tp_size": 8})
    monitor = watched(decode(0.0), info, GpuNames(at=1.0, names=("RTX PRO 6000",) * 8))
    server = monitor.at(2.0).server
    assert (server.model, server.tp, server.version) == ("kimi", 8, "0.5.23")
    assert (server.gpu_name, server.gpu_count) == ("RTX PRO 6000", 8)
    assert monitor.at(2.0).server.restarts == 0


def test_a_version_told_before_the_past_is_read_is_kept() -> None:
    monitor = watched(ServerInfo(at=100.0, source="loads", version="0.5.23"), start(40.0, tp_size=8))
    assert monitor.at(101.0).server.version == "0.5.23"
    monitor.accept(start(200.0, tp_size=8))
    assert monitor.at(201.0).server.version is None


def test_changed_arguments_at_the_port_are_a_restart_that_the_log_did_not_show() -> None:
    monitor = watched(
        GpuNames(at=0.0, names=("A",)), start(0.0, tp_size=8, port=1), ServerReady(at=1.0), decode(2.0), decode(3.0)
    )
    monitor.accept(ServerInfo(at=4.0, source="loads", arguments={"tp_size": 8, "port": 1}))
    assert monitor.at(4.5).server.restarts == 0
    monitor.accept(ServerInfo(at=5.0, source="loads", arguments={"tp_size": 4, "port": 1}))
    snapshot = monitor.at(5.5)
    assert (snapshot.server.restarts, snapshot.server.tp, snapshot.server.gpu_count) == (1, 4, 1)
    assert snapshot.ranks == ()
    assert any(e.kind == "restart" and "tp_size" in e.text for e in monitor.history().events)
