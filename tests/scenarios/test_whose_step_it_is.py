"""A service whose every step becomes 4.9 ms longer: forward passes say whether the CPU takes them or the GPU."""

import pytest

from ddwatch.core.engine import ForwardPass
from ddwatch.core.expecting import Expecting
from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch
from ddwatch.core.snapshot import Snapshot
from tests.core.detection.traffic import truth
from tests.scenarios import service

BEGIN, CHANGE, END = 1_700_000_000.0, 120.0, 300.0
HEALTHY_WAIT = 0.0004
"""What the CPU takes of each step while nothing is wrong."""


def played(offset_ms: float, gpu_share: float) -> Snapshot:
    """Two minutes of healthy steps and three of longer ones, of whose excess the GPU takes a share."""
    monitor = Monitor(started_at=BEGIN, expecting=Expecting(given=service.learned((5.2,))))
    reader, counter = LogReader(None, BEGIN), 0
    healthy = service.Work(until=CHANGE, context=(1500, 12000))
    longer = service.Work(at=CHANGE, until=END, context=(1500, 12000), offset_ms=offset_ms, seed=2)
    for work in (healthy, longer):
        for at, line in service.lines(work, BEGIN):
            for record in reader.read(f"[TP0] {line}".encode(), at, None):
                monitor.accept(record)
                if not isinstance(record, DecodeBatch):
                    continue
                total = record.total_context_tokens or 0
                forward = truth(1, total) - HEALTHY_WAIT + gpu_share * work.offset_ms / 1000.0
                for step in range(work.interval):
                    passed = ForwardPass(
                        at=at - 0.05 * (work.interval - 1 - step) / work.interval,
                        dp_rank=0,
                        counter=counter,
                        seconds=forward,
                        decode_requests=1,
                        decode_context_tokens=total,
                    )
                    monitor.accept(passed, "fpm")
                    counter += 1
            monitor.verdicts(at)
    return monitor.at(BEGIN + END)


def test_the_cpu_takes_the_time() -> None:
    snapshot = played(4.9, gpu_share=0.0)
    assert snapshot.verdict.name == "slow-step"
    assert snapshot.verdict.cause is not None
    assert "CPU-bound: the GPU waits 5." in snapshot.verdict.cause
    assert any("py-spy" in step for step in snapshot.verdict.next_steps)
    assert snapshot.forward is not None
    assert snapshot.forward.wait_seconds == pytest.approx(0.0053, abs=0.004), "of the newest line alone"


def test_the_gpu_takes_the_time() -> None:
    snapshot = played(4.9, gpu_share=1.0)
    assert snapshot.verdict.name == "slow-step"
    assert snapshot.verdict.cause is not None
    assert "the GPU's own forward pass takes" in snapshot.verdict.cause
    assert "CPU-bound" not in snapshot.verdict.cause


def test_a_service_without_a_longer_step_is_told_nothing() -> None:
    snapshot = played(0.0, gpu_share=0.0)
    assert snapshot.verdict.name == "as-expected"
    assert snapshot.verdict.cause is None
