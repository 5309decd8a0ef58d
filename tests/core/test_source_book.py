"""Unread batch lines are weighed against read ones over the last minute, however many there are."""

from ddwatch.core.history import EventLog, Ring
from ddwatch.core.records import Unread
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
