"""The minute before an alert comes from the recording on this machine; where there is none, one sentence says why."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from ddwatch.commands.recorded_past import past_of, replay_words
from ddwatch.core.alert_view import KeepingView
from ddwatch.core.records import SourceFault
from ddwatch.core.snapshot import Frame, Snapshot
from ddwatch.feeds.recording_tape import RecordingFeed
from tests.commands.said import said
from tests.sidecar.exports.recordings import START, Watch


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshot]:
    """A recording of five minutes and an incident after them, and the last snapshot of its watch."""
    folder = tmp_path_factory.mktemp("recordings")
    watch = Watch(folder)
    watch.start()
    watch.run(300, per_second=1)
    for silence in (100, 5):
        watch.now += silence
        watch.see([])
    last = watch.monitor.at(watch.now)
    watch.end()
    (path,) = folder.glob("*.sqlite")
    return path, last


def kept(snapshot: Snapshot, path: object, channel: str | None = None) -> Snapshot:
    return replace(snapshot, keeping=KeepingView(channel=channel, recording=None if path is None else str(path)))


@contextmanager
def first_frame(feed: RecordingFeed) -> Iterator[Frame]:
    frames = feed.frames()
    frame = next(frames)
    assert not isinstance(frame, SourceFault)
    yield frame
    feed.close()
    assert list(frames) == []


def test_the_minute_before_an_alert_is_played_at_its_own_pace(recorded: tuple[Path, Snapshot]) -> None:
    path, last = recorded
    (alert,) = last.alerts
    assert alert.name == "blind" and alert.since > START + 290
    feed = past_of(kept(last, path), alert.since - 60.0)

    assert isinstance(feed, RecordingFeed) and feed.controls.speed == 1.0
    with first_frame(feed) as frame:
        assert abs(frame.snapshot.at - (alert.since - 60.0)) < 1.0
        assert frame.snapshot.now.throughput is not None and frame.snapshot.alerts == ()


def test_a_moment_just_before_the_recording_is_its_beginning(recorded: tuple[Path, Snapshot]) -> None:
    path, last = recorded
    feed = past_of(kept(last, path), START - 30.0)

    assert isinstance(feed, RecordingFeed)
    with first_frame(feed) as frame:
        assert abs(frame.snapshot.at - START) < 2.0
    assert past_of(kept(last, path), START - 3600.0) == "the recording does not go back that far"


def test_where_nothing_is_recorded_it_says_so(recorded: tuple[Path, Snapshot]) -> None:
    _, last = recorded
    nothing = "this sidecar records nothing (--record DIR says where to), so there is no past to show"

    assert past_of(kept(last, None), START) == nothing
    assert past_of(last, START) == nothing
    assert past_of(replace(last, simulated=True), START) == nothing.replace(
        "this sidecar records nothing", "a simulation is not recorded"
    )


def test_elsewhere_the_command_for_its_own_host_is_named(recorded: tuple[Path, Snapshot], tmp_path: Path) -> None:
    path, last = recorded
    there = "the recording lies on the sidecar's own host; there: ddwatch replay "

    assert (
        past_of(kept(last, "/nowhere/a.sqlite"), START)
        == f"{there}/nowhere/a.sqlite --at '2026-05-28 20:26:40' --tz UTC"
    )
    # One of the same name on this machine is another watch's.
    other = replace(kept(last, path), started_at=START + 86_400.0)
    assert past_of(other, START) == f"{there}{path} --at '2026-05-28 20:26:40' --tz UTC"
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\x00 and no more")
    assert str(past_of(kept(last, broken), START)).startswith(there)


def test_the_command_can_be_typed_as_it_stands() -> None:
    assert replay_words("~/.local/state/a b.sqlite", START).startswith(
        "ddwatch replay ~/'.local/state/a b.sqlite' --at "
    )
    assert replay_words("~nobody/a.sqlite", START).startswith("ddwatch replay '~nobody/a.sqlite' ")


def test_a_replay_begins_a_minute_before_an_alert(
    recorded: tuple[Path, Snapshot], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = recorded
    words = ["replay", str(path), "--headless", "--tz", "UTC"]
    found = said([*words, "--alert", "1"], capsys)
    everything = said(words, capsys)

    assert "blind" in found.out and len(found.out.splitlines()) <= len(everything.out.splitlines())
    assert said([*words, "--at", "20:31:00"], capsys).out
    code, out, err = said([*words, "--alert", "2"], capsys)
    assert (code, out) == (66, "") and "has no alert 2: there are 1" in err
    assert said([*words, "--alert", "0"], capsys).err.startswith("ddwatch replay: --alert counts from 1")
    assert said([*words, "--alert", "1", "--at", "20:31"], capsys).code == 64
    log = said(["replay", str(Path(__file__)), "--alert", "1", "--headless"], capsys)
    assert log.err == "ddwatch replay: --alert needs a recording: a log tells of alerts as it is played\n"
