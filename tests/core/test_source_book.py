"""Unread batch lines are weighed against read ones over the last minute, however many there are."""

from ddwatch.core.history import EventLog, Ring
from ddwatch.core.records import SourceFault, SourceUp, Unread
from ddwatch.core.source_book import HEADS_KEPT, HEADS_SECONDS, SourceBook
from ddwatch.core.tallies import Count


def book() -> SourceBook:
    return SourceBook(EventLog(Ring()), Count())


def test_lines_are_forgotten_after_a_minute() -> None:
    lately = book()
    lately.unread(Unread(at=0.0, head="Decode batch", example="x"), "log")
    lately.head(1.0, read=True)
    assert lately.recent_heads(2.0) == (2, 1)
    assert lately.recent_heads(HEADS_SECONDS + 0.5) == (1, 0)
    assert lately.recent_heads(HEADS_SECONDS * 3) == (0, 0)


def test_a_flood_is_bounded_and_still_counted_right() -> None:
    lately = book()
    for i in range(HEADS_KEPT + 10):
        lately.head(i / 1e4, read=i % 2 == 0)
    assert lately.recent_heads(1.0) == (HEADS_KEPT, HEADS_KEPT // 2)


def test_one_port_that_is_gone_behind_two_sources_is_told_once() -> None:
    ring = Ring()
    both = SourceBook(EventLog(ring), Count())
    for name in ("loads", "metrics"):
        both.up(SourceUp(at=1.0, source=name))
    for name in ("loads", "metrics"):
        both.fault(SourceFault(at=2.0, source=name, reason="nothing answers"))
    for name in ("loads", "metrics"):
        both.up(SourceUp(at=3.0, source=name))
    both.fault(SourceFault(at=4.0, source="metrics", reason="something else"))
    both.up(SourceUp(at=5.0, source="metrics"))
    assert [event.text for event in ring.since(0).events] == [
        "loads: nothing answers",
        "loads is back",
        "metrics: something else",
        "metrics is back",
    ]
