"""The log with blocks of NUL bytes or holes, as a crashed host leaves them."""

from ddwatch_sidecar.sources.contract import Line

from ddwatch.core.records import Gap
from tests.sidecar.sources.conftest import Followed
from tests.sidecar.sources.reading import only, story


def test_a_block_of_nul_bytes_is_a_marked_loss_and_the_line_after_it_is_read(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    followed.writer.write(bytes(300_000) + b"two\nthree\n")
    items = followed.read()
    assert [line.data for line in only(Line, items)] == [b"two", b"three"]
    (gap,) = only(Gap, items)
    assert (gap.reason, "300000 NUL bytes" in gap.detail) == ("lost", True)


def test_a_hole_of_fifty_gigabytes_is_stepped_over(followed: Followed) -> None:
    followed.writer.line("one")
    followed.read()
    with followed.path.open("r+b") as file:
        file.seek(50 * 1024**3)
        file.write(b"two\nthree\n")
    items = followed.read()
    assert [line.data for line in only(Line, items)] == [b"two", b"three"]
    assert [gap.reason for gap in only(Gap, items)] == ["lost"]


def test_a_few_nul_bytes_in_a_line_are_dropped_without_ado(followed: Followed) -> None:
    followed.writer.write(b"o\0n\0e\n")
    assert story(followed.read()) == ["<up>", "one"]
