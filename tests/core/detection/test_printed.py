"""Definitions of the accept rate are told apart by what is printed, and a bonus token counted twice is noticed."""

from random import Random

import pytest

from ddwatch.core.detection.printed import GROWTH_LINES, Definition, PrintedAccept, definitions
from ddwatch.core.records import DecodeBatch
from ddwatch.core.snapshot import Flag, Sample
from ddwatch.demo.physics import CODE


def test_the_definition_is_read_from_one_pair_where_that_is_possible() -> None:
    assert definitions(2.47, 0.82) == {Definition("L/k", 3)}
    assert definitions(2.83, 0.61) == {Definition("(L-1)/(k-1)", 4)}
    both = definitions(2.83, 0.26)
    assert {one.formula for one in both} == {"L/k", "(L-1)/(k-1)"}, "ambiguous"
    assert definitions(2.83, 0.26, drafts=8) == {Definition("(L-1)/(k-1)", 8)}
    assert definitions(2.83, 0.26, drafts=11) == {Definition("L/k", 11)}
    assert definitions(6.2, 0.9, drafts=4) == frozenset()


def told(printed: PrintedAccept, k: int, *, new: bool, lines: int = 40, seed: int = 1) -> list[str]:
    random, said = Random(seed), []
    for number in range(lines):
        length = round(1.0 + random.random() * (k - 1), 2)
        rate = round((length - 1.0) / (k - 1) if new else length / k, 2)
        said.append(printed.line(DecodeBatch(at=float(number), accept_length=length, accept_rate=rate)))
    return [one for one in said if one is not None]


def test_a_restart_that_changes_the_definition_is_told_once() -> None:
    printed = PrintedAccept()
    assert told(printed, 4, new=False) == []
    assert printed.formula == "L/k"
    printed.restart()
    assert told(printed, 4, new=True) == [
        "accept rate is now (L-1)/(k-1), before the restart L/k: compare accept lengths, not rates"
    ]
    printed.restart()
    assert told(printed, 4, new=True) == [], "it is as it was"


def test_a_rate_over_one_is_told_once_and_a_tree_has_no_definition_of_these() -> None:
    printed = PrintedAccept()
    lines = [DecodeBatch(at=float(n), accept_length=4.72, accept_rate=1.24) for n in range(30)]
    said = [one for line in lines if (one := printed.line(line)) is not None]

    assert len(said) == 1 and said[0].startswith("accept rate 1.24 is over 1")
    tree = PrintedAccept()
    for n in range(60):
        tree.line(DecodeBatch(at=float(n), accept_length=2.0 + n % 3, accept_rate=0.07 if n % 2 else 0.31))
    assert tree.formula is None
    assert tree.line(DecodeBatch(at=99.0, accept_length=2.0)) is None


def grown(printed: PrintedAccept, *, twice: bool, interval: int = 1, lines: int = 3 * GROWTH_LINES) -> list[str]:
    random, said, total = Random(3), [], 1000
    for number in range(lines):
        committed = [CODE.draw(random) for _ in range(interval)]
        total += sum(committed)
        length = sum(committed) / interval + (1.0 if twice else 0.0)
        flags: tuple[Flag, ...] = ("prefill",) if number % 90 == 89 else ()
        sample = Sample(
            at=float(number), batch=1, total_context_tokens=total, accept_length=round(length, 2), flags=flags
        )
        said.append(printed.sample(sample))
    return [one for one in said if one is not None]


@pytest.mark.parametrize("interval", [1, 40])
def test_a_bonus_token_that_counts_twice_is_told_once(interval: int) -> None:
    printed = PrintedAccept()
    printed.interval = interval
    (said,) = grown(printed, twice=True, interval=interval)
    assert said.startswith("accept length in this log is one token per step too high: ")
    assert grown(printed, twice=True, interval=interval) == []
    printed.restart()
    assert len(grown(printed, twice=True, interval=interval)) == 1, "another process may be another version"


def test_nothing_is_told_where_all_is_right_or_unknown() -> None:
    right, unknown, forgetful = PrintedAccept(), PrintedAccept(), PrintedAccept()
    right.interval = forgetful.interval = 1
    assert grown(right, twice=False) == []
    assert grown(unknown, twice=True) == [], "how many steps a line stands for is not known"
    for number in range(4 * GROWTH_LINES):
        # A pool that keeps a window only does not grow, whatever is committed.
        assert forgetful.sample(Sample(at=float(number), batch=1, total_context_tokens=500, accept_length=2.0)) is None
