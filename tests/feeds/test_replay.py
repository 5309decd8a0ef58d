"""The replay feed: the same core as headless, at a stated pace, with pause, seek and an end."""

import gzip
import math
import threading
from collections.abc import Iterator
from datetime import timezone
from pathlib import Path

import pytest

from ddwatch.core.monitor import Monitor
from ddwatch.core.records import Record, SourceFault
from ddwatch.core.snapshot import Frame, Verdict
from ddwatch.feeds.contract import Feed
from ddwatch.feeds.log_lines import open_log
from ddwatch.feeds.play_head import SPEEDS
from ddwatch.feeds.replay import CLOSE_ASKS, FRAME_SECONDS, Deck, ReplayFeed, last_moment
from tests.fakes.clock import START, Clock

UTC = timezone.utc
PAUSE_AT = 60
"""The log below is silent from here, in seconds, for an hour."""


def stamp(second: int) -> str:
    hours, rest = divmod(12 * 3600 + second, 3600)
    return f"2026-05-01 {hours:02d}:{rest // 60:02d}:{rest % 60:02d}"


def line(second: int, tokens: int | None = None) -> str:
    context = 1000 + 5 * second if tokens is None else tokens
    return (
        f"[{stamp(second)} TP0] Decode batch, #running-req: 1, #token: {context}, token usage: 0.01, accept len: 5.00, "
        "accept rate: 0.12, cuda graph: True, gen throughput (token/s): 166.67, #queue-req: 0"
    )


def log_lines() -> list[str]:
    """One line a second for a minute, an hour of silence after the last request, one line a second for a minute."""
    first = [line(second) for second in range(PAUSE_AT)]
    return [*first, line(PAUSE_AT, 0), *(line(second) for second in range(3660, 3720))]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "sglang.log"
    path.write_text("\n".join(log_lines()) + "\n", encoding="utf-8")
    return path


class Player:
    """Takes one frame after another while the test moves the clock between them."""

    def __init__(self, log: Path, **more: float | bool | None) -> None:
        self.clock = Clock()
        settings = {"speed": 10.0, "duration": 3719.0, **more}
        self.feed = ReplayFeed(
            lambda: open_log(str(log)),
            origin=str(log),
            source=log.name,
            zone=UTC,
            clock=self.clock.monotonic,
            # No frame is waited for: the test's clock is the only one that counts.
            rest=lambda seconds: None,
            **settings,  # type: ignore[arg-type]
        )
        self.items: Iterator[Frame | SourceFault] = self.feed.frames()

    def frame(self, after: float = 0.0) -> Frame:
        self.clock.advance(after)
        item = next(self.items)
        assert isinstance(item, Frame)
        return item

    def frames_until(self, position: float, step: float = FRAME_SECONDS) -> list[Frame]:
        """Frames until the log's position is reached, a step of the clock between each two."""
        found = [self.frame()]
        while found[-1].snapshot.at < START + position:
            assert len(found) < 10_000
            found.append(self.frame(step))
        return found


def test_time_passes_at_the_stated_speed(log: Path) -> None:
    player = Player(log, speed=10.0)
    assert player.frame().snapshot.at == START
    assert player.frame(1.0).snapshot.at == pytest.approx(START + 10)
    assert player.frame(0.25).snapshot.at == pytest.approx(START + 12.5)
    assert player.feed.controls.position == pytest.approx(12.5)
    assert player.feed.controls.duration == 3719.0


def test_a_frame_holds_the_whole_history_so_far(log: Path) -> None:
    player = Player(log, speed=1.0)
    frame = player.frames_until(30)[-1]
    assert len(frame.history.points) >= 28
    assert [point.seq for point in frame.history.points] == sorted({point.seq for point in frame.history.points})
    assert frame.snapshot.sources[0].name == "sglang.log"
    assert frame.snapshot.sources[0].lines > 25


def test_pause_holds_time_and_goes_on_where_it_was(log: Path) -> None:
    player = Player(log)
    before = player.frame(1.0).snapshot.at
    player.feed.controls.toggle_pause()
    assert player.feed.controls.paused
    assert player.frame(5.0).snapshot.at == before
    assert player.frame(5.0).snapshot.at == before
    player.feed.controls.toggle_pause()
    assert player.frame(1.0).snapshot.at == pytest.approx(before + 10)


