"""The bounded past is resumable, loses nothing silently, and tells one incident once."""

from hypothesis import given
from hypothesis import strategies as st

from ddwatch.core.history import EventLog, Ring, ends, merged, numbered
from ddwatch.core.request_view import FinishedRequest
from ddwatch.core.snapshot import Event, History, Point


def point(ring: Ring, at: float) -> None:
    ring.add_point(Point(seq=ring.next_seq(), at=at, throughput=at))


def test_a_reader_gets_what_is_new_and_nothing_twice() -> None:
    ring = Ring()
    point(ring, 1)
    ring.add_event(1, "ready", "ok", "ready")
    seen = ring.since(0)
    assert [p.at for p in seen.points] == [1]
    assert [e.text for e in seen.events] == ["ready"]
    point(ring, 2)
    assert [p.at for p in ring.since(2).points] == [2]
    assert ring.since(ring.seq) == History()


def test_a_reader_that_was_away_too_long_is_told_so() -> None:
    ring = Ring(points=3, events=2)
    for at in range(5):
        point(ring, at)
    assert ring.since(3).complete
    assert not ring.since(1).complete
    assert len(ring.since(0).points) == 3
    for at in range(4):
        ring.add_event(at, "gap", "notice", str(at))
    assert [e.text for e in ring.since(0).events] == ["2", "3"]


def test_a_reader_that_followed_another_watch_starts_over() -> None:
    ring = Ring()
    point(ring, 1)
    ahead = ring.since(900)
    assert not ahead.complete
    assert len(ahead.points) == 1


def test_recent_points_are_those_since_a_time() -> None:
    ring = Ring()
    assert ring.last_point() is None
    for at in range(5):
        point(ring, at)
    assert [p.at for p in ring.recent_points(3)] == [3, 4]
    assert [p.at for p in ring.recent_points(-1)] == [0, 1, 2, 3, 4]


def test_merging_joins_without_loss_or_repetition() -> None:
    ring = Ring()
    reader = History()
    last = 0
    for at in range(20):
        point(ring, at)
        if at % 7 == 0:
            ring.add_event(at, "gap", "notice", f"gap {at}")
        if at % 3 == 0:
            reader = merged(reader, ring.since(last))
            last = ring.seq
    reader = merged(reader, ring.since(last))
    assert reader == ring.since(0)
    assert merged(reader, History()) is reader


def test_merging_something_incomplete_starts_over() -> None:
    old = History(points=(Point(seq=1, at=1),))
    new = History(complete=False, points=(Point(seq=9, at=9),))
    assert merged(old, new) == new


def test_a_merged_history_is_bounded() -> None:
    old = History(points=tuple(Point(seq=i, at=i) for i in range(10)))
    new = History(
        points=(Point(seq=11, at=11),),
        events=tuple(Event(seq=20 + i, at=i, kind="gap", severity="ok", text="x") for i in range(5)),
    )
    kept = merged(old, new, points=4, events=2)
    assert [p.at for p in kept.points] == [7, 8, 9, 11]
    assert [e.at for e in kept.events] == [3, 4]


def test_copies_of_one_sign_are_one_event() -> None:
    ring = Ring()
    log = EventLog(ring)
    for _ in range(16):
        log.incident("retract", 5.0, "retract", "notice", "KV pool full", within=3, joined=300)
    assert [e.count for e in ring.since(0).events] == [1]


def test_repeated_trouble_is_counted_on_one_line_and_later_trouble_is_a_new_one() -> None:
    ring = Ring()
    log = EventLog(ring)
    for at in (0.0, 10.0, 20.0):
        log.incident("retract", at, "retract", "notice", "KV pool full", within=3, joined=300)
    assert [(e.at, e.count) for e in ring.since(0).events] == [(0.0, 3)]
    log.incident("retract", 900.0, "retract", "notice", "KV pool full", within=3, joined=300)
    assert [(e.at, e.count) for e in ring.since(0).events] == [(0.0, 3), (900.0, 1)]


def test_a_better_wording_replaces_the_first_one_also_for_readers_that_missed_some() -> None:
    ring = Ring()
    log = EventLog(ring)
    log.incident("crash", 1.0, "crash", "page", "crashed", within=60, reword=True)
    early = ring.since(0)
    log.incident("crash", 2.0, "crash", "page", "crashed: RuntimeError", within=60, reword=True)
    middle = merged(early, ring.since(1))
    log.incident("crash", 3.0, "crash", "page", "crashed: CUDA error", within=60, reword=True)
    log.incident("crash", 3.0, "crash", "page", "crashed: CUDA error", within=60, reword=True)
    for reader in (merged(early, ring.since(1)), merged(middle, ring.since(2)), ring.since(0)):
        assert [e.text for e in reader.events] == ["crashed: CUDA error"]


def test_the_memory_for_incidents_is_bounded() -> None:
    ring = Ring(events=10)
    log = EventLog(ring)
    for i in range(2000):
        log.incident(f"key {i}", float(i), "xid", "notice", f"Xid {i}")
    log.add(3000.0, "stop", "ok", "stopped")
    assert len(ring.since(0).events) == 10


@given(st.lists(st.integers(0, 3), max_size=60))
def test_any_reading_rhythm_ends_in_the_same_history(rhythm: list[int]) -> None:
    ring = Ring(points=500, events=500)
    reader, last = History(), 0
    log = EventLog(ring)
    for at, what in enumerate(rhythm):
        if what == 0:
            point(ring, at)
        elif what == 1:
            log.incident("a", at, "retract", "notice", "a", within=1, joined=20)
        elif what == 2:
            log.add(at, "gap", "notice", "gap")
        else:
            reader = merged(reader, ring.since(last))
            last = ring.seq
    reader = merged(reader, ring.since(last))
    whole = ring.since(0)
    assert reader.points == whole.points
    assert sorted(reader.events, key=lambda e: e.seq) == sorted(whole.events, key=lambda e: e.seq)


def test_requests_share_the_numbers_and_only_the_newest_are_kept() -> None:
    ring = Ring(points=5, events=5, requests=3)
    ring.add_point(Point(seq=ring.next_seq(), at=1.0))
    for number in range(5):
        ring.add_request(FinishedRequest(seq=ring.next_seq(), at=2.0 + number, completion_tokens=number))
    history = ring.since(0)
    assert [request.completion_tokens for request in history.requests] == [2, 3, 4]
    assert history.complete
    assert [request.seq for request in ring.since(5).requests] == [6]
    assert ends(history) == [(1, 1), (4, 6)]
    assert numbered(history, lambda number: number <= 9) is history
    early = numbered(history, lambda number: number <= 4)
    assert (len(early.points), [request.seq for request in early.requests]) == (1, [4])
    late = merged(early, numbered(history, lambda number: number > 4), requests=2)
    assert [request.seq for request in late.requests] == [5, 6]
    again = Ring()
    again.restore(history)
    assert [request.at for request in again.since(0).requests] == [4.0, 5.0, 6.0]
