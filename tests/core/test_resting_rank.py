"""A rank that rests while others work leaves the timeline whole; when all rest, the line breaks."""

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import DecodeBatch, PrefillBatch
from tests.core.lines import decode, last_of_request, prefill


def test_one_rank_that_slept_does_not_break_the_line_of_those_that_worked() -> None:
    def states(*others: DecodeBatch) -> list[str]:
        woken: list[DecodeBatch | PrefillBatch] = [
            prefill(30.0, dp=0),
            *(decode(at, dp=0) for at in (31.0, 32.0, 33.0)),
        ]
        early = [decode(float(i), dp=0) for i in range(5)]
        records: list[DecodeBatch | PrefillBatch] = sorted(
            [*early, last_of_request(5.0, dp=0), *woken, *others], key=lambda record: record.at
        )
        monitor = Monitor(started_at=0.0)
        for record in records:
            monitor.accept(record)
        return [point.state for point in monitor.history().points]

    assert "idle" in states()
    assert "idle" not in states(*(decode(i + 0.5, dp=1) for i in range(33)))
