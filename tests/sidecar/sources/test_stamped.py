"""Stamps that something else put before a line, and the seam between two readings of the same lines."""

import pytest
from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT
from ddwatch_sidecar.sources.stamped import Seam, Stamp, Stamps, handed_on, newest

NOON = 1_777_636_800


@pytest.mark.parametrize(
    ("line", "stamp", "text"),
    [
        (b"2026-05-01T12:00:00.123456789Z hello", Stamp(NOON, 123_456_789), b"hello"),
        (b"2026-05-01T14:00:00.5+02:00 hello", Stamp(NOON, 500_000_000), b"hello"),
        (b"2026-05-01T12:00:00Z ", Stamp(NOON, 0), b""),
        (b"2026-05-01T12:00:00.000000001Z", Stamp(NOON, 1), b""),
        (b"2026-05-01T12:00:00Z  two spaces", Stamp(NOON, 0), b" two spaces"),
    ],
)
def test_a_stamp_is_taken_off(line: bytes, stamp: Stamp, text: bytes) -> None:
    stamps = Stamps()
    assert stamps.split(line) == (stamp, text)
    assert stamps.split(line) == (stamp, text)
    assert stamp.epoch == pytest.approx(stamp.seconds + stamp.nanos / 1e9)


@pytest.mark.parametrize(
    "line", [b"", b"no stamp", b"2026-13-01T12:00:00Z x", b"[2026-05-01 12:00:00] x", b"2026-05-01T12:00:00 x"]
)
def test_without_a_stamp_there_is_none(line: bytes) -> None:
    assert Stamps().split(line) is None


def test_it_is_printed_as_it_was_read() -> None:
    text = b"2026-05-01T12:00:00.000000120Z"
    found = Stamps().split(text)
    assert found is not None and found[0].printed() == text


def test_the_newest_of_several() -> None:
    assert newest([None, Stamp(1, 5), Stamp(2, 0)]) == Stamp(2, 0)
    assert newest([None]) is None


def passed(seam: Seam, *lines: tuple[int, bytes]) -> list[bytes]:
    return [line for seconds, line in lines if seam.passes(Stamp(seconds, 0), line)]


def test_a_further_reading_drops_what_was_read_and_keeps_equal_moments_apart() -> None:
    seam = Seam()
    assert passed(seam, (1, b"a"), (2, b"b"), (2, b"c")) == [b"a", b"b", b"c"]
    seam.again()
    assert passed(seam, (1, b"a"), (2, b"b"), (2, b"c"), (2, b"d"), (3, b"e"), (3, b"e2")) == [b"d", b"e", b"e2"]
    assert not seam.torn
    seam.again()
    assert passed(seam, (3, b"e"), (3, b"e2"), (4, b"f")) == [b"f"]


def test_a_place_that_is_gone_is_noticed() -> None:
    seam = Seam()
    passed(seam, (1, b"a"), (2, b"b"))
    seam.again()
    assert passed(seam, (5, b"x")) == [b"x"]
    assert seam.torn


def test_while_nothing_is_joined_lines_out_of_order_pass() -> None:
    assert passed(Seam(), (2, b"b"), (1, b"a"), (3, b"c")) == [b"b", b"a", b"c"]


def test_a_first_reading_joins_nothing() -> None:
    seam = Seam()
    seam.again()
    assert not seam.torn


def test_an_old_line_keeps_its_stamp_a_live_one_does_not_need_it() -> None:
    stamp = Stamp(NOON, 0)
    assert handed_on(b"x", stamp, live=True, whole=True) == Line(b"x", None, True, True)
    old = handed_on(b"x", stamp, live=False, whole=True)
    assert old == Line(b"2026-05-01T12:00:00.000000000Z x", None, False, True)
    long = handed_on(b"x" * (LINE_LIMIT + 1), stamp, live=True, whole=True)
    assert (len(long.data), long.whole) == (LINE_LIMIT, False)
