"""Bytes in any chunks give the same bounded lines."""

from itertools import pairwise

from ddwatch_sidecar.sources.contract import Line
from ddwatch_sidecar.sources.lines import LINE_LIMIT, LineAssembler
from hypothesis import given, settings
from hypothesis import strategies as st

LIMIT = 8
BYTES = st.lists(
    st.sampled_from((b"a", b"bcd", b"\n", b"\r", b"\r\n", b"\0", b"0123456789", b"\xff")), max_size=40
).map(b"".join)


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def lines_of(*chunks: bytes, limit: int = LINE_LIMIT) -> list[Line]:
    assembler = LineAssembler(limit)
    return [line for chunk in chunks for line in assembler.feed(chunk)]


@settings(max_examples=500)
@given(data=BYTES, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    whole, pieces = LineAssembler(LIMIT), LineAssembler(LIMIT)
    at_once = whole.feed(data) + whole.flush()
    in_pieces = [line for chunk in chunked(data, cuts) for line in pieces.feed(chunk)] + pieces.flush()
    assert in_pieces == at_once
    assert (pieces.cut_lines, pieces.nul_bytes, pieces.number) == (whole.cut_lines, whole.nul_bytes, whole.number)


@settings(max_examples=300)
@given(data=BYTES)
def test_each_line_is_the_text_between_two_newlines_up_to_the_limit(data: bytes) -> None:
    physical = data.replace(b"\0", b"").split(b"\n")[:-1]
    expected = [line.removesuffix(b"\r") for line in physical]
    found = [line for line in lines_of(data, limit=LIMIT) if line.number is not None and line.number <= len(physical)]
    assert [line.data for line in found] == [line[:LIMIT] for line in expected]
    assert [line.whole for line in found] == [len(line) <= LIMIT for line in expected]
    assert [line.number for line in found] == list(range(1, len(physical) + 1))


@settings(max_examples=200)
@given(data=st.binary(max_size=300), size=st.integers(1, 50))
def test_no_more_than_the_limit_is_ever_held(data: bytes, size: int) -> None:
    assembler = LineAssembler(LIMIT)
    for start in range(0, len(data), size):
        lines = assembler.feed(data[start : start + size])
        assert all(len(line.data) <= LIMIT for line in lines)
        assert assembler.discard() <= LIMIT + 1


def test_a_carriage_return_before_the_newline_belongs_to_the_newline_and_others_stay() -> None:
    assert [line.data for line in lines_of(b"a\rb\r\n\r\nc\r\r\n")] == [b"a\rb", b"", b"c\r"]


def test_a_half_line_waits_for_its_rest() -> None:
    assembler = LineAssembler()
    assert assembler.feed(b"Decode batch, #run") == []
    assert assembler.pending
    assert assembler.feed(b"ning-req: 1\n") == [Line(b"Decode batch, #running-req: 1", 1)]
    assert not assembler.pending


def test_a_line_of_exactly_the_limit_is_whole_with_either_newline() -> None:
    text = b"x" * LINE_LIMIT
    assert [line.whole for line in lines_of(text + b"\n", text + b"\r\n")] == [True, True]
    assert [line.whole for line in lines_of(text + b"y\n")] == [False]


def test_an_overlong_line_is_delivered_cut_once_before_its_end_is_known() -> None:
    assembler = LineAssembler()
    (line,) = assembler.feed(b"x" * (LINE_LIMIT + 2))
    assert (len(line.data), line.whole, line.number) == (LINE_LIMIT, False, 1)
    assert assembler.feed(b"y" * 10_000_000) == []
    assert assembler.feed(b"z\nnext\n") == [Line(b"next", 2)]
    assert assembler.cut_lines == 1


def test_a_flushed_half_and_its_late_rest_are_both_marked() -> None:
    assembler = LineAssembler()
    assembler.feed(b"gen throughput: 1")
    assert assembler.flush() == [Line(b"gen throughput: 1", 1, whole=False)]
    assert assembler.flush() == []
    assert assembler.feed(b"90.70\nnext\n") == [Line(b"90.70", 1, whole=False), Line(b"next", 2)]


def test_a_discarded_half_is_never_glued_to_what_follows() -> None:
    assembler = LineAssembler()
    assembler.feed(b"old\nhalf")
    assert assembler.discard() == 4
    assert assembler.feed(b"new\n") == [Line(b"new", 1)]


def test_after_a_skip_the_line_in_progress_is_dropped_and_numbers_are_unknown() -> None:
    assembler = LineAssembler()
    assembler.feed(b"one\ntw")
    assembler.skip_to_next_line()
    assert assembler.feed(b"enty\nfifty\nsixty\n") == [Line(b"fifty", None), Line(b"sixty", None)]


def test_nul_bytes_are_removed_and_counted() -> None:
    assembler = LineAssembler()
    assert assembler.feed(bytes(200_000) + b"a\0b\n") == [Line(b"ab", 1)]
    assert assembler.nul_bytes == 200_001


def test_live_goes_with_the_chunk_that_ends_a_line() -> None:
    assembler = LineAssembler()
    assembler.feed(b"old\nha", live=False)
    assert assembler.feed(b"lf\n", live=True) == [Line(b"half", 2, live=True)]
