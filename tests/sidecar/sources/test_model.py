"""A writer does random things to its log and the follower looks at random moments: nothing vanishes unmarked."""

import os
import tempfile
from pathlib import Path

import pytest
from ddwatch_sidecar.sources.contract import Item, Line
from ddwatch_sidecar.sources.log_file import LogFile
from hypothesis import given, settings
from hypothesis import strategies as st

from ddwatch.core.records import Gap
from tests.fakes.clock import Clock
from tests.fakes.log_writer import LogWriter


class World:
    """The writer, the follower and the book of what was written."""

    def __init__(self, folder: Path, poll_bytes: int, *, wordy: bool) -> None:
        self.path = folder / "server.log"
        self.writer = LogWriter(self.path)
        self.clock = Clock()
        self.source = LogFile(self.path, poll_bytes=poll_bytes)
        self.delivered: list[Item] = []
        self.whole: list[bytes] = []
        """All lines whose every byte was written to one file, in order of their last byte."""
        self.fragments: list[bytes] = []
        """What stands as a line of its own because its beginning was truncated away."""
        self._half = b""
        self._rest = b""
        self._count = 0
        self._generation = 0
        """Counts how often the path's content began anew."""
        self._seen = -1
        self.poll()
        self._wordy = wordy

    def _next(self) -> bytes:
        self._count += 1
        number = f"{self._count:06d}"
        return f"[{number}] {number * (100 if self._wordy else 1)} end {number}".encode()

    def line(self) -> None:
        self.finish()
        line = self._next()
        self.writer.write(line + b"\n")
        self.whole.append(line)

    def burst(self) -> None:
        self.finish()
        lines = [self._next() for _ in range(7)]
        self.writer.write(b"".join(line + b"\n" for line in lines))
        self.whole += lines

    def half(self) -> None:
        self.finish()
        line = self._next()
        middle = len(line) // 3
        self._half, self._rest = line[:middle], line[middle:]
        self.writer.write(self._half)

    def finish(self) -> None:
        if self._rest:
            self.writer.write(self._rest + b"\n")
            if self._half:
                self.whole.append(self._half + self._rest)
            else:
                self.fragments.append(self._rest)
            self._half = self._rest = b""

    def abandon(self) -> None:
        """The writer dies in the middle of a line; the next one begins in a new file."""
        self.rename()
        self.writer.reopen()
        self._generation += 1
        self._half = self._rest = b""

    def rename(self) -> None:
        if self.path.exists():
            self.writer.rename()

    def reopen(self) -> None:
        self.finish()
        if not self.path.exists():
            self._generation += 1
        self.writer.reopen()

    def rotate(self) -> None:
        self.finish()
        self.rename()
        self.reopen()

    def copytruncate(self) -> None:
        if self.path.exists():
            self._let_see()
            self.writer.copytruncate()
            self._generation += 1
            self._lose_half()

    def regrow(self) -> None:
        """Truncated and already larger than before when the follower looks."""
        if not self.path.exists():
            return
        self._let_see()
        size = self.path.stat().st_size
        os.truncate(self.path, 0)
        self._generation += 1
        self._lose_half()
        self.line()
        while self.path.stat().st_size <= size:
            self.line()

    def recreate(self) -> None:
        self.finish()
        if self.path.exists():
            self._let_see()
            self.writer.recreate()
            self._generation += 1

    def _let_see(self) -> None:
        """Nothing can mark the loss of a file that was gone, without a trace, before anybody looked."""
        if self._seen != self._generation:
            self.poll()

    def _lose_half(self) -> None:
        self._half = b""

    def poll(self) -> None:
        self.clock.advance(0.2)
        self._look()

    def wait(self) -> None:
        self.clock.advance(6.0)
        self._look()

    def _look(self) -> None:
        if self.path.exists() and self.path.stat().st_size:
            self._seen = self._generation
        self.delivered += self.source.poll(self.clock.now)

    def end(self) -> None:
        self.reopen()
        self.line()
        for _ in range(50):
            self.poll()
            while self.source.behind:
                self.poll()

    def close(self) -> None:
        self.writer.close()
        self.source.close()


OPERATIONS = (
    "line",
    "burst",
    "half",
    "finish",
    "abandon",
    "rename",
    "reopen",
    "rotate",
    "copytruncate",
    "regrow",
    "recreate",
    "poll",
    "poll",
    "poll",
    "wait",
)


def check(world: World) -> None:
    order = {line: index for index, line in enumerate(world.whole)}
    seen = -1
    gap = False
    for item in world.delivered:
        if isinstance(item, Gap):
            gap = True
        elif isinstance(item, Line) and item.whole:
            if item.data in world.fragments:
                continue
            assert item.data in order, f"never written as a line: {item.data!r}"
            index = order[item.data]
            assert index > seen, f"twice, or out of order: {item.data!r}"
            assert gap or index == seen + 1, f"missing without a mark: {world.whole[seen + 1 : index]}"
            seen, gap = index, False
    assert seen == len(world.whole) - 1, f"never delivered: {world.whole[seen + 1 :]}"


def play(folder: Path, operations: list[str], poll_bytes: int, *, wordy: bool) -> None:
    world = World(folder, poll_bytes, wordy=wordy)
    try:
        for operation in operations:
            getattr(world, operation)()
        world.end()
        check(world)
    finally:
        world.close()


FOUND = (
    (7, False, "line poll abandon burst poll regrow poll"),
    (7, True, "line regrow abandon poll burst regrow"),
    (7, False, "reopen regrow abandon regrow regrow"),
    (64, True, "line poll rename reopen regrow regrow"),
    (64, False, "rotate poll burst rotate poll regrow regrow"),
    (1 << 20, True, "reopen regrow regrow rotate burst rename poll"),
    (64, True, "burst copytruncate line abandon burst rename poll"),
    (1 << 20, False, "half regrow abandon rename burst wait"),
    (1000, False, "half recreate recreate wait recreate regrow recreate rename copytruncate line"),
    (64, False, "abandon copytruncate abandon recreate wait burst recreate burst rename wait"),
    (7, True, "burst copytruncate recreate regrow recreate rename wait half"),
    (64, False, "rotate recreate line recreate rename wait line"),
)
"""Stories that once lost a line unmarked: (poll_bytes, wordy, operations)."""


@pytest.mark.parametrize(("poll_bytes", "wordy", "story"), FOUND)
def test_stories_that_once_went_wrong(tmp_path: Path, poll_bytes: int, wordy: bool, story: str) -> None:
    play(tmp_path, story.split(), poll_bytes, wordy=wordy)


@settings(max_examples=300)
@given(
    operations=st.lists(st.sampled_from(OPERATIONS), min_size=5, max_size=60),
    poll_bytes=st.sampled_from((7, 64, 1000, 1 << 20)),
    wordy=st.booleans(),
)
def test_each_line_arrives_once_and_in_order_or_a_gap_stands_for_it(
    operations: list[str], poll_bytes: int, wordy: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), operations, poll_bytes, wordy=wordy)
