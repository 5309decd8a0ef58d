"""What the accept figures that SGLang prints mean: their definitions changed, and once the bonus token counted twice.

Nothing is judged by the accept rate; but who compares it across an upgrade is misled, and should be told.
"""

from collections import OrderedDict
from typing import Literal, NamedTuple

from ddwatch.core.records import DecodeBatch
from ddwatch.core.snapshot import Sample

Formula = Literal["L/k", "(L-1)/(k-1)"]
"""Accept rate from the accept length L and k draft tokens: until April 2026, and after."""
MOST_DRAFTS = 128
HALF_DIGIT = 0.0051
"""Half of the last digit that is printed, and a little for the arithmetic."""
FEWEST_LINES = 20
"""Lines that must agree on a definition."""
GROWTH_LINES = 60
"""Neighbouring clean lines of one rank over which the growth of the pool is compared with the accept length."""
ONE_TOKEN = (0.85, 1.15)
"""What counts as one token per step too many."""
SMALLEST_LENGTH = 2.0
MOST_RANKS = 256


class Definition(NamedTuple):
    """One way to compute the accept rate."""

    formula: Formula
    drafts: int


def definitions(length: float, rate: float, drafts: int | None = None) -> frozenset[Definition]:
    """All definitions by which a printed accept length gives a printed rate.

    Args:
        length: the accept length.
        rate: the accept rate beside it.
        drafts: draft tokens per step, where the server's arguments tell.
    """
    found: set[Definition] = set()
    for k in range(2, MOST_DRAFTS + 1) if drafts is None else (drafts,):
        if abs(length / k - rate) <= HALF_DIGIT * (1.0 + 1.0 / k):
            found.add(Definition("L/k", k))
        if k > 1 and abs((length - 1.0) / (k - 1) - rate) <= HALF_DIGIT * (1.0 + 1.0 / (k - 1)):
            found.add(Definition("(L-1)/(k-1)", k))
    return frozenset(found)


class _Growth:
    """How the pool of one rank grew over neighbouring clean lines."""

    __slots__ = ("batch", "grown", "length", "lines", "steps", "total")

    def __init__(self) -> None:
        self.batch: int | None = None
        self.total = 0
        self.lines = 0
        self.grown = 0.0
        self.steps = 0.0
        self.length = 0.0


class PrintedAccept:
    """Told of every decode line and sample of one service; says each thing once per process of it."""

    def __init__(self) -> None:
        self.drafts: int | None = None
        """Draft tokens per step, once the arguments tell."""
        self.interval: int | None = None
        """Steps per decode line, once the arguments tell."""
        self._before: Formula | None = None
        self._begin()

    def _begin(self) -> None:
        self._left: frozenset[Definition] | None = None
        self._lines = 0
        self._over_one = False
        self._twice = False
        self._ranks: OrderedDict[tuple[str | None, int | None], _Growth] = OrderedDict()

    @property
    def formula(self) -> Formula | None:
        """How this process computes the accept rate; None while that is not sure, and for trees."""
        left = self._left if self._lines >= FEWEST_LINES else None
        formulas = {one.formula for one in left or ()}
        return formulas.pop() if len(formulas) == 1 else None

    def restart(self) -> None:
        """Another process may be another version."""
        self._before = self.formula or self._before
        self._begin()

    def line(self, record: DecodeBatch) -> str | None:
        """Takes a decode line; returns what should be told of the rate."""
        length, rate = record.accept_length, record.accept_rate
        if length is None or rate is None:
            return None
        known = self.formula
        if self._lines < FEWEST_LINES:
            fits = definitions(length, rate, self.drafts)
            self._left = fits if self._left is None else self._left & fits
            self._lines += 1
        now, before = self.formula, self._before
        if rate > 1.0 + HALF_DIGIT and not self._over_one:
            self._over_one = True
            return f"accept rate {rate:.2f} is over 1: as it is defined here it says nothing; see the accept length"
        if known is None and now is not None and before is not None and now != before:
            return f"accept rate is now {now}, before the restart {before}: compare accept lengths, not rates"
        return None

    def sample(self, sample: Sample) -> str | None:
        """Takes a sample; returns what should be told of the accept length."""
        key = (sample.engine, sample.dp_rank)
        batch, total, length = sample.batch, sample.total_context_tokens, sample.accept_length
        if self._twice or self.interval is None or sample.provenance != "log":
            return None
        if not sample.clean or batch is None or total is None or length is None:
            self._ranks.pop(key, None)
            return None
        growth = self._ranks.pop(key, None)
        if growth is None or growth.batch != batch:
            growth = _Growth()
        else:
            growth.lines += 1
            growth.grown += total - growth.total
            growth.steps += batch * self.interval
            growth.length += length
        growth.batch, growth.total = batch, total
        self._ranks[key] = growth
        if len(self._ranks) > MOST_RANKS:
            self._ranks.popitem(last=False)
        return self._counted_twice(growth) if growth.lines >= GROWTH_LINES else None

    def _counted_twice(self, growth: _Growth) -> str | None:
        grown, printed = growth.grown / growth.steps, growth.length / growth.lines
        growth.lines, growth.grown, growth.steps, growth.length = 0, 0.0, 0.0, 0.0
        low, high = ONE_TOKEN
        # Every step commits a token at least; a pool that grows by less is one that forgets.
        if grown < 1.0 or printed < SMALLEST_LENGTH or not low <= printed - grown <= high:
            return None
        self._twice = True
        return (
            f"accept length in this log is one token per step too high: {printed:.2f} printed, {grown:.2f} by the "
            "growth of the pool; this SGLang counts the bonus token twice, in throughput too"
        )
