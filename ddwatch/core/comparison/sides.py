"""Keeps one side of a comparison: its clean samples by cell of batch and context, bounded, and their exact sums."""

from collections.abc import Iterator
from math import floor, log
from typing import NamedTuple

from ddwatch.core.expectation.retention import Coupling, Thinned
from ddwatch.core.snapshot import Provenance, Sample

SINGLE_BATCHES = 8
"""Up to this batch each number of requests is a cell of its own."""
BATCH_STEP = log(1.06)
CONTEXT_STEP = log(1.2)
SHORTEST = 256.0
"""Below this total context a step costs the same."""
CELL_SIZE = 256
"""Readings kept of one cell; a fuller one keeps every second, then every fourth, spread over its whole time."""
MOST_CELLS = 256
MOST_READINGS = 8192


class Cell(NamedTuple):
    """Loads that are compared with each other; samples of two sources are never set against each other."""

    provenance: Provenance
    batch: int
    """The batch itself up to 8, beyond that the number of a step of 6 %."""
    context: int
    """Number of the step of 1.2x in total context."""


class Reading(NamedTuple):
    """What is kept of one clean sample."""

    at: float
    batch: int
    total_context: float
    step_seconds: float
    accept_length: float


class Sums(NamedTuple):
    """Exact sums over all clean samples of a side, kept or not."""

    samples: int = 0
    batch: float = 0.0
    tokens: float = 0.0
    """Tokens of one step, all requests."""
    context: float = 0.0
    total_context: float = 0.0
    seconds: float = 0.0


def cell_of(provenance: Provenance, batch: int, total_context: float) -> Cell:
    """The cell of a load."""
    number = batch if batch <= SINGLE_BATCHES else SINGLE_BATCHES + round(log(batch / SINGLE_BATCHES) / BATCH_STEP)
    return Cell(provenance, number, floor(log(max(total_context, SHORTEST)) / CONTEXT_STEP))


class Side:
    """Everything that was measured between two restarts (or up to a moment, or from it on)."""

    def __init__(self, coupled: bool | None = None) -> None:
        """Begins empty; `coupled` says whether DP ranks step together, None takes it as yes."""
        self._coupling = Coupling(coupled)
        self._cells: dict[Cell, Thinned[Reading]] = {}
        self._held = 0
        self.sums = Sums()
        self.seen = 0
        """Samples that came in, flagged ones too."""
        self.first_at: float | None = None
        """Time of the first clean sample."""
        self.last_at: float | None = None

    def see(self, sample: Sample) -> Cell | None:
        """Takes a sample in order of time; returns the cell of a clean one."""
        self.seen += 1
        load = self._coupling.observation(sample)
        if load is None or load.own_batch is None or load.context_tokens is None:
            return None
        # Without speculation no accept length is printed and each step commits one token.
        accept = 1.0 if sample.accept_length is None else sample.accept_length
        reading = Reading(sample.at, load.batch, load.total_context, load.step_seconds, accept)
        if self.first_at is None:
            self.first_at = sample.at
        self.last_at = sample.at
        sums = self.sums
        self.sums = Sums(
            sums.samples + 1,
            sums.batch + load.own_batch,
            sums.tokens + load.own_batch * accept,
            sums.context + load.context_tokens,
            sums.total_context + load.total_context,
            sums.seconds + load.step_seconds,
        )
        cell = cell_of(sample.provenance, load.batch, load.total_context)
        self._keep(cell, reading)
        return cell

    def _keep(self, cell: Cell, reading: Reading) -> None:
        thinned = self._cells.get(cell)
        if thinned is None:
            if len(self._cells) >= MOST_CELLS:
                self._drop_poorest()
            thinned = self._cells[cell] = Thinned()
        self._held += thinned.offer(reading)
        if len(thinned.items) > CELL_SIZE:
            self._held -= thinned.halve()
        while self._held > MOST_READINGS:
            self._held -= max(self._cells.values(), key=lambda one: len(one.items)).halve()

    def _drop_poorest(self) -> None:
        poorest = min(self._cells, key=lambda cell: len(self._cells[cell].items))
        self._held -= len(self._cells.pop(poorest).items)

    @property
    def clean(self) -> int:
        """Clean samples that came in."""
        return self.sums.samples

    def cells(self) -> dict[Cell, list[Reading]]:
        """The kept readings by cell, each cell in order of time."""
        return {cell: thinned.items for cell, thinned in self._cells.items()}

    def readings(self) -> Iterator[Reading]:
        """All kept readings, cell by cell."""
        for thinned in self._cells.values():
            yield from thinned.items
