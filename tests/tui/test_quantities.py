"""What stands beside a plot comes from clean samples only, and what it shows is what the points hold."""

from msgspec.structs import replace

from ddwatch.core.snapshot import Event, Point
from ddwatch.widgets.plot_panel import figure_rows, load_figures, standard_figures
from ddwatch.widgets.quantities import ACCEPT, LATENCY, THROUGHPUT, marks, peak, readings, summary
from ddwatch.widgets.rows import plain
from ddwatch.widgets.view import View, points_in_view
from tests.tui import frames, model_frames

CLEAN = Point(seq=1, at=1.0, throughput=100.0, step_seconds=0.02, accept_length=2.0)
TAINTED = Point(seq=2, at=2.0, throughput=5.0, contaminated=True)
IDLE = Point(seq=3, at=3.0, state="idle")
BANDED = replace(
    CLEAN, seq=4, at=4.0, throughput=60.0, expected_throughput=80.0, expected_low=64.0, expected_high=160.0,
    expected_step_seconds=0.025,
)  # fmt: skip


def test_contaminated_points_count_against_the_clean_share_and_for_nothing_else() -> None:
    sums = summary((CLEAN, TAINTED, IDLE, BANDED), THROUGHPUT)
    assert (sums.least, sums.middle, sums.most) == (60.0, 80.0, 100.0)
    assert sums.clean_ratio == 2 / 3
    nothing = summary((TAINTED, IDLE), ACCEPT)
    assert (nothing.middle, nothing.least, nothing.most, nothing.clean_ratio) == (None, None, None, None)


def test_points_become_readings_with_their_kind_and_band() -> None:
    found = readings((CLEAN, TAINTED, IDLE, BANDED), THROUGHPUT)
    assert [reading.kind for reading in found] == ["clean", "tainted", "idle", "clean"]
    assert [reading.value for reading in found] == [100.0, 5.0, None, 60.0]
    assert (found[3].low, found[3].high) == (64.0, 160.0)


def test_the_band_of_the_latency_is_the_inverse_of_the_rates() -> None:
    (reading,) = readings((BANDED,), LATENCY)
    # A rate of 64 instead of 80 is a step of 31.25 ms instead of 25; a rate of 160 one of 12.5.
    assert (reading.low, reading.high) == (12.5, 31.25)


def test_only_clean_samples_and_the_band_move_an_axis() -> None:
    assert peak(readings((CLEAN, replace(TAINTED, throughput=9999.0)), THROUGHPUT)) == 100.0
    assert peak(readings((BANDED,), THROUGHPUT)) == 160.0
    assert peak(readings((TAINTED, IDLE), THROUGHPUT)) is None


def test_events_of_consequence_stand_on_the_time_axis() -> None:
    story = (
        Event(seq=1, at=1.0, kind="restart", severity="notice", text=""),
        Event(seq=2, at=2.0, kind="text", severity="ok", text=""),
        Event(seq=3, at=3.0, kind="crash", severity="page", text=""),
    )
    assert [(mark.at, mark.sign) for mark in marks(story)] == [(1.0, "▲"), (3.0, "✗")]


def test_what_begins_on_a_card_or_the_host_stands_there_and_its_end_does_not() -> None:
    story = (
        Event(seq=1, at=1.0, kind="gpu", severity="notice", text=""),
        Event(seq=2, at=2.0, kind="gpu", severity="ok", text="over after 20 s"),
        Event(seq=3, at=3.0, kind="host", severity="notice", text=""),
        Event(seq=4, at=4.0, kind="xid", severity="page", text=""),
    )
    assert [(mark.at, mark.sign) for mark in marks(story)] == [(1.0, "!"), (3.0, "!"), (4.0, "✗")]


def test_only_the_window_and_the_point_before_it_are_looked_at() -> None:
    points = points_in_view(frames.founding(), 60.0)
    assert len(points) == 61
    assert points[0].at == frames.NOON - 61


def test_figures_are_flush_right_at_three_widths() -> None:
    frame = model_frames.narrow()
    pairs = standard_figures(THROUGHPUT, frame, View(link="live"), summary(frame.history.points, THROUGHPUT))
    for width in (14, 17, 24):
        rows = [plain(row) for row in figure_rows(pairs, width)]
        assert all(len(row) == width for row in rows)
        assert all(row.endswith(" ") and not row.endswith("  ") for row in rows)
    assert [name for name, _, _ in pairs] == ["now", "expected", "median", "min", "max", "clean"]


def test_the_load_says_what_the_service_carries() -> None:
    assert [(name, value) for name, value, _ in load_figures(frames.dp8().snapshot)] == [
        ("now", "7.3k"), ("batch", "13"), ("total", "98.0k"), ("queue", "2"), ("KV in use", "3 %"),
    ]  # fmt: skip