def test_a_long_silence_is_hurried_through_but_seen(log: Path) -> None:
    """An hour of idling takes a second of the clock, in several frames, and the core is asked all along."""
    player = Player(log, speed=1.0)
    player.feed.controls.seek(PAUSE_AT + 1.0)
    frames = [player.frame(), *(player.frame(0.1) for _ in range(14))]
    times = [frame.snapshot.at - START for frame in frames]
    idle = [frame for frame in frames if frame.snapshot.verdict.name == "idle"]
    assert times[0] <= PAUSE_AT + 1.0
    assert 3660 <= times[-1] < 3670
    assert len(idle) >= 5
    assert {frame.snapshot.verdict.since for frame in idle} == {START + PAUSE_AT}
    assert any(point.state == "idle" for point in frames[-1].history.points)


def test_seeking_forward_and_back_gives_the_same_as_playing_there(log: Path) -> None:
    player = Player(log, speed=1.0)
    played = player.frames_until(40)[-1]
    player.feed.controls.seek(3640)
    ahead = player.frames_until(3680)[-1]
    assert ahead.snapshot.at == pytest.approx(START + 3680, abs=1)
    player.feed.controls.seek(played.snapshot.at - ahead.snapshot.at)
    back = [player.frame() for _ in range(3)][-1]
    assert back.snapshot.at == played.snapshot.at
    assert back.snapshot.ranks == played.snapshot.ranks
    assert back.snapshot.window == played.snapshot.window
    assert back.history.points == played.history.points


def test_seeks_that_come_together_add_up_and_stop_at_both_ends(log: Path) -> None:
    player = Player(log, speed=1.0)
    player.frame()
    for _ in range(4):
        player.feed.controls.seek(10)
    assert player.frames_until(40)[-1].snapshot.at == pytest.approx(START + 40)
    player.feed.controls.seek(-1e9)
    at = [player.frame().snapshot.at for _ in range(2)]
    assert at[-1] == START
    player.feed.controls.seek(1e9)
    assert player.frames_until(3719)[-1].snapshot.at == START + 3719


def test_a_stream_cannot_be_moved_back(log: Path) -> None:
    player = Player(log, can_rewind=False, duration=None)
    at = player.frame(2.0).snapshot.at
    player.feed.controls.seek(-10)
    assert player.frame().snapshot.at == at
    assert player.feed.controls.duration == player.feed.controls.position == at - START


def test_the_end_repeats_the_last_frame_and_going_back_is_still_possible(log: Path) -> None:
    player = Player(log, speed=math.inf)
    last = player.frames_until(3719)[-1]
    assert [player.frame(1.0).snapshot.at for _ in range(3)] == [START + 3719] * 3
    assert last.snapshot.sources[0].lines == len(log_lines())
    player.feed.controls.toggle_pause()
    player.feed.controls.seek(-3700)
    assert [player.frame() for _ in range(2)][-1].snapshot.at == pytest.approx(START + 19)


def test_beginning_further_on(log: Path) -> None:
    player = Player(log, start=3670.0)
    assert player.frames_until(3670)[-1].snapshot.at == pytest.approx(START + 3670, abs=1)


def test_speeds_go_in_steps_between_both_ends(log: Path) -> None:
    controls = Player(log).feed.controls
    seen = []
    for _ in range(len(SPEEDS) + 2):
        controls.faster()
        seen.append(controls.speed)
    assert seen[0] == 20
    assert seen[-1] == math.inf
    for _ in range(len(SPEEDS) + 2):
        controls.slower()
    assert controls.speed == SPEEDS[0]


def test_an_odd_speed_steps_to_its_neighbours(log: Path) -> None:
    controls = Player(log, speed=7.0).feed.controls
    controls.faster()
    assert controls.speed == 10
    controls = Player(log, speed=7.0).feed.controls
    controls.slower()
    assert controls.speed == 5


def test_a_log_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    player = Player(tmp_path / "absent.log")
    items = list(player.items)
    assert len(items) == 1
    assert isinstance(items[0], SourceFault)
    assert "there is no file" in items[0].reason


def test_damage_further_on_is_a_fault_after_the_frames(tmp_path: Path) -> None:
    text = "\n".join(line(second) for second in range(3000)).encode()
    packed = tmp_path / "cut.log.gz"
    packed.write_bytes(gzip.compress(text)[:-300])
    player = Player(packed, speed=math.inf)
    items = list(player.items)
    assert all(isinstance(item, Frame) for item in items[:-1])
    assert len(items) > 1
    assert isinstance(items[-1], SourceFault)
    assert "is damaged" in items[-1].reason


