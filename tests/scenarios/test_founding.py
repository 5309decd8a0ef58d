"""The story that ddwatch exists for: throughput falls by more than four times and nothing is wrong."""

from datetime import timezone

from ddwatch.core.grammar import LogReader
from ddwatch.core.monitor import Monitor
from ddwatch.core.snapshot import Snapshot
from ddwatch.demo.scenarios import generate
from ddwatch.profiles.in_force import model_side

START = 1_777_636_800.0


def test_the_founding_story_ends_as_expected_although_throughput_falls_by_more_than_four_times() -> None:
    monitor = Monitor(started_at=START, expecting=model_side(None)())
    reader = LogReader(timezone.utc, START)
    verdicts: set[str] = set()
    readings: list[Snapshot] = []
    for at, line in generate("founding", 1, START, 900):
        for record in reader.read(line.encode(), None, None):
            monitor.accept(record)
        if not readings or at - readings[-1].at >= 1.0:
            readings.append(monitor.at(at))
            verdicts.add(readings[-1].verdict.name)
    last = monitor.at(START + 900)
    assert last.verdict.name == "as-expected"
    assert verdicts <= {"blind", "warming", "idle", "learning", "as-expected"}
    busy = [point for point in monitor.history().points if point.throughput is not None and not point.contaminated]
    remembered = sorted(point.throughput or 0.0 for point in busy[:200])[100]
    ending = sorted(point.throughput or 0.0 for point in busy[-60:])[30]
    assert remembered / ending > 4
    compared = [s for s in readings if s.ratio is not None and s.at > START + 840]
    assert compared
    for snapshot in compared:
        assert snapshot.ratio is not None and 0.75 < snapshot.ratio < 1.35
    final = compared[-1]
    assert final.reference is not None and final.factors is not None and final.expected is not None
    assert final.expected.low < final.expected.tokens_per_second < final.expected.high
    assert final.factors.accept_length is not None and final.factors.accept_length < 0.6
    assert final.factors.context is not None and final.factors.context < 0.7
    assert any("tool_call_parser" in event.text for event in monitor.history().events if event.kind == "restart")
