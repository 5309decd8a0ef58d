"""The line without end, the burst of them, and the flood of short ones."""

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT

from ddwatch.core.records import Gap
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, story


def test_an_overlong_line_is_cut_and_told_and_the_next_one_is_whole(followed: Followed) -> None:
    followed.writer.write(b"x" * 1_000_000 + b"\nnext\n")
    items = followed.read()
    cut, following = only(Line, items)
    assert (len(cut.data), cut.whole) == (LINE_LIMIT, False)
    assert (following.data, following.number, following.whole) == (b"next", 2, True)
    assert [gap.reason for gap in only(Gap, items)] == ["too-long"]


def test_a_burst_is_told_once_and_its_rest_later_with_its_number(followed: Followed) -> None:
    long_line = b"x" * (LINE_LIMIT + 10) + b"\n"
    gaps: list[Gap] = []
    for _ in range(40):
        followed.writer.write(long_line)
        gaps += only(Gap, followed.read(0.2))
    assert [gap.detail.split()[0] for gap in gaps] == ["1"]
    gaps = only(Gap, followed.read(20))
    assert [gap.detail.split()[0] for gap in gaps] == ["39"]
    assert only(Gap, followed.read(20)) == []


def test_a_line_that_dribbles_in_is_delivered_when_it_is_complete(followed: Followed) -> None:
    followed.path.touch()
    followed.read()
    seen = []
    for start in range(0, 30, 7):
        followed.writer.write(b"a line that comes in pieces\n"[start : start + 7])
        seen += story(followed.read())
    assert seen == ["a line that comes in pieces"]


def test_a_flood_of_short_lines_is_read_in_pieces_that_stay_small(followed: Followed) -> None:
    followed.writer.write(b"a\n" * 300_000)
    pieces = [followed.source.poll(1000.0)]
    while followed.source.behind:
        pieces.append(followed.source.poll(1000.0))
    counts = [len(only(Line, piece)) for piece in pieces]
    assert (sum(counts), max(counts) < 50_000) == (300_000, True)
    assert [line.number for line in only(Line, pieces[-1])][-1] == 300_000