def test_closing_ends_the_frames_from_another_thread(log: Path) -> None:
    feed: Feed = ReplayFeed(lambda: open_log(str(log)), origin="x", zone=UTC, speed=1.0)
    seen: list[Frame | SourceFault] = []
    first = threading.Event()

    def follow() -> None:
        for item in feed.frames():
            seen.append(item)
            first.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert first.wait(30)
    feed.close()
    feed.close()
    thread.join(30)
    assert not thread.is_alive()
    assert feed.controls is not None
    assert seen


class TestDeck:
    """One run of a log through the core."""

    def deck(self, lines: list[str], asked: list[float], seen: list[Record] | None = None) -> Deck:
        def ask(now: float, monitor: Monitor, verdict: Verdict) -> None:
            asked.append(now - START)

        numbered = ((number, text.encode()) for number, text in enumerate(lines, 1))
        return Deck(numbered, zone=UTC, base=START, source="x", asked=ask, seen=None if seen is None else seen.append)

    def test_the_core_is_asked_at_every_record_and_each_second_of_silence(self) -> None:
        asked: list[float] = []
        self.deck([line(0), line(1), line(5), line(5), line(6)], asked).advance(math.inf)
        assert sorted(set(asked)) == [0, 1, 2, 3, 4, 5, 6]

    def test_a_silence_of_days_is_asked_about_a_bounded_number_of_times(self) -> None:
        asked: list[float] = []
        later = line(0).replace("2026-05-01", "2026-07-01")
        deck = self.deck([line(0), later], asked)
        deck.advance(math.inf)
        assert deck.ended
        assert CLOSE_ASKS < len(asked) < 2500
        assert asked[-1] == 61 * 86400

    def test_playing_in_small_steps_sees_the_same_records(self) -> None:
        whole: list[Record] = []
        parts: list[Record] = []
        self.deck(log_lines(), [], whole).advance(math.inf)
        deck = self.deck(log_lines(), [], parts)
        for step in range(0, 3730, 7):
            deck.advance(START + step)
            assert deck.now <= START + 3719
        assert parts == whole
        assert len(parts) == len(log_lines())

    def test_a_clock_that_was_set_back_does_not_stop_it(self) -> None:
        asked: list[float] = []
        deck = self.deck([line(100), line(40), line(41), line(101), line(102)], asked)
        deck.advance(math.inf)
        assert deck.ended
        assert asked == sorted(asked)

    def test_a_log_without_any_record_is_at_its_end_at_once(self) -> None:
        deck = self.deck(["hello"], [])
        deck.advance(math.inf)
        assert deck.ended
        assert deck.lines == 1
        assert not deck.stamped


def test_the_last_time_of_a_log_is_found_at_its_end(log: Path, tmp_path: Path) -> None:
    assert last_moment(str(log), UTC) == START + 3719
    bare = tmp_path / "bare.log"
    bare.write_text("Decode batch, #running-req: 1, gen throughput (token/s): 1.00\n" * 3, encoding="utf-8")
    assert last_moment(str(bare), UTC) is None
    assert last_moment(str(tmp_path / "absent.log"), UTC) is None


def test_an_empty_log_is_a_fault(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    (fault,) = list(Player(empty).items)
    assert isinstance(fault, SourceFault)
    assert "is empty" in fault.reason


class Stream:
    """A stream that says nothing for a while between its parts, and ends when told to."""

    def __init__(self, *parts: list[str]) -> None:
        self._parts = parts

    def __enter__(self) -> Iterator[tuple[int, bytes | None]]:
        return self._lines()

    def __exit__(self, *_: object) -> None:
        return

    def _lines(self) -> Iterator[tuple[int, bytes | None]]:
        said = 0
        for part in self._parts:
            for _ in range(3):
                yield said, None
            for text in part:
                said += 1
                yield said, text.encode()


@pytest.mark.parametrize("speed", [1.0, math.inf])
def test_a_stream_that_pauses_shows_what_it_has_said_so_far(speed: float) -> None:
    stream = Stream([line(0), line(1)], [line(2), line(3)])
    feed = ReplayFeed(lambda: stream, origin="pipe", zone=UTC, speed=speed, can_rewind=False, rest=lambda seconds: None)
    seen: list[float] = []
    for item in feed.frames():
        assert isinstance(item, Frame)
        seen.append(item.snapshot.at - START)
        if seen[-1] == 3:
            assert item.snapshot.sources[0].lines == 4
            feed.close()
    assert 1.0 in seen
    assert seen == sorted(seen)
    assert seen[-1] == 3
