"""What a repeated output holds that was not read before: by example, and for every cut of every output."""

from ddwatch_sidecar.sources.overlap import HELD_BYTES, HELD_LINES, Overlap
from hypothesis import given
from hypothesis import strategies as st


def lines(first: int, last: int) -> list[bytes]:
    return [b"line %d" % number for number in range(first, last + 1)]


def compared(read: list[bytes], repeated: list[bytes]) -> tuple[list[bytes], bool]:
    overlap = Overlap()
    for line in read:
        overlap.passed(line)
    for line in repeated:
        overlap.hold(line)
    found = overlap.settle()
    return found.fresh, found.joined


def test_all_of_it_again_and_more() -> None:
    assert compared(lines(1, 5), lines(1, 8)) == (lines(6, 8), True)


def test_only_its_end_again() -> None:
    assert compared(lines(1, 5), lines(5, 6)) == (lines(6, 6), True)
    assert compared(lines(1, 5), lines(4, 6)) == (lines(6, 6), True)


def test_nothing_new() -> None:
    assert compared(lines(1, 5), lines(1, 5)) == ([], True)
    assert compared(lines(1, 5), []) == ([], False)


def test_nothing_of_it_again() -> None:
    assert compared(lines(1, 5), lines(8, 9)) == (lines(8, 9), False)


def test_a_line_that_comes_often_is_no_place_by_itself() -> None:
    tick = b"tick"
    read = [b"a", tick, b"b", tick]
    assert compared(read, [b"a", tick, b"b", tick, b"c", tick, b"d"]) == ([b"c", tick, b"d"], True)


def test_it_goes_on_from_what_was_new() -> None:
    overlap = Overlap()
    for line in lines(1, 3):
        overlap.passed(line)
    for repeated, fresh in ((lines(1, 5), lines(4, 5)), (lines(1, 5), []), (lines(2, 7), lines(6, 7))):
        for line in repeated:
            overlap.hold(line)
        assert overlap.settle().fresh == fresh


def test_what_is_held_is_bounded_and_a_late_place_is_found() -> None:
    many = [b"x %d" % number for number in range(2 * HELD_LINES)]
    assert compared(many, [*many, b"new"]) == ([b"new"], True)
    fresh, joined = compared([b"other"], many)
    assert (len(fresh), fresh[-1], joined) == (HELD_LINES, many[-1], False)
    long = [b"%d" % number + b"y" * 60_000 for number in range(100)]
    assert sum(map(len, compared([b"other"], long)[0])) <= HELD_BYTES


@given(st.lists(st.binary(min_size=1, max_size=3), unique=True, min_size=1), st.data())
def test_any_output_cut_anywhere_and_begun_anywhere_is_joined(output: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(output)))
    begin = data.draw(st.integers(0, cut - 1))
    assert compared(output[:cut], output[begin:]) == (output[cut:], True)
